"""The Configs of our kernels beside the template parameters of CUTLASS: what each choice is called there.

Sources: CUTLASS's documentation, "GEMM API 3.x" (collective builders and kernel schedules of Hopper) and "GEMM API 2.x"
(threadblocks and warps).
"""

from typing import Any, NamedTuple

from tilewright.dtypes import FP8, DType
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.mma import MmaConfig, MmaConstants
from tilewright.kernels.simt import SimtConfig, SimtConstants
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.kernels.wgmma.constants import WgmmaConstants
from tilewright.problem import Matrix, Problem

_ELEMENTS = {
    "bf16": "cutlass::bfloat16_t", "fp16": "cutlass::half_t", "fp32": "float", "fp8_e4m3": "cutlass::float_e4m3_t",
    "fp8_e5m2": "cutlass::float_e5m2_t", "int8": "int8_t", "int32": "int32_t",
}  # fmt: skip

_COLLECTIVES = "3.x: CollectiveBuilder and GemmUniversal"
_THREADBLOCKS = "2.x: device::GemmUniversal"


class Parameter(NamedTuple):
    """A template parameter or argument of CUTLASS, its value, and the fields of our Config that say the same."""

    name: str
    value: str
    ours: str


class Counterpart(NamedTuple):
    """The kernel of CUTLASS that is closest to one of ours. unknown: fields that it has no parameter for."""

    api: str
    parameters: tuple[Parameter, ...]
    unknown: tuple[str, ...]


def counterpart(kernel: Kernel, config: Any, problem: Problem, gpu: Hardware) -> Counterpart:
    """What CUTLASS calls the choices of a Config for a problem.

    Raises an ArgumentValueError for a kernel without a counterpart, and a ConfigError for a Config that breaks a rule.
    """
    constants = kernel.check(config, problem, gpu)
    solved = kernel.oriented(config, problem)
    if isinstance(config, WgmmaConfig):
        api, parameters = _COLLECTIVES, _hopper(config, constants, solved)
    elif isinstance(config, MmaConfig):
        warp = Parameter(
            "WarpShape", _gemm_shape(constants.warp_m, constants.warp_n, config.tile_k), "warps_m, warps_n"
        )
        stages = Parameter("Stages", str(config.stages), "stages")
        instruction = (16, 8, 32 // problem.a.dtype.nbytes)
        api, parameters = _THREADBLOCKS, _threadblocks(constants, "TensorOp", warp, instruction, stages, solved, gpu)
    elif isinstance(config, SimtConfig):
        warp = Parameter("WarpShape", _gemm_shape(config.warp_m, config.warp_n, config.tile_k), "warp_m, warp_n")
        stages = Parameter("Stages", "2", "")
        api, parameters = _THREADBLOCKS, _threadblocks(constants, "Simt", warp, (1, 1, 1), stages, solved, gpu)
        if not solved.batch:  # of a batch, that field counts its products
            parameters.append(Parameter("mode, batch_count", f"GemmUniversalMode::kGemm, {config.split_k}", "split_k"))
    else:
        raise ArgumentValueError(f"kernel={kernel.name!r} has no counterpart in CUTLASS: use wgmma, mma or simt")
    said = ", ".join(parameter.ours for parameter in parameters).split(", ")
    return Counterpart(api, tuple(parameters), tuple(name for name in values_of(config) if name not in said))


def _hopper(config: WgmmaConfig, constants: WgmmaConstants, problem: Problem) -> list[Parameter]:
    together = "Cooperative" if constants.sharers > 1 else ""
    schedule = "KernelTmaWarpSpecialized" + ("Pingpong" if config.ping_pong else together)
    schedule += "FP8FastAccum" if problem.a.dtype in FP8 and problem.fast_accumulation else ""
    by_tma = "TmaWarpSpecialized" + together
    tile = _shape(config.tile_m, config.tile_n, config.tile_k)
    scheduler = "StreamKScheduler" if config.split_k > 1 else "PersistentScheduler"
    return [
        Parameter("ArchTag", "cutlass::arch::Sm90", ""),
        Parameter("OperatorClass", "cutlass::arch::OpClassTensorOp", ""),
        *_operands(problem, swapped="swap_ab"),
        Parameter("TileShape_MNK", tile, "tile_m, tile_n, tile_k"),
        Parameter("ClusterShape_MNK", _shape(config.cluster_m, config.cluster_n, 1), "cluster_m, cluster_n"),
        Parameter("StageCount", f"StageCount<{config.stages}>", "stages"),
        Parameter("KernelSchedule", schedule, "ping_pong"),
        Parameter("EpilogueSchedule", by_tma if config.epilogue == "tma" else "NoSmemWarpSpecialized", "epilogue"),
        Parameter("TileScheduler", scheduler, ""),
        Parameter("scheduler.splits", str(config.split_k), "split_k"),
        Parameter("scheduler.max_swizzle_size", str(config.group_m), "group_m"),
    ]


def _threadblocks(
    constants: MmaConstants | SimtConstants,
    operator: str,
    warp: Parameter,
    instruction: tuple[int, int, int],
    stages: Parameter,
    problem: Problem,
    gpu: Hardware,
) -> list[Parameter]:
    tile = _gemm_shape(constants.tile_m, constants.tile_n, constants.tile_k)
    return [
        *_operands(problem),
        Parameter("OperatorClass", f"cutlass::arch::OpClass{operator}", ""),
        Parameter("ArchTag", f"cutlass::arch::Sm{min(gpu.capability, 89 if problem.a.dtype in FP8 else 80)}", ""),
        Parameter("ThreadblockShape", tile, "tile_m, tile_n, tile_k"),
        warp,
        Parameter("InstructionShape", _gemm_shape(*instruction), ""),
        Parameter("ThreadblockSwizzle", f"GemmIdentityThreadblockSwizzle<{constants.group_m}>", "group_m"),
        stages,
        Parameter("AlignmentA, AlignmentB", f"{constants.a_copy_elements}, {constants.b_copy_elements}", ""),
    ]


def _operands(problem: Problem, swapped: str = "") -> list[Parameter]:
    layouts = {"A": problem.a, "B": problem.b, "C": problem.out}
    return [
        Parameter(f"Element{name}, Layout{name}", f"{_element(matrix.dtype)}, {_layout(matrix)}", swapped)
        for name, matrix in layouts.items()
    ] + [Parameter("ElementAccumulator", "int32_t" if problem.a.dtype.kind == "integer" else "float", "")]


def _element(dtype: DType) -> str:
    return _ELEMENTS[dtype.name]


def _layout(matrix: Matrix) -> str:
    return f"cutlass::layout::{'Row' if matrix.is_row_major else 'Column'}Major"


def _shape(*extents: int) -> str:
    return f"Shape<{', '.join(f'_{extent}' for extent in extents)}>"


def _gemm_shape(*extents: int) -> str:
    return f"GemmShape<{', '.join(map(str, extents))}>"
