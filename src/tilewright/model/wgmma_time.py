"""The time of tiled products on Hopper's asynchronous tensor cores: what ranks the Configs of `wgmma`.

A CTA takes a step for each 64 of k, as long as the slowest of what a step needs, for work overlaps (p-norms stand for
maxima, so that near ties cost both: the fourth root of fourth powers in a step, the square root of squares):

    step = max(multiply, read SMEM, fill SMEM, L2, handing slots over)
    time = max(waves * steps * step, DRAM, power) + launch + epilogue + exchange of split k + later waves

The constants were fitted to launches on an H200. results/calibration_h200.json has 5,060 launches of 156 products, in
graphs, inputs past L2, and tools/calibrate.py compares the model with them. The model is for choosing: of the some 32
Configs measured of a product, the one it picks has 0.966 of the best one's rate (geometric mean; at worst 0.78) and
1.08 of cuBLAS's, while its times are 11% off (median).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Costs(NamedTuple):
    """What parts of a step and of a launch cost an SM of Hopper.

    clock: clocks per us.
    smem: clocks for 128 bytes of operands that a wgmma reads from SMEM.
    fill: bytes per clock that reach the SMEM of an SM.
    l2: bytes per clock and SM that L2 gives when all SMs ask.
    misaligned: how many times as much it gives where rows do not begin on its lines of 128 bytes.
    handover: clocks from slot to slot with one 64 of k each; `handover_power` says how fewer slots help.
    cluster: the share by which a handover between the CTAs of a cluster takes longer.
    apart: clocks of a step if a cluster shares the smaller operand, so that its CTAs wait for two streams of the other.
    outside: clocks per row of a tile that lies outside an operand: TMA is slow there.
    dram_share: of the data sheet's bandwidth. again: the share by which an operand takes longer that several CTAs read.
    power: TFLOP/s that the power limit allows if operands come for free; `delivery`: the share by which the energy of
    an operation grows with one operand per operation, (tile_m + tile_n) / (tile_m * tile_n).
    launch, epilogue (64x128 elements of a warpgroup), exchange (64 KiB of partial sums), wave, cluster_launch: us.
    """

    clock: float = 1850.0
    smem: float = 1.41
    fill: float = 83.0
    l2: float = 100.0
    misaligned: float = 3.6
    handover: float = 229.0
    handover_power: float = 0.54
    cluster: float = 0.35
    apart: float = 36.0
    outside: float = 1.9
    dram_share: float = 1.33
    again: float = 0.5
    power: float = 870.0
    delivery: float = 12.8
    launch: float = 1.09
    epilogue: float = 1.02
    exchange: float = 6.4
    wave: float = 1.2
    cluster_launch: float = 0.05


COSTS = Costs()

_MULTIPLY = 1.03
"""Clocks of multiplication over those of the tensor cores' rate."""


