"""The time that `simt` takes with each of some Configs: CTAs share an SM, and one alone waits for elements.

A CTA multiplies a step of k while the next one's elements come, and waits for these unless other CTAs of the SM have
work. So CTAs that share an SM take

    sqrt((work / 4 + wait)^2 + (CTAs * work)^2)

for each of k, in waves of as many CTAs on all SMs, and a last one. Work is to multiply, to read SMEM, to copy to it,
and to load what is copied. The constants were fitted to results/fp32_configs_h200.json, 4,320 launches of 120 products
on an H200, whose times they miss by 4% (median, of Configs near the best); those whose extents are all 1,000 or more
count three times. CTAs are taken to be spread evenly on other
GPUs, too, where nobody measured it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import fp32
from tilewright.hardware import Hardware
from tilewright.kernels.simt_room import ctas_with_room
from tilewright.model.prediction import Breakdown, Parts, Prediction, serial_launch_seconds
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Problem

_LAUNCH_SECONDS = 1.04e-6
"""A launch that overlaps the one ahead of it."""

_READ, _COPY, _LOAD = 0.248, 1.74, 1.74
"""What of an SM's time the following take. A read of 128 bytes of SMEM by lanes, or of 64 if these are multicast; the
way of 32 elements through registers to SMEM; and a warp's load of them, wide or one by one: in clocks."""

_ALONE = 0.25
"""What of its work a CTA alone does not hide behind the next elements."""

_WAIT_SECONDS = 0.42e-6
"""What it waits for these."""

_FIRST_SECONDS, _LAST_SECONDS = 0.40e-6, 0.66e-6
"""Of a wave: until the first elements come, if a thread has 16 on their way; and to finish 32 sums of a thread."""

_STORED_SECONDS, _SENT_SECONDS = 1.09e-6, 0.58e-6
"""To store 64x128 results, and to exchange as many sums of parts of k: of each CTA of an SM."""

_MEMORY = 0.78
"""The share of the data sheet's bandwidth."""


class Ways(NamedTuple):
    """Configs on a GPU as their times see them, an array of each number.

    step: what of k a cluster takes at once, and tile_k a CTA. clusters: those that work at once with a CTA on each SM,
    and most: with all for which there is room. multiplying, delivering, waiting: seconds of a CTA for one of k; working
    the first two, and alone what one without others takes longer. beginning, wave, ending: seconds until the first
    elements of a wave come, with those of its last sums, and those that each CTA of an SM adds.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    step: Array
    split_k: Array
    clusters: Array
    most: Array
    multiplying: Array
    delivering: Array
    waiting: Array
    working: Array
    alone: Array
    beginning: Array
    wave: Array
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
    return (
        config.tile_m,
        config.tile_n,
        config.tile_k,
        config.tile_k * config.split_k,
        config.split_k,
        clusters,
        clusters * ctas_with_room(config, config.smem_bytes(fp32.nbytes), hardware),
        multiplying,
        delivering,
        waiting,
        multiplying + delivering,
        _ALONE * (multiplying + delivering) + waiting,
        beginning,
        beginning + _LAST_SECONDS * sums / 32,
        results / 8192 * (_STORED_SECONDS / config.split_k + (config.split_k > 1) * _SENT_SECONDS),
    )


class _Waves(NamedTuple):
    """Clusters of each way in waves, as `simt_room.evenly` spreads them: `full` ones, in which SMs have `ctas` each.

    rest: the clusters of the last wave, if it is none of these, with `last` CTAs of an SM. k: what a CTA takes of k.
    """

    ctas: Array
    full: Array
    rest: Array
    last: Array
    k: Array


def _waves_of(ways: Ways, problem: Problem) -> _Waves:
    # New numbers of rows wait for this, and ceil takes half the time of // of floats.
    clusters = np.ceil(problem.m / ways.tile_m) * np.ceil(problem.n / ways.tile_n)
    if problem.batch:
        clusters *= problem.batch_count
    ctas = np.ceil(clusters / (ways.clusters * np.ceil(clusters / ways.most)))
    of_wave = ways.clusters * ctas
    full = np.floor(clusters / of_wave)
    rest = clusters - full * of_wave
    return _Waves(ctas, full, rest, np.ceil(rest / ways.clusters), np.ceil(max(problem.k, 1) / ways.step) * ways.tile_k)


def _busy(waves: _Waves, working: Array, alone: Array) -> Array:
    """Seconds of all waves, in which a CTA works so long for one of k, and one without others takes so much longer."""
    full, last = np.hypot(alone, waves.ctas * working), np.hypot(_ended(waves) * alone, waves.last * working)
    busy: Array = (waves.full * full + last) * waves.k
    return busy


def _ended(waves: _Waves) -> Array:
    """1 if there is a last wave that is not full, else 0."""
    some: Array = np.minimum(waves.last, 1)
    return some


def _looped(ways: Ways, waves: _Waves, memory: float) -> Array:
    looped: Array = np.hypot(_busy(waves, ways.working, ways.alone), memory)
    return looped


def _own(ways: Ways, waves: _Waves, hardware: Hardware) -> tuple[float, Array]:
    """Seconds of the launch, and of beginnings and ends of tiles."""
    launch = _LAUNCH_SECONDS + serial_launch_seconds(hardware)
    return launch, (waves.full + _ended(waves)) * ways.wave + (waves.full * waves.ctas + waves.last) * ways.ending


def seconds(ways: Ways, problem: Problem, hardware: Hardware) -> Array:
    """What a launch with each Config takes."""
    waves = _waves_of(ways, problem)
    launch, ending = _own(ways, waves, hardware)
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
    launch, ending = _own(ways, waves, hardware)
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
        "latency of GMEM": _busy(waves, none, ways.waiting).item(),
        "GMEM": memory,
    }
    parts = Parts(launch, prologue, looped - tail, tail, ending.item() - prologue)
    slots = int((ways.clusters * ways.split_k * waves.ctas).item())
    return Breakdown(parts, {name: min(limit, looped) for name, limit in limits.items()}, slots)
