"""The time of a tiled product: the one model, which ranks the Configs of every kernel and predicts times.

A CTA takes a step for each 64 of k, or for as many elements of 1 byte as have as many bytes:

    step = max(multiply, read SMEM, fill SMEM, L2, handing slots over)
    time = max(max(waves * steps * step, DRAM, stores) + finish, power) + launch + epilogue + exchange + later waves

`wgmma` overlaps all that a step needs, so the slowest part counts; p-norms stand for maxima, so that near ties cost
both. CTAs of `mma` and `simt` take turns, so the parts of a step add up: multiplying and delivering elements.

The constants of `wgmma` were fitted to results/calibration_h200.json: 5,060 launches of 156 products on an H200
(tools/calibrate.py). They are for choosing: of some 32 Configs of a product, the pick has 0.966 of the best rate, while
times are 12% off (median); `ranking` corrects the order. `epilogue` is also from results/sweep_h200.json, `streamed`
from gemv_h200.json, `finish` from sweep_functions_*_h100.json, `two_blocks` from settled_turns_h200.json, and that
consumers by turns have no constant of their own from by_turns_h200.json.
"""

from math import inf
from typing import NamedTuple

import numpy as np

from tilewright.dtypes import DType, fp32
from tilewright.hardware import Hardware, Unit
from tilewright.model.tiling.tiles import Array, Tiles


class Costs(NamedTuple):
    """What parts of a step and of a launch cost an SM; the defaults are those of `wgmma` on any Hopper GPU.

    clock: clocks per us. multiply: clocks of multiplication over those of the unit's rate.
    smem: clocks for 128 bytes of operands that a wgmma reads from SMEM. fill: bytes per clock that reach an SM's SMEM.
    l2: bytes per clock and SM that L2 gives when all SMs ask; `misaligned`: times as much if rows begin off its lines.
    handover: clocks from slot to slot with one 64 of k each, `handover_power`: how fewer slots help; `cluster`: the
    share by which one between the CTAs of a cluster takes longer.
    apart: clocks of a step if a cluster shares the smaller operand, so that its CTAs wait for two streams of the other.
    outside: clocks per row of a tile that lies outside an operand: TMA is slow there.
    dram_share: of the data sheet's bandwidth; `streamed`: at most, where memory alone takes time. again: the share by
    which an operand takes longer that several CTAs read.
    power: TFLOP/s that the power limit allows elements of 2 bytes if operands come for free, and twice as many those
    of 1; `delivery`: the share by which an operation's energy grows with one operand per operation, (tile_m + tile_n)
    / (tile_m * tile_n); `two_blocks`: us of a wave beside, for 64x128 elements of a warpgroup's first of two blocks.
    launch, epilogue (64x128 elements of a CTA, whose warpgroups share the way out), exchange (64 KiB of partial sums),
    wave, cluster_launch: us. scattered: us for as many elements of a warpgroup if they are stored one by one.
    promotion: clocks until a warpgroup sees that its wgmmas have ended, where CUDA cores add while another multiplies;
    twice as many for a step in which all wait for each other.
    finish: clocks that tensor cores wait for a clock of CUDA cores that finish sums; half, but at the end, by turns.
    store: bytes of out per clock that leave an SM beside the loop, in all waves but the last; `transposed`: the share
    by which those of tiles that cut the transposed product take longer, last ones too; `ragged`: the same where ends of
    tiles halve sectors of out, times their columns. ahead: lines of 128 bytes of k from which on nothing hides a
    `wave`: before that, a ring has room for more than a tile.
    """

    clock: float = 1850.0
    multiply: float = 1.03
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
    streamed: float = 0.89
    again: float = 0.5
    power: float = 870.0
    delivery: float = 12.8
    two_blocks: float = 0.9
    launch: float = 1.09
    epilogue: float = 0.9
    exchange: float = 6.4
    wave: float = 1.2
    cluster_launch: float = 0.05
    scattered: float = 2.0
    promotion: float = 100.0
    finish: float = 1.6
    store: float = inf
    transposed: float = 0.0
    ragged: float = 0.0
    ahead: float = 0.0


COSTS = Costs()
COSTS_OF_BYTES = COSTS._replace(two_blocks=0.0)
"""Those of `wgmma` for choosing, and those for elements of 1 byte, whose order is corrected at the power limit too."""
COSTS_OF_SHORT = COSTS._replace(store=14.0, transposed=0.6, ragged=140.0, ahead=6.0)
"""Those for products that `is_short`: fitted to results/sweep_short_h200.json."""


def is_short(dtype: DType, out_bytes: float, m: int, n: int, k: int, finishes: bool = False) -> bool:
    """Whether k is short and out large, so that ends of tiles and stores take much of the time, for 2-byte elements.

    out_bytes: as in Tiles. finishes: whether CUDA cores finish sums, beside which stores take little from 512 of k on.
    Of a batch, one product counts. Others have too few records, or are chosen well without.
    """
    least = 1 << 21 if k <= 512 else inf if finishes or k > 2048 else 1 << 24
    return dtype.nbytes == 2 and m * n * out_bytes >= least