class Tiles(NamedTuple):
    """Ways to cut a product, an array of each number: tiles, k-blocks, clusters, parts of k and consumer warpgroups.

    swapped: whether the tiles cut the transposed product, so that tile_m lies along n.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    cluster_m: Array
    cluster_n: Array
    split_k: Array
    consumers: Array
    clusters_at_once: Array
    swapped: NDArray[np.bool_]


class Prepared(NamedTuple):
    """What of the times of Tiles does not depend on the product; "along" m and n as the product stands.

    along_m, along_n: the extents that a cluster makes in a round. clocks_m, clocks_n: a tile's extents times
    `Costs.outside`. apart: the clocks of `Costs.apart` if m < n, if m = n, and if m > n.
    """

    tiles: Tiles
    along_m: Array
    along_n: Array
    clocks_m: Array
    clocks_n: Array
    apart: tuple[Array, Array, Array]
    step: Array
    l2_work: Array
    step_k: Array
    step_clock: Array
    energy: Array
    fixed: Array
    dram: float
    costs: Costs


class Sized(NamedTuple):
    """What of the times of Tiles is known from n, k, the batches and the strides: all but m.

    clusters: along n, of all batches. outside: the clocks of columns outside an operand. steps: us of a clock per step.
    a_again: what multiplies the square of DRAM's time if A is larger. dram: us for each row of A and column of B.
    """

    prepared: Prepared
    n: int
    clusters: Array
    outside: Array
    steps: Array
    l2_work: Array
    energy: Array
    a_again: Array
    dram: float


def prepare(tiles: Tiles, macs: int, sm_count: int, memory_bandwidth: float, costs: Costs = COSTS) -> Prepared:
    """Times of `tiles` on a GPU of `sm_count` SMs of `macs` multiply-adds per clock, and bytes per second of memory."""
    tile_m, tile_n = tiles.tile_m, tiles.tile_n
    shares = tiles.cluster_m * tiles.cluster_n > 1
    multiply = tile_m * tile_n * 64 / macs * _MULTIPLY
    smem = tile_m / 64 * (64 + tile_n) * costs.smem
    fill = (tile_m + tile_n) * 128 / costs.fill
    handover = costs.handover * (64 / tiles.tile_k) ** costs.handover_power * (1 + costs.cluster * shares)
    elements = tile_m * tile_n / tiles.split_k
    size = tiles.cluster_m * tiles.cluster_n * tiles.split_k
    exchange = (tiles.split_k - 1) * elements * 4 / 65536 * costs.exchange
    energy = 2e-6 * tile_m * tile_n / costs.power * (1 + costs.delivery * (tile_m + tile_n) / (tile_m * tile_n))
    l2_rows = (tile_m / tiles.cluster_n + tile_n / tiles.cluster_m) * 128 / costs.l2 / sm_count
    epilogue = elements / tiles.consumers / 8192 * costs.epilogue
    along_m, along_n = _along(tiles.swapped, tile_m * tiles.cluster_m, tile_n * tiles.cluster_n)
    clocks_m, clocks_n = _along(tiles.swapped, tile_m * costs.outside, tile_n * costs.outside)
    apart = np.where(tiles.cluster_m > 1, costs.apart, 0.0), np.where(tiles.cluster_n > 1, costs.apart, 0.0)
    a_larger, b_larger = _along(tiles.swapped, *apart)
    return Prepared(
        tiles,
        along_m,
        along_n,
        clocks_m,
        clocks_n,
        (b_larger, apart[1], a_larger),
        step=_fourth(multiply) + _fourth(smem) + _fourth(fill) + _fourth(handover),
        l2_work=size * l2_rows,
        step_k=tiles.tile_k * tiles.split_k,
        step_clock=tiles.tile_k / 64 / costs.clock,
        energy=energy * size / tiles.split_k,  # of the tiles of a cluster, each of all of k
        fixed=costs.launch + exchange + (size > 1) * costs.cluster_launch + epilogue - costs.wave,
        dram=costs.dram_share * memory_bandwidth / 1e6,
        costs=costs,
    )


def size(prepared: Prepared, n: int, k: int, batch_count: int, row_bytes: int) -> Sized:
    """Times of `batch_count` products of any (m, k) and (k, n) of 2-byte elements.

    row_bytes: from one row of 64 elements along k to the next. Ways that split k too finely take infinitely long.
    """
    tiles, costs = prepared.tiles, prepared.costs
    across = np.ceil(n / prepared.along_n)
    misaligned = 1.0 if row_bytes % 128 == 0 else 1 + (costs.misaligned - 1) * (0.7 if row_bytes % 32 == 0 else 1.0)
    return Sized(
        prepared,
        n,
        clusters=across * batch_count,
        outside=np.minimum((across * prepared.along_n - n) * costs.outside, prepared.clocks_n),
        steps=np.where(
            np.ceil(k / tiles.tile_k) < tiles.split_k, np.inf, np.ceil(k / prepared.step_k) * prepared.step_clock
        ),
        l2_work=prepared.l2_work * misaligned,
        energy=prepared.energy * k,
        a_again=_again(across, costs),
        dram=2 * k * batch_count / prepared.dram,
    )


def times(sized: Sized, m: int) -> Array:
    """The time in us of each way to cut products of m rows."""
    # Each operation on the arrays takes half a microsecond, and every new shape waits for this: results are reused.
    prepared = sized.prepared
    tiles, costs = prepared.tiles, prepared.costs
    along: Array = m / prepared.along_m
    np.ceil(along, out=along)
    clusters = along * sized.clusters
    waves = clusters / tiles.clusters_at_once
    np.ceil(waves, out=waves)
    step = np.minimum(clusters, tiles.clusters_at_once)
    step *= sized.l2_work
    step *= step
    step *= step
    step += prepared.step
    np.sqrt(step, out=step)
    np.sqrt(step, out=step)
    step *= waves
    dram = (sized.dram * (m + sized.n)) ** 2
    again = sized.a_again if m > sized.n else _again(along, costs)
    step += prepared.apart[(m > sized.n) - (m < sized.n) + 1] * (waves == 1)
    along *= prepared.along_m
    along -= m
    along *= costs.outside
    np.minimum(along, prepared.clocks_m, out=along)
    along += sized.outside
    step += along
    step *= sized.steps
    step *= step
    step += again * dram
    np.sqrt(step, out=step)
    clusters *= sized.energy
    np.maximum(step, clusters, out=step)
    step += prepared.fixed
    waves *= costs.wave
    step += waves
    return step


def _along(swapped: NDArray[np.bool_], of_m: Array, of_n: Array) -> tuple[Array, Array]:
    """What Tiles have along m and along n of the product."""
    return np.where(swapped, of_n, of_m), np.where(swapped, of_m, of_n)


def _again(tiles: Array, costs: Costs) -> Array:
    """What multiplies the square of DRAM's time if so many tiles read each element of the larger operand."""
    return np.where(tiles == 1, 1.0, (1 + costs.again) ** 2)


def _fourth(value: Array) -> Array:
    square = value * value
    result: Array = square * square
    return result
