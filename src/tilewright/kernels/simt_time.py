"""The time that `simt` takes with each of some Configs: CTAs share an SM, and one alone waits for elements.

A CTA multiplies a step of k while the next one's elements come, and waits for these unless other CTAs of the SM have
work. So CTAs that share an SM take

    sqrt(wait^2 + (ceil(warps / 4) * work of a warp)^2)

for each of k, in waves of as many CTAs on all SMs, and a last one: four schedulers share the warps, so an odd number of
CTAs of two warps leaves some idle. Work is to multiply, to read SMEM, to copy to it, and to load what is copied.
The constants were fitted to results/fp32_configs_h200.json, 2,818 launches of 120 products on an H200, whose times they
miss by 3.3% (median, of Configs near the best); those whose extents are all 1,000 or more count three times. CTAs are
taken to be spread evenly on other GPUs, too, where nobody measured it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import fp32
from tilewright.hardware import WARP, Hardware
from tilewright.kernels.epilogue import stored_at_once
from tilewright.kernels.simt_room import ctas_with_room
from tilewright.model.prediction import Breakdown, Parts, Prediction, serial_launch_seconds
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Problem

NEIGHBORS = 4
"""Columns of sums that a thread has beside each other."""

_LAUNCH_SECONDS = 1.135e-6
"""A launch that overlaps the one ahead of it."""

_READ, _COPY, _LOAD = 0.456, 0.281, 2.03
"""What of an SM's time the following take. A read of 128 bytes of SMEM by lanes, or of 64 if these are multicast; the
way of 32 elements through registers to SMEM; and a warp's load of them, wide or one by one: in clocks."""

_WAIT_SECONDS = 0.550e-6
"""What a CTA alone waits for the next elements."""

_FIRST_SECONDS, _LAST_SECONDS = 0.497e-6, 0.252e-6
"""Of a wave: until the first elements come, if a thread has 16 on their way; and to finish 32 sums of a thread."""

_STORED_SECONDS, _SENT_SECONDS = 0.507e-6, 0.646e-6
"""To store 64x128 results, and to exchange as many sums of parts of k: of each CTA of an SM. Results are stored four at
once; if fewer are, each store takes as long, and longer by what a thread has more than 32 of them."""

_MEMORY = 0.955
"""The share of the data sheet's bandwidth."""

_SCHEDULERS = 4
"""Of an SM, among which warps are shared."""


