"""Kernel `wgmma`: Hopper's asynchronous tensor cores fed by TMA; bf16 and fp16 in any of the four layouts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Literal

from tilewright.dtypes import bf16, fp16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.jit.source import CudaType, wgmma_wrapper
from tilewright.kernels import tma
from tilewright.kernels.family import AvoidableRefusal, Constants, Kernel, epilogue_constants
from tilewright.kernels.parameters import LaunchShape, TensorMapSpec
from tilewright.kernels.tiling import oversized
from tilewright.problem import Matrix, Problem

TILE_K = 64
"""Elements of a k-block: one row of 128 bytes, the widest swizzle span. 32 and 128 were measured 1-3% behind."""

SMEM_ALIGNMENT = 1024
"""The largest swizzle atom, which slots start on."""

WARPGROUP = 128
CONSUMERS = 2
"""Warpgroups that multiply. Three leave too few registers for 256 columns each."""


@dataclass(frozen=True, slots=True)
class WgmmaConfig:
    """How `wgmma` does a product.

    A CTA makes one (`tile_m`, `tile_n`) tile of out at a time through a ring of `stages` k-blocks; a cluster makes
    `cluster_m` x `cluster_n` of them and shares loads; clusters walk out in bands of `group_m` of their tile rows.
    `epilogue` goes to out through shared memory ("tma") or straight from registers ("direct"); with `overlap` it runs
    behind the next tile's multiplications. `wait_depth` k-blocks of wgmma stay in flight.
    """

    tile_m: int = 128
    tile_n: int = 256
    stages: int = 4
    cluster_m: int = 1
    cluster_n: int = 1
    group_m: int = 8
    epilogue: Literal["tma", "direct"] = "tma"
    overlap: bool = True
    wait_depth: int = 0


# Where two cost the same, the first is taken.
_CANDIDATES = (
    WgmmaConfig(128, 256, 4, cluster_m=2),
    WgmmaConfig(128, 256, 4),
    WgmmaConfig(256, 128, 4),
    WgmmaConfig(256, 208, 3, epilogue="direct"),
    WgmmaConfig(256, 200, 3, epilogue="direct"),
    WgmmaConfig(256, 192, 4, epilogue="direct"),
    WgmmaConfig(256, 176, 4),
    WgmmaConfig(128, 192, 4),
    WgmmaConfig(128, 128, 6),
    WgmmaConfig(128, 64, 8),
)


class WgmmaKernel(Kernel):
    """Persistent warp-specialised GEMM for sm_90a: TMA ring, wgmma, multicast in clusters."""

    name = "wgmma"
    execution_unit = "wgmma"
    summary = "Hopper's asynchronous tensor cores (wgmma) fed by TMA; bf16 and fp16, operands that TMA can address"
    config_type = WgmmaConfig
    header = "kernels/wgmma.cuh"
    rules = (
        (
            "row_blocks >= 1 and row_blocks <= 2 and tile_m == 64 * consumers * row_blocks",
            "each consumer warpgroup takes one or two blocks of 64 rows: make tile_m 128 or 256",
        ),
        ("tile_n >= 8 and tile_n <= 256 and tile_n % 8 == 0", "wgmma multiplies 8, 16, ... 256 columns"),
        ("accumulators <= 208", "a thread has registers for 208 accumulators: take a smaller tile_n or tile_m"),
        ("stages >= 2", "loading and multiplying take a slot each"),
        ("cluster_m == 1 or cluster_m == 2", "clusters of 1 or 2 along m were measured to pay"),
        ("cluster_n == 1 or cluster_n == 2", "clusters of 1 or 2 along n were measured to pay"),
        (
            "b_mn_major or tile_n % (8 * cluster_m) == 0",
            "a multicast slice of B is whole swizzle atoms of 8 rows: make tile_n a multiple of 8 * cluster_m",
        ),
        ("group_m >= 1 and group_m <= 64", "tiles are walked in bands of 1 to 64 rows"),
        ("tma_epilogue or direct_epilogue", "epilogue is 'tma' or 'direct'"),
        (
            "direct_epilogue or (output_bytes == 2 and tile_n % 16 == 0)",
            "stmatrix stages 16 columns of 2-byte elements at a time: take epilogue='direct'",
        ),
        ("direct_epilogue or out_by_tma", "TMA cannot write out, or would write beyond it: take epilogue='direct'"),
        ("not overlap or output_bytes == 2", "a tile that is held back must be packed: take overlap=False"),
        (
            "wait_depth == 0 or (wait_depth == 1 and not overlap)",
            "overlap waits for each k-block: take wait_depth=0 or overlap=False",
        ),
    )

    def rejects(self, problem: Problem, hardware: Hardware) -> str | None:
        """Why `wgmma` does not take the problem: GPU, dtypes, empty sums, its size, or what TMA cannot address."""
        a, b = problem.a.dtype, problem.b.dtype
        if hardware.arch != "sm_90a":
            return f"wgmma needs sm_90a (Hopper) and {hardware.name} is {hardware.arch}"
        if a != b or a not in (bf16, fp16):
            return f"wgmma multiplies bf16 by bf16 or fp16 by fp16, and a is {a}, b is {b}"
        if problem.is_empty or problem.k == 0:
            return f"wgmma needs at least one product to sum, and the problem is {problem}"
        if reason := oversized(problem):
            return reason
        for operand in (_operand_a(problem), _operand_b(problem)):
            if isinstance(operand, str):
                return AvoidableRefusal(operand)
        return None

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[WgmmaConfig]:
        """The candidates, adapted to the problem, the least estimated time first."""
        most = _most_accumulators(problem)
        fitted = (
            self._fitted(config, problem, hardware)
            for config in _CANDIDATES
            if config.tile_m * config.tile_n <= most * WARPGROUP * CONSUMERS
            and config.cluster_m * config.cluster_n <= hardware.sm_count
        )
        return sorted(dict.fromkeys(fitted), key=lambda config: self._cycles(config, problem, hardware))

    def _fitted(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> WgmmaConfig:
        """`config` with the epilogue that out allows and as many of its stages as fit; MN-major tiles may be larger."""
        if problem.out.dtype.nbytes != 2:
            config = replace(config, epilogue="direct", overlap=False)
        elif isinstance(_out(problem), str):
            config = replace(config, epilogue="direct")
        while int(self.constants(config, problem)["smem_bytes"]) > hardware.smem_bytes:  # type: ignore[arg-type]
            config = replace(config, stages=config.stages - 1)
        return config

    def _cycles(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> float:
        """Estimated clocks: waves of clusters, times k-blocks of multiplication and, mostly hidden, delivery into SMEM.

        300 bytes per clock and 1500 clocks per tile put the measured winners first; they are no rates of the hardware.
        """
        constants = self.constants(config, problem)
        waves = ceil(_cluster_tiles(config, problem) / (hardware.sm_count // (config.cluster_m * config.cluster_n)))
        multiply = config.tile_m * config.tile_n * TILE_K / hardware.tensor_macs
        deliver = int(constants["stage_bytes"]) / 300  # type: ignore[arg-type]
        return waves * (ceil(problem.k / TILE_K) * (multiply + deliver) + 1500)

    def constants(self, config: WgmmaConfig, problem: Problem) -> Constants:
        """The Config's fields, how A and B lie in memory, and the sizes that follow."""
        fields = asdict(config)
        epilogue = fields.pop("epilogue")
        a, b = _operand_a(problem), _operand_b(problem)
        a_mn_major = not isinstance(a, str) and a[1]
        b_mn_major = not isinstance(b, str) and b[1]
        row_blocks = config.tile_m // (64 * CONSUMERS)
        accumulators = row_blocks * config.tile_n // 2
        a_bytes = _smem_bytes(config.tile_m, a_mn_major)
        b_bytes = _smem_bytes(config.tile_n, b_mn_major)
        tma_epilogue = epilogue == "tma"
        store_columns = next(columns for columns in (64, 32, 16, 8) if config.tile_n % columns == 0 or columns == 8)
        store_buffers = 2
        store_bytes = 16 * store_columns * 2
        staging_bytes = CONSUMERS * 4 * store_buffers * store_bytes if tma_epilogue else 0
        barrier_bytes = 2 * 8 * config.stages
        used = config.stages * (a_bytes + b_bytes) + staging_bytes + barrier_bytes
        many = accumulators > 200  # the producer then lives on fewer registers
        return {
            **fields,
            "tile_k": TILE_K,
            "Input": CudaType(problem.a.dtype.cuda),
            "a_mn_major": a_mn_major,
            "b_mn_major": b_mn_major,
            "tma_epilogue": tma_epilogue,
            "direct_epilogue": epilogue == "direct",
            "out_by_tma": not isinstance(_out(problem), str),
            "output_bytes": problem.out.dtype.nbytes,
            "vector_stores": not tma_epilogue
            and problem.out.dtype.nbytes == 2
            and problem.n % 8 == 0
            and problem.out.vector_bytes("column") == 16,
            "consumers": CONSUMERS,
            "threads": WARPGROUP * (1 + CONSUMERS),
            "row_blocks": row_blocks,
            "accumulators": accumulators,
            "producer_registers": 24 if many else 40,
            "consumer_registers": 240 if many else 232,
            "a_bytes": a_bytes,
            "b_bytes": b_bytes,
            "stage_bytes": a_bytes + b_bytes,
            "store_columns": store_columns,
            "store_buffers": store_buffers,
            "store_bytes": store_bytes,
            "staging_bytes": staging_bytes,
            "smem_bytes": -(-used // SMEM_ALIGNMENT) * SMEM_ALIGNMENT,
            "out_pairs": _has_pairs(problem.out, problem.n),
            "c_pairs": _has_pairs(problem.c, problem.n),
            "bias_pairs": _has_pairs(problem.bias, problem.n),
            **epilogue_constants(problem),
        }

    def tile_count(self, config: WgmmaConfig, problem: Problem) -> int:
        """Tiles of whole clusters that cover out, batches included."""
        return _cluster_tiles(config, problem) * config.cluster_m * config.cluster_n

    def launch_shape(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> LaunchShape:
        """A CTA for each SM, or for each tile; each stays until all tiles are done.

        Clusters of four, which an H200 holds 30 of at a time instead of 33, start their last three late.
        """
        constants = self.constants(config, problem)
        cluster = config.cluster_m * config.cluster_n
        clusters = min(_cluster_tiles(config, problem), hardware.sm_count // cluster)
        return LaunchShape(clusters * cluster, constants["threads"], cluster, constants["smem_bytes"])  # type: ignore[arg-type]

    def tensor_maps(self, config: WgmmaConfig, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The maps of A and B, whose boxes are multicast slices, and of out with the TMA epilogue."""
        constants = self.constants(config, problem)
        maps = []
        for operand, tile, slices in (
            (_operand_a(problem), config.tile_m, config.cluster_n),
            (_operand_b(problem), config.tile_n, config.cluster_m),
        ):
            if isinstance(operand, str):
                raise ArgumentValueError(f"{operand}: take another kernel")
            tensor, mn_major = operand
            maps.append(tensor.map(64, (TILE_K if mn_major else tile) // slices))
        out = _out(problem)
        if constants["tma_epilogue"] and not isinstance(out, str):
            maps.append(out.map(int(constants["store_columns"]), 16))  # type: ignore[arg-type]
        return tuple(maps)

    def preamble(self, constants: Constants) -> str:
        """The one wgmma instruction of this Config."""
        name = constants["Input"].spelling  # type: ignore[union-attr]
        a, b = ("MN" if constants[f"{operand}_mn_major"] else "K" for operand in "ab")
        return wgmma_wrapper(int(constants["tile_n"]), "bf16" if name == "bf16" else "f16", a, b)  # type: ignore[arg-type]


def _operand_a(problem: Problem) -> tuple[tma.TmaTensor, bool] | str:
    return tma.factor("a", problem.a, problem.m, problem.k, problem.batch, k="column")


def _operand_b(problem: Problem) -> tuple[tma.TmaTensor, bool] | str:
    return tma.factor("b", problem.b, problem.k, problem.n, problem.batch, k="row")


def _out(problem: Problem) -> tma.TmaTensor | str:
    row_bytes = problem.n * problem.out.dtype.nbytes
    if row_bytes % tma.STORE_BYTES:
        return f"out has rows of {row_bytes} bytes and TMA stores {tma.STORE_BYTES} at a time, past the end of a row"
    return tma.tensor("out", problem.out, problem.m, problem.n, problem.batch, inner="column")


def _most_accumulators(problem: Problem) -> int:
    """Accumulators per thread up to which the epilogue's code, unrolled over all of them, compiles within 1.5 s."""
    computes = problem.c is not None or problem.bias is not None or problem.activation not in (None, "relu")
    accessed = [matrix for name, matrix in problem.operands() if name in ("c", "bias", "out")]
    return 128 if computes and not all(_has_pairs(matrix, problem.n) for matrix in accessed) else 208


def _has_pairs(matrix: Matrix | None, columns: int) -> bool:
    """Whether columns 2i and 2i + 1 of all rows can be accessed at once."""
    return matrix is not None and columns % 2 == 0 and matrix.vector_bytes("column") >= 2 * matrix.dtype.nbytes


def _smem_bytes(rows: int, mn_major: bool) -> int:
    """Bytes of one operand's tile of `rows` along m or n; MN-major comes in panels of 64 (layout/descriptor.cuh)."""
    return ceil(rows / 64) * 64 * TILE_K * 2 if mn_major else rows * TILE_K * 2


def _cluster_tiles(config: WgmmaConfig, problem: Problem) -> int:
    """Tiles of whole clusters that cover out, batches included."""
    rows, columns = config.tile_m * config.cluster_m, config.tile_n * config.cluster_n
    return ceil(problem.m / rows) * ceil(problem.n / columns) * problem.batch_count
