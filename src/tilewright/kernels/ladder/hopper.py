"""The ladder on Hopper's asynchronous tensor cores: TMA and wgmma, layout nt, from load-then-multiply to `wgmma`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dtypes import DType, bf16, fp16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.jit.source import wgmma_wrapper
from tilewright.kernels import tma
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder.kernel import LadderConstants, LadderKernel
from tilewright.kernels.ladder.rung import SHANKHDHAR, Published, Rung
from tilewright.kernels.parameters import LaunchShape, TensorMapSpec
from tilewright.kernels.refusal import Refusal
from tilewright.kernels.wgmma.kernel import WgmmaKernel
from tilewright.model.raster import TILE_ORDERS, TileOrder
from tilewright.problem import Problem
from tilewright.rounding import ceil_div


class HopperKernel(LadderKernel):
    """A kernel of TMA and wgmma: bf16 or fp16, B stored (n, k), out of the same type in rows that start on 16 bytes.

    A CTA's tile goes through `tile_k` columns of A and B at a time, which TMA stores swizzled in rows of 128 bytes. If
    there is a ring, it has `stages` slots, and `consumers` warpgroups read it.
    """

    unit = "wgmma"
    layout = "nt"
    inputs = (bf16, fp16)
    needs = "sm_90a"
    tile_k = 64
    stages: ClassVar[int] = 1
    consumers: ClassVar[int] = 1

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """LadderKernel's reasons, too few SMs for a cluster, out's type, or the limits of TMA."""
        if refusal := super().refuses(problem, hardware):
            return refusal
        if hardware.sm_count < self.cluster_m:  # two such rings do not fit into one SM
            return Refusal(
                f"{self.name} launches clusters of {self.cluster_m} CTAs, each with an SM to itself, and "
                f"{hardware.name} has {hardware.sm_count}: take a kernel without clusters"
            )
        if problem.out.dtype != problem.a.dtype:
            return Refusal(f"{self.name} writes {problem.a.dtype}, the type of a, and out is {problem.out.dtype}")
        for tensor in (_a(problem), _b(problem), _out(problem)):
            if isinstance(tensor, Refusal):
                return Refusal(f"{tensor}: pad it, or take a production kernel")
        return None

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """The sizes of the ring."""
        ring = {"stages": self.stages, "consumers": self.consumers, "stage_bytes": (self.tile_m + self.tile_n) * 128}
        return super().own_constants(config, dtype) | ring

    def tensor_maps(self, constants: LadderConstants, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The maps of A and B; a box is a CTA's load of one k-block."""
        return (
            _addressable(_a(problem)).map(self.tile_k, self.tile_m),
            _addressable(_b(problem)).map(self.tile_k, self.tile_n // self.cluster_m),
        )

    def preamble(self, constants: LadderConstants) -> str:
        """The one wgmma instruction of this kernel."""
        return wgmma_wrapper(self.tile_n, constants.Input.ptx)


def _a(problem: Problem) -> tma.TmaTensor | Refusal:
    return tma.tensor("a", problem.a, problem.m, problem.k, problem.batch, inner="column")


def _b(problem: Problem) -> tma.TmaTensor | Refusal:
    return tma.tensor("b", problem.b, problem.k, problem.n, problem.batch, inner="row")


def _out(problem: Problem) -> tma.TmaTensor | Refusal:
    return tma.tensor("out", problem.out, problem.m, problem.n, problem.batch, inner="column")


def _addressable(tensor: tma.TmaTensor | Refusal) -> tma.TmaTensor:
    if isinstance(tensor, Refusal):
        raise ArgumentValueError(f"{tensor}: take another kernel")
    return tensor


def _ring_bytes(tile_m: int, tile_n: int, stages: int, staging_bytes: int = 0) -> int:
    """Shared memory of `stages` k-blocks of 64 columns of 2 bytes, and of the staged results."""
    return tma.ring_bytes(stages, (tile_m + tile_n) * 128, staging_bytes)


class Basic(HopperKernel):
    """Load a k-block, wait, multiply it, wait."""

    name = "wgmma_basic"
    summary = "tiles come by TMA and are multiplied by wgmma where they lie, one after the other"
    header = "ladder/wgmma_basic.cuh"
    tile_m = tile_n = 64
    threads = 128


class LargerTile(HopperKernel):
    """The same with four times the outputs for twice the bytes."""

    name = "wgmma_larger_tile"
    summary = "a 128 x 128 tile for the same four warps: half the bytes for each multiply-add"
    header = "ladder/wgmma_larger_tile.cuh"
    tile_m = tile_n = 128
    threads = 128


class Pipelined(HopperKernel):
    """A producer and a consumer, with a ring between them."""

    name = "wgmma_pipelined"
    summary = "one warpgroup loads into a ring of slots while another multiplies"
    header = "ladder/wgmma_pipelined.cuh"
    tile_m = tile_n = 128
    stages = 5
    threads = 256
    smem_bytes = _ring_bytes(128, 128, 5)


class TwoConsumers(HopperKernel):
    """Twice the columns, and a warpgroup for each half of the rows."""

    name = "wgmma_two_consumers"
    summary = "a 128 x 256 tile, halved between two warpgroups that multiply"
    header = "ladder/wgmma_two_consumers.cuh"
    tile_m, tile_n = 128, 256
    stages = 3
    consumers = 2
    threads = 384
    smem_bytes = _ring_bytes(128, 256, 3)


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """The order in which the persistent rungs of the ladder take tiles.

    The orders are row by row, in blocks of a wave, and along Hilbert's curve (cuda/layout/raster.cuh).
    """

    schedule: TileOrder = "blocked"


class Persistent(TwoConsumers):
    """Persistent CTAs, and a choice of tile orders."""

    name = "wgmma_persistent"
    summary = "CTAs stay and take tile after tile, so that loads run ahead while results are stored"
    header = "ladder/wgmma_persistent.cuh"
    config_type = ScheduleConfig
    rules = (("schedule >= 0", "schedule is 'row_major', 'blocked' or 'hilbert'"),)
    usual: ClassVar[TileOrder] = "blocked"

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The kernel's own order first, then the others."""
        return tuple(map(ScheduleConfig, sorted(TILE_ORDERS, key=lambda order: order != self.usual)))

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """The schedule as its number, and blocks of 16 x 8 tiles, which are a wave of 128 CTAs."""
        order = TILE_ORDERS.index(config.schedule) if config.schedule in TILE_ORDERS else -1
        blocks = {"block_m": 16 // self.cluster_m, "block_n": 8}
        return super().own_constants(config, dtype) | {"schedule": order} | blocks

    def launch_shape(self, constants: LadderConstants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """The fewest CTAs that make no more waves than one CTA on every SM: fewer CTAs share L2 better."""
        clusters = self.tile_count(constants, problem) // self.cluster_m
        waves = ceil_div(clusters, hardware.sm_count // self.cluster_m)
        return LaunchShape(ceil_div(clusters, waves) * self.cluster_m, self.threads, self.cluster_m, self.smem_bytes)


class LeanBarriers(Persistent):
    """Only arrivals that carry information."""

    name = "wgmma_lean_barriers"
    summary = "one arrival on full, one of each consumer on empty"
    header = "ladder/wgmma_lean_barriers.cuh"


class Multicast(LeanBarriers):
    """Pairs of CTAs share their columns of B."""

    name = "wgmma_multicast"
    summary = "clusters of two CTAs; each loads half of B for both"
    header = "ladder/wgmma_multicast.cuh"
    cluster_m = 2


class Registers(Multicast):
    """Registers where they are needed, no zeroing, and stores that leave L2 alone."""

    name = "wgmma_registers"
    summary = "setmaxnreg gives consumers the producer's registers; the first wgmma overwrites; stores stream"
    header = "ladder/wgmma_registers.cuh"

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """The constants of `Multicast`, and the split of the registers."""
        return super().own_constants(config, dtype) | {"producer_registers": 40, "consumer_registers": 232}


class AsyncStore(Registers):
    """Results go through shared memory and leave by TMA."""

    name = "wgmma_async_store"
    summary = "results go through shared memory, and TMA writes them while the next tile is multiplied"
    header = "ladder/wgmma_async_store.cuh"
    smem_bytes = _ring_bytes(128, 256, 3, staging_bytes=128 * 256 * 2)

    def tensor_maps(self, constants: LadderConstants, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The maps of A and B, and that of out, whose box is one store of a warp."""
        return (*super().tensor_maps(constants, problem), self.out_map(_addressable(_out(problem))))

    def out_map(self, out: tma.TmaTensor) -> TensorMapSpec:
        """The map of out: 16 rows of the tile."""
        return out.map(self.tile_n, 16)._replace(swizzle=0)


class Hilbert(AsyncStore):
    """Tiles along Hilbert's curve."""

    name = "wgmma_hilbert"
    summary = "tiles follow Hilbert's curve, so consecutive ones lie close together"
    header = "ladder/wgmma_hilbert.cuh"
    usual = "hilbert"


class Stmatrix(Hilbert):
    """Staging without bank conflicts."""

    name = "wgmma_stmatrix"
    summary = "stmatrix lays results out in swizzled shared memory, without bank conflicts"
    header = "ladder/wgmma_stmatrix.cuh"

    def out_map(self, out: tma.TmaTensor) -> TensorMapSpec:
        """The map of out: 16 rows of a panel of 64 columns, swizzled."""
        return out.map(64, 16)


def _rung(kernel: Kernel, title: str, idea: str, h100: float | None = None) -> Rung:
    published = (Published(h100, (4096, 4096, 4096), "H100 SXM", SHANKHDHAR),) if h100 else ()
    return Rung(kernel, "Hopper", title, idea, published)


RUNGS = (
    _rung(
        Basic(),
        "TMA and wgmma",
        "One thread starts TMA loads of tiles, and four warps together multiply straight from SMEM.",
        317,
    ),
    _rung(
        LargerTile(),
        "A larger tile",
        "A 128 x 128 tile uses each loaded byte twice as often.",
        423,
    ),
    _rung(
        Pipelined(),
        "A ring between producer and consumer",
        "One warpgroup loads while another multiplies; between them are five slots with two mbarriers each.",
        498,
    ),
    _rung(
        TwoConsumers(),
        "Two consumers",
        "Two warpgroups share the accumulators of a 128 x 256 tile, which is too large for one.",
        610,
    ),
    _rung(
        Persistent(),
        "Persistent CTAs",
        "CTAs stay: the ring fills for the next tile while the last one is stored, and the order of tiles is free.",
        660,
    ),
    _rung(
        LeanBarriers(),
        "Lean barriers",
        "The bytes themselves say that a slot is full, and one thread per warpgroup says that it is empty.",
        704,
    ),
    _rung(
        Multicast(),
        "Clusters and multicast",
        "Two CTAs read their common columns of B once: each reads half, and TMA delivers it to both.",
        734,
    ),
    _rung(
        Registers(),
        "Registers where they are needed",
        "Four small things: consumers take over the producer's registers, nothing is set to zero, the next tile is "
        "located behind products, and results do not displace A and B.",
        747,
    ),
    _rung(
        AsyncStore(),
        "Results by TMA",
        "Warps write results to SMEM, and TMA stores them while the warps multiply the next tile.",
        758,
    ),
    _rung(
        Hilbert(),
        "Hilbert's curve",
        "Tiles follow Hilbert's curve: consecutive tiles lie close together, so they find their operands in L2.",
        764,
    ),
    _rung(
        Stmatrix(),
        "stmatrix",
        "One instruction writes 16 x 16 results to SMEM, swizzled so that no two rows share a bank.",
    ),
    _rung(
        WgmmaKernel(),
        "The production kernel",
        "The production kernel takes any layout, and stores each tile's results behind the next tile's first products.",
    ),
)