class Ways(NamedTuple):
    """Configs on a GPU as their times see them, an array of each number.

    step: what of k a cluster takes at once, and tile_k a CTA. clusters: those that work at once with a CTA on each SM,
    and most: with all for which there is room. of_scheduler: a quarter of a CTA's warps. multiplying, delivering,
    waiting: seconds of a CTA for one of k; working: those of a scheduler for each warp. beginning, wave: seconds until
    the first elements of a wave come, with those of its last sums. storing_apart, sending: those that each CTA of an SM
    adds if it stores a whole tile one by one, and if it sends sums. ending: those if it stores four at once.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    step: Array
    split_k: Array
    clusters: Array
    most: Array
    of_scheduler: Array
    multiplying: Array
    delivering: Array
    waiting: Array
    working: Array
    beginning: Array
    wave: Array
    storing_apart: Array
    sending: Array
    ending: Array


def ways_of(configs: Sequence[Any], wide: tuple[int, int], hardware: Hardware) -> Ways:
    """Configs of `simt` as their times see them; wide: how many elements of A, and of B, a thread loads at once."""
    return Ways(*np.array([_way(config, wide, hardware) for config in configs], np.float64).T)


def _way(config: Any, wide: tuple[int, int], hardware: Hardware) -> tuple[float, ...]:
    results, elements = config.tile_m * config.tile_n, config.tile_m + config.tile_n
    clock = hardware.clock("cuda_cores")
    reads = results * (1 / config.thread_m + 1 / config.thread_n) / 64
    loads = (config.tile_m / wide[0] + config.tile_n / wide[1]) / 32
    on_their_way, sums = elements * config.tile_k / config.threads, config.thread_m * config.thread_n
    clusters = hardware.clusters(config.split_k)
    multiplying = results / (hardware.macs("cuda_cores", fp32) * clock)
    delivering = (_READ * reads + _COPY * elements / 32 + _LOAD * loads) / clock
    waiting = _WAIT_SECONDS / config.tile_k
    beginning = _FIRST_SECONDS * on_their_way / 16
    storing = results / 8192 * _STORED_SECONDS / config.split_k
    sending = results / 8192 * _SENT_SECONDS * (config.split_k > 1)
    of_scheduler = config.threads / WARP / _SCHEDULERS
    return (
        config.tile_m,
        config.tile_n,
        config.tile_k,
        config.tile_k * config.split_k,
        config.split_k,
        clusters,
        clusters * ctas_with_room(config, config.smem_bytes(fp32.nbytes), hardware),
        of_scheduler,
        multiplying,
        delivering,
        waiting,
        (multiplying + delivering) / of_scheduler,
        beginning,
        beginning + _LAST_SECONDS * sums / 32,
        storing * NEIGHBORS * max(sums / 32, 1),
        sending,
        storing + sending,
    )


class _Waves(NamedTuple):
    """Clusters of each way in waves, as `simt_room.evenly` spreads them: `full` ones, in which SMs have `ctas` each.

    rest: the clusters of the last wave, if it is none of these, with `last` CTAs of an SM. k: what a CTA takes of k.
    clusters: all of them.
    """

    ctas: Array
    full: Array
    rest: Array
    last: Array
    k: Array
    clusters: Array


def _waves_of(ways: Ways, problem: Problem) -> _Waves:
    # New numbers of rows wait for this, and ceil takes half the time of // of floats.
    clusters = np.ceil(problem.m / ways.tile_m) * np.ceil(problem.n / ways.tile_n)
    if problem.batch:
        clusters *= problem.batch_count
    ctas = np.ceil(clusters / (ways.clusters * np.ceil(clusters / ways.most)))
    of_wave = ways.clusters * ctas
    full = np.floor(clusters / of_wave)
    rest = clusters - full * of_wave
    k = np.ceil(max(problem.k, 1) / ways.step) * ways.tile_k
    return _Waves(ctas, full, rest, np.ceil(rest / ways.clusters), k, clusters)


def _busy(ways: Ways, waves: _Waves, working: Array) -> Array:
    """Seconds of all waves, in which a CTA waits for the next elements or works so long, for one of k and each warp."""
    full = np.hypot(ways.waiting, np.ceil(waves.ctas * ways.of_scheduler) * working)
    last = np.hypot(ways.waiting * _ended(waves), np.ceil(waves.last * ways.of_scheduler) * working)
    busy: Array = (waves.full * full + last) * waves.k
    return busy


def _ended(waves: _Waves) -> Array:
    """1 if there is a last wave that is not full, else 0."""
    some: Array = np.minimum(waves.last, 1)
    return some


def _looped(ways: Ways, waves: _Waves, memory: float) -> Array:
    looped: Array = np.hypot(_busy(ways, waves, ways.working), memory)
    return looped


def _own(ways: Ways, waves: _Waves, problem: Problem, hardware: Hardware) -> tuple[float, Array]:
    """Seconds of the launch, and of beginnings and ends of tiles."""
    launch = _LAUNCH_SECONDS + serial_launch_seconds(hardware)
    ending = _ending(ways, waves, problem)
    return launch, (waves.full + _ended(waves)) * ways.wave + (waves.full * waves.ctas + waves.last) * ending


def _ending(ways: Ways, waves: _Waves, problem: Problem) -> Array:
    """Seconds that each CTA of an SM adds: to store results four at once, or in more stores of what lies in out."""
    in_pairs = problem.columns != problem.n or problem.epilogue.sums_columns
    at_once = stored_at_once(problem.out, 2 if in_pairs else NEIGHBORS)
    if at_once == NEIGHBORS:
        return ways.ending
    inside = problem.m * problem.n * problem.batch_count / (waves.clusters * ways.tile_m * ways.tile_n)
    ending: Array = np.maximum(ways.ending, ways.sending + ways.storing_apart * (inside / at_once))
    return ending


def seconds(ways: Ways, problem: Problem, hardware: Hardware) -> Array:
    """What a launch with each Config takes."""
    waves = _waves_of(ways, problem)
    launch, ending = _own(ways, waves, problem, hardware)
    took: Array = launch + ending + _looped(ways, waves, _memory(problem, hardware))
    return took


def _memory(problem: Problem, hardware: Hardware) -> float:
    """Seconds in which each operand crosses GMEM once."""
    return problem.minimum_bytes / (_MEMORY * hardware.memory_bandwidth)


def prediction(ways: Ways, problem: Problem, hardware: Hardware) -> Prediction:
    """The Prediction of one way."""
    waves = _waves_of(ways, problem)
    tiles = (waves.full * waves.ctas * ways.clusters + waves.rest).item()
    rounds = int((waves.full + (waves.last > 0)).item())
    places = (rounds * waves.ctas * ways.clusters * ways.tile_m * ways.tile_n).item()
    return Prediction(
        round(tiles * ways.split_k.item()),
        rounds,
        problem.m * problem.n * problem.batch_count / places,
        seconds(ways, problem, hardware).item(),
        problem.flops,
    )


def breakdown(ways: Ways, problem: Problem, hardware: Hardware) -> Breakdown:
    """Where the time of one way goes, and what limits it."""
    waves, memory, none = _waves_of(ways, problem), _memory(problem, hardware), np.zeros(1)
    launch, ending = _own(ways, waves, problem, hardware)
    looped = _looped(ways, waves, memory).item()
    tail = 0.0
    if waves.full.item():
        evenly = waves.full + waves.rest / (ways.clusters * waves.ctas)
        floor = max(memory, _looped(ways, waves._replace(full=evenly, last=none), memory).item())
        tail = max(0.0, looped - floor)
    prologue = ((waves.full + _ended(waves)) * ways.beginning).item()
    of_sm = (waves.full * waves.ctas + waves.last) * waves.k
    limits = {
        "CUDA cores": (of_sm * ways.multiplying).item(),
        "delivery of elements": (of_sm * ways.delivering).item(),
        "latency of GMEM": _busy(ways, waves, none).item(),
        "GMEM": memory,
    }
    parts = Parts(launch, prologue, looped - tail, tail, ending.item() - prologue)
    slots = int((ways.clusters * ways.split_k * waves.ctas).item())
    return Breakdown(parts, {name: min(limit, looped) for name, limit in limits.items()}, slots)