class Prepared(NamedTuple):
    """What of the times of Tiles does not depend on the product; "along" m and n as the product stands.

    along: the extents along m and along n that a cluster makes in a round. padded: what is brought for a tile over what
    it takes. clocks: a tile's extents times `Costs.outside`. apart: the clocks of `Costs.apart` if m < n, if m = n, and
    if m > n. step: the fourth powers of a step's parts but for L2's. finest: the largest k that is split too finely,
    or -1. fixed: us of the launch and of what follows the last steps. wave: us of what follows the steps of an earlier
    wave; limited: beside that, where power limits. finish: us that a wave waits for CUDA cores, and whether any does.
    store: us to store an element of out. ahead: k from which on nothing hides a wave.
    """

    tiles: Tiles
    along: Array
    clocks: Array
    apart: tuple[Array, Array, Array]
    step: Array
    l2_work: Array
    step_k: Array
    step_clock: Array
    finest: Array
    energy: Array
    fixed: Array
    wave: Array
    limited: Array
    finish: tuple[Array, bool]
    store: Array
    ahead: float
    dram: float
    padded: Array
    costs: Costs


def prepare(tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware, costs: Costs) -> Prepared:
    """Times of `tiles` of a kernel that multiplies elements of `dtype` with `unit`."""
    tile_m, tile_n = tiles.tile_m, tiles.tile_n
    k = 128 // dtype.nbytes if unit == "wgmma" else 64  # of a step
    multiply = tile_m * tile_n * k / gpu.macs(unit, dtype) * costs.multiply
    smem = tile_m / 64 * (64 + tile_n) * costs.smem
    rows = tiles.rows_m + tiles.rows_n
    fill = rows * k * dtype.nbytes / costs.fill
    if unit != "wgmma":  # nothing overlaps
        multiply, fill = multiply + fill, np.zeros_like(fill)
    shares = tiles.cluster_m * tiles.cluster_n > 1
    handover = costs.handover * (k / tiles.tile_k) ** costs.handover_power * (1 + costs.cluster * shares)
    step = _fourth(multiply) + _fourth(smem) + _fourth(fill) + _fourth(handover)
    if tiles.promotion and costs.promotion:
        added = tile_m * tile_n * tiles.promotion.instructions / gpu.macs("cuda_cores", fp32)
        waits = 2.0 if tiles.promotion.in_step else tile_m / 64 / tiles.sharers
        at_once = 1 if tiles.promotion.in_step else tiles.sharers
        step += _fourth((multiply + added) / at_once + waits * costs.promotion)
    elements = tile_m * tile_n / tiles.split_k
    size = tiles.cluster_m * tiles.cluster_n * tiles.split_k
    exchange = (tiles.split_k - 1) * elements * 4 / 65536 * costs.exchange
    energy = 2e-6 * (tile_m * tile_n + costs.delivery * rows) / (costs.power * k / 64)
    l2_rows = (tiles.rows_m / tiles.cluster_n + tiles.rows_n / tiles.cluster_m) * 128 / costs.l2 / gpu.sm_count
    columns = np.where(tiles.swapped, tile_m, tile_n)
    stored = 1 + tiles.swapped * costs.transposed + tiles.ragged * costs.ragged / columns
    epilogue = elements / 8192 * costs.epilogue * stored
    finish = elements * tiles.finish / gpu.macs("cuda_cores", fp32) / costs.clock * costs.finish
    scattered = elements / tiles.sharers / 8192 * tiles.scattered * costs.scattered
    apart = np.where(tiles.cluster_m > 1, costs.apart, 0.0), np.where(tiles.cluster_n > 1, costs.apart, 0.0)
    a_larger, b_larger = _along(tiles, *apart)
    along = np.array(_along(tiles, tile_m * tiles.cluster_m, tile_n * tiles.cluster_n))
    return Prepared(
        tiles,
        along,
        np.array(_along(tiles, tile_m * costs.outside, tile_n * costs.outside)),
        (b_larger, apart[1], a_larger),
        step,
        size * l2_rows,
        tiles.tile_k * tiles.split_k,
        tiles.tile_k / k / costs.clock,
        tiles.tile_k * (tiles.split_k - 1) - (tiles.split_k < 2),
        energy * size / tiles.split_k,  # of the tiles of a cluster, each of all of k
        costs.launch + exchange + (size > 1) * costs.cluster_launch + epilogue + scattered,
        costs.wave + scattered + epilogue * tiles.by_turns,
        tile_n / 128 * costs.two_blocks * ((tile_m > 64 * tiles.sharers) & ~(tiles.by_turns | tiles.by_tma)),
        (finish, bool(finish.any())),
        tiles.out_bytes * stored / (costs.store * costs.clock * gpu.sm_count),
        max(1.0, costs.ahead * 128 / dtype.nbytes),
        dtype.nbytes / (costs.dram_share * gpu.memory_bandwidth / 1e6),
        np.array(_along(tiles, tiles.rows_m / tile_m, tiles.rows_n / tile_n)),
        costs,
    )


