"""Host time of planning a new shape whose kernel is already compiled and loaded.

    python -m tilewright.bench.planning_time --json results/planning_time.json

On a GPU with torch, this times `tilewright.plan` as it is. Elsewhere it plans NumPy arrays for an H200 that is not
there, and the time leaves out loading the kernel and prebuilding its launch.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import numpy as np

from tilewright.api import plan
from tilewright.backends.protocol import Executable
from tilewright.bench import torch_on_gpu
from tilewright.bench.host_calls import options, report
from tilewright.hardware import H200
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import KernelArguments, LaunchShape
from tilewright.operand import Operand

SHAPES = 2000
"""Number of shapes that are planned in turn: more than any cache keeps, so each shape is new."""

CALLS = 200
"""Plans per sample."""

KERNELS = {"wgmma": ("bfloat16", 64), "mma": ("bfloat16", 63), "simt": ("float32", 64)}
"""The element type and the extent k for which each kernel is chosen on an H200."""


class AbsentGpu:
    """A Backend that stands in for an H200 and never launches anything."""

    name = "absent"
    hardware = H200

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: KernelArguments) -> Executable:
        """Load nothing, and return an Executable that must not be called."""

        def refuse(pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
            raise AssertionError("only planned for")

        return refuse

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        """Copy nothing: there are no addresses."""
        yield {}

    def reads_in_place(self, device: int) -> bool:
        """Always, as a GPU reads its own memory."""
        return True

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Always: there is nothing to load."""
        return True

    def check_stream(self, stream: int) -> None:
        """Accept any stream."""

    def is_capturing(self, stream: int) -> bool:
        """Never: there are no streams."""
        return False


def planners(torch: Any | None) -> dict[str, Callable[[], Any]]:
    """One function per kernel that plans the next of SHAPES shapes: 64 rows of one matrix, then 65, and so on."""
    found: dict[str, Callable[[], Any]] = {}
    for kernel, (name, k) in KERNELS.items():
        if torch:
            options: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, name)}
            a, b, out = (torch.empty(*shape, **options) for shape in ((64 + SHAPES, k), (k, 64), (64 + SHAPES, 64)))
            backend: Any = "gpu"
        else:
            dtype = np.dtype("float32" if name == "float32" else "float16")
            a, b, out = (np.empty(shape, dtype) for shape in ((64 + SHAPES, k), (k, 64), (64 + SHAPES, 64)))
            backend = AbsentGpu()
        shapes = [(a[:rows], out[:rows]) for rows in range(64, 64 + SHAPES)]
        for rows, target in shapes:  # compiles what they need
            chosen = plan(rows, b, out=target, backend=backend).kernel
            assert chosen is not None
            assert chosen.name == kernel
        upcoming = cycle(shapes)

        def next_plan(upcoming: Any = upcoming, b: Any = b, backend: Any = backend) -> Any:
            rows, target = next(upcoming)
            return plan(rows, b, out=target, backend=backend)

        found[f"plan of a new shape, {kernel}"] = next_plan
    return found


def main() -> None:
    """Measure, print a table and write the JSON."""
    chosen, torch = options(__doc__), None
    try:
        torch = torch_on_gpu()
    except RuntimeError:
        print("no GPU with torch: NumPy arrays are planned for an H200 that is not there")
    report("planning_time", chosen, planners(torch), CALLS, torch)


if __name__ == "__main__":
    main()
