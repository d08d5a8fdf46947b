"""tilewright: an open GEMM for NVIDIA GPUs whose kernels also run, and are checked, on a laptop.

import tilewright as tw

out = tw.matmul(a, b, bias=bias, activation="gelu")
result = tw.check(Path("scale.ptx"), array, 2.5, grid=1, block=256)    # any compiler's PTX, in the emulator
record = tw.ladder.measure(256, ["coalesced", "simt"])
print(tw.explain(tw.spec((16, 4096), "bf16"), tw.spec((4096, 4096), "bf16"), gpu="H100"))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright import ladder as ladder
    from tilewright.api import matmul as matmul
    from tilewright.api import plan as plan
    from tilewright.api.quantization import quantize as quantize
    from tilewright.backends.driver_calls import CudaError as CudaError
    from tilewright.checking.call import check as check
    from tilewright.checking.host_memory import TensorMap as TensorMap
    from tilewright.checking.result import CheckResult as CheckResult
    from tilewright.checking.structures import Struct as Struct
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.explaining.explained import explain as explain
    from tilewright.explaining.explanation import Explanation as Explanation
    from tilewright.jit.compile import CompilationError as CompilationError
    from tilewright.jit.compile import CompilerMissing as CompilerMissing
    from tilewright.kernels.copy import CopyConfig as CopyConfig
    from tilewright.kernels.gemv import GemvConfig as GemvConfig
    from tilewright.kernels.kernel import ConfigError as ConfigError
    from tilewright.kernels.ladder.hopper import ScheduleConfig as ScheduleConfig
    from tilewright.kernels.ladder.warp_tensor_cores import MmaWarpConfig as MmaWarpConfig
    from tilewright.kernels.mma import MmaConfig as MmaConfig
    from tilewright.kernels.simt import SimtConfig as SimtConfig
    from tilewright.kernels.wgmma.config import WgmmaConfig as WgmmaConfig
    from tilewright.operand import Spec as Spec
    from tilewright.operand import spec as spec
    from tilewright.planner.plan import Plan as Plan
    from tilewright.planner.range_plan import RangePlan as RangePlan

__version__ = "0.1.0"

_HOMES = {
    "matmul": "api",
    "plan": "api",
    "quantize": "api.quantization",
    "explain": "explaining.explained",
    "Explanation": "explaining.explanation",
    "spec": "operand",
    "Spec": "operand",
    "check": "checking.call",
    "CheckResult": "checking.result",
    "Struct": "checking.structures",
    "TensorMap": "checking.host_memory",
    "Plan": "planner.plan",
    "RangePlan": "planner.range_plan",
    "CopyConfig": "kernels.copy",
    "GemvConfig": "kernels.gemv",
    "MmaConfig": "kernels.mma",
    "SimtConfig": "kernels.simt",
    "WgmmaConfig": "kernels.wgmma.config",
    "MmaWarpConfig": "kernels.ladder.warp_tensor_cores",
    "ScheduleConfig": "kernels.ladder.hopper",
    "TilewrightError": "errors",
    "ConfigError": "kernels.kernel",
    "CompilationError": "jit.compile",
    "CompilerMissing": "jit.compile",
    "CudaError": "backends.driver_calls",
}

__all__ = [
    "CheckResult",
    "CompilationError",
    "CompilerMissing",
    "ConfigError",
    "CopyConfig",
    "CudaError",
    "Explanation",
    "GemvConfig",
    "MmaConfig",
    "MmaWarpConfig",
    "Plan",
    "RangePlan",
    "ScheduleConfig",
    "SimtConfig",
    "Spec",
    "Struct",
    "TensorMap",
    "TilewrightError",
    "WgmmaConfig",
    "check",
    "explain",
    "ladder",
    "matmul",
    "plan",
    "quantize",
    "spec",
]

if not TYPE_CHECKING:  # type checkers see the imports above, and with them misspelled names

    def __getattr__(name: str) -> Any:
        # Loaded at first use, so that importing tilewright costs next to nothing.
        from importlib import import_module

        if name == "ladder":
            return import_module("tilewright.ladder")
        if name not in _HOMES:
            raise AttributeError(f"module 'tilewright' has no attribute {name!r}; it has {', '.join(__all__)}")
        value = getattr(import_module(f"tilewright.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
