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

from typing import Any, NamedTuple

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
    """Ways to cut a product, an array of each number: tiles, k-blocks, clusters, parts of k and consumer warpgroups."""

    tile_m: Array
    tile_n: Array
    tile_k: Array
    cluster_m: Array
    cluster_n: Array
    split_k: Array
    consumers: Array
    clusters_at_once: Array


class Prepared(NamedTuple):
    """What of the times of Tiles does not depend on the product."""

    tiles: Tiles
    rows: Array
    columns: Array
    step: Array
    l2_work: Array
    apart_m: Array
    apart_n: Array
    step_k: Array
    step_clock: Array
    energy: Array
    fixed: Array
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
    return Prepared(
        tiles,
        rows=tile_m * tiles.cluster_m,
        columns=tile_n * tiles.cluster_n,
        step=_fourth(multiply) + _fourth(smem) + _fourth(fill) + _fourth(handover),
        l2_work=size * l2_rows,
        apart_m=np.where(tiles.cluster_m > 1, costs.apart, 0.0),
        apart_n=np.where(tiles.cluster_n > 1, costs.apart, 0.0),
        step_k=tiles.tile_k * tiles.split_k,
        step_clock=tiles.tile_k / 64 / costs.clock,
        energy=energy * size / tiles.split_k,  # of the tiles of a cluster, each of all of k
        fixed=costs.launch + exchange + (size > 1) * costs.cluster_launch + epilogue - costs.wave,
        dram=costs.dram_share * memory_bandwidth / 1e6,
    )


def times(
    prepared: Prepared, m: Any, n: Any, k: int, batch_count: int, bytes_read: int, row_bytes: int, costs: Costs = COSTS
) -> Array:
    """The time in us of each way to cut `batch_count` products of (m, k) and (k, n), arrays or numbers.

    bytes_read: of A and B. row_bytes: from one row of 64 elements along k to the next.
    """
    # Each operation on the arrays takes a microsecond, and every new shape waits for this: results are reused in place.
    tiles = prepared.tiles
    tiles_m, tiles_n = np.ceil(m / prepared.rows), np.ceil(n / prepared.columns)
    clusters: Array = tiles_m * tiles_n
    if batch_count != 1:
        clusters *= batch_count
    waves = np.ceil(clusters / tiles.clusters_at_once)
    misaligned = 1.0 if row_bytes % 128 == 0 else 1 + (costs.misaligned - 1) * (0.7 if row_bytes % 32 == 0 else 1.0)
    step = np.minimum(clusters, tiles.clusters_at_once)
    step *= prepared.l2_work * misaligned if misaligned != 1 else prepared.l2_work
    step *= step
    step *= step
    step += prepared.step
    np.sqrt(step, out=step)
    np.sqrt(step, out=step)
    outside = np.minimum(tiles_m * prepared.rows - m, tiles.tile_m)
    outside += np.minimum(tiles_n * prepared.columns - n, tiles.tile_n)
    outside *= costs.outside
    outside /= waves
    step += outside
    wide = m > n  # A is the larger operand
    step += np.where(wide, prepared.apart_m, prepared.apart_n) * (waves == 1)
    step *= waves
    step *= np.ceil(k / prepared.step_k) * prepared.step_clock
    dram = bytes_read / prepared.dram
    step *= step
    step += np.where(np.where(wide, tiles_n, tiles_m) == 1, dram * dram, (dram * (1 + costs.again)) ** 2)
    np.sqrt(step, out=step)
    clusters *= prepared.energy
    clusters *= k
    np.maximum(step, clusters, out=step)
    step += prepared.fixed
    waves *= costs.wave
    step += waves
    return step


def _fourth(value: Array) -> Array:
    square = value * value
    result: Array = square * square
    return result