class Fixed(NamedTuple):
    """What of the times of Tiles is fixed by n, k and the batch, whatever m is: a server meets many m.

    lines: of L2 that a row takes, over those that it fills. tiles_n: tiles along n, times the products of a batch.
    again_n: how much longer the larger operand takes, if that is a. outside_n: clocks of what lies outside along n.
    dram: us of memory for a row of A, and for B. store: us to store a row. wave: us of each wave but the last beside
    its steps; limited: beside that, where power limits.
    """

    prepared: Prepared
    n: int
    k: int
    batch_count: int
    lines: float
    tiles_n: Array
    l2_work: Array
    steps: Array
    again_n: Array
    outside_n: Array
    dram: tuple[Array, Array]
    energy: Array
    store: Array
    wave: Array
    limited: Array


def fixed(prepared: Prepared, n: int, k: int, batch_count: int = 1, row_bytes: int = 128) -> Fixed:
    """What is fixed by these; row_bytes: from one row of 64 elements along k to the next, or what of 128 divides it."""
    along = prepared.along[1]
    tiles_n = np.ceil(n / along)
    off_lines = 0.0 if row_bytes % 128 == 0 else 0.7 if row_bytes % 32 == 0 else 1.0
    lines = 1 + (prepared.costs.misaligned - 1) * off_lines
    steps = np.where(k <= prepared.finest, np.inf, np.ceil(k / prepared.step_k) * prepared.step_clock)
    dram = prepared.dram * k * batch_count * prepared.padded
    return Fixed(
        prepared,
        n,
        k,
        batch_count,
        lines,
        tiles_n * batch_count,
        prepared.l2_work * lines,
        steps,
        np.minimum(tiles_n, 1 + prepared.costs.again),
        np.minimum((tiles_n * along - n) * prepared.costs.outside, prepared.clocks[1]),
        (dram[0], n * dram[1]),
        prepared.energy * k,
        n * batch_count * prepared.store,
        wave_of(prepared, steps) * min(1.0, k / prepared.ahead),
        prepared.limited * min(1.0, k / 512),
    )


def wave_of(prepared: Prepared, steps: Array) -> Array:
    """us of each wave but the last beside its steps: by turns, what lasts longer than the other consumer's steps."""
    hidden = np.where(prepared.tiles.by_turns, np.sqrt(np.sqrt(prepared.step)) * steps, 0.0)
    return np.maximum(prepared.wave - hidden, 0.0)


class Found(NamedTuple):
    """The time `us` of each way to cut the products of m rows, infinite if it splits k too finely, and its parts.

    at_once: clusters that work together. busy, dram, energy: us of the loop if SMs, memory or power alone limit it, and
    loop, if power does not.
    """

    tiles_m: Array
    clusters: Array
    at_once: Array
    waves: Array
    step: Array
    busy: Array
    dram: Array
    energy: Array
    loop: Array
    us: Array


def found_of(fixed: Fixed, m: int) -> Found:
    """What is found of each way to cut the products of m rows."""
    prepared, n, along = fixed.prepared, fixed.n, fixed.prepared.along[0]
    tiles_m = np.ceil(m / along)
    clusters = tiles_m * fixed.tiles_n
    at_once = np.minimum(clusters, prepared.tiles.clusters_at_once)
    waves = np.ceil(clusters / prepared.tiles.clusters_at_once)
    earlier = waves - 1
    step = np.sqrt(np.sqrt(prepared.step + _fourth(at_once * fixed.l2_work)))
    outside = np.minimum((tiles_m * along - m) * prepared.costs.outside, prepared.clocks[0]) + fixed.outside_n
    clocks = waves * step + (waves == 1) * prepared.apart[(m > n) - (m < n) + 1] + outside
    again = fixed.again_n if m > n else np.minimum(tiles_m, 1 + prepared.costs.again)
    dram = again * (m * fixed.dram[0] + fixed.dram[1])
    busy = clocks * fixed.steps
    energy = clusters * fixed.energy
    squares = busy * busy + dram * dram
    if prepared.costs.store < inf:
        stores = m * fixed.store * (1 - 1 / waves)  # the last wave's are in the epilogue
        squares += stores * stores
    loop = np.sqrt(squares)
    if prepared.finish[1]:
        loop += prepared.finish[0] * (1 + earlier / (1 + prepared.tiles.by_turns))
    us = np.maximum(loop, energy + earlier * fixed.limited) + prepared.fixed + earlier * fixed.wave
    return Found(tiles_m, clusters, at_once, waves, step, busy, dram, energy, loop, us)


def _along(tiles: Tiles, of_m: Array, of_n: Array) -> tuple[Array, Array]:
    """What Tiles have along m and n of the product."""
    return np.where(tiles.swapped, of_n, of_m), np.where(tiles.swapped, of_m, of_n)


def _fourth(value: Array) -> Array:
    square: Array = value * value
    return square * square
