"""The time that `simt` takes with each of some Configs: CTAs share an SM, and one alone waits for elements.

A CTA multiplies a step of k while the next one's elements come, and waits for these unless other CTAs of the SM have
work. So CTAs that share an SM take

    sqrt((multiply + deliver + wait)^2 + (CTAs * sharing * (multiply + deliver))^2)

for each of k, in waves that fill all SMs and a last one. The constants were fitted to results/fp32_split_h200.json and
fp32_random_h200.json, 1,500 launches of 75 products on an H200, whose times they miss by 7% (median; by 5% if a Config
is near the best), and to 4096^3 and 8192^3 of the ladder.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.dtypes import fp32
from tilewright.hardware import REGISTERS, Hardware
from tilewright.model.prediction import Breakdown, Parts, Prediction, serial_launch_seconds
from tilewright.problem import Problem

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"

_LAUNCH_SECONDS = 1.59e-6
"""A launch that overlaps the one ahead of it."""

_PACE, _DELIVERY = 1.84, 64.6
"""How much quicker a CTA alone multiplies and delivers than one after the other takes at the data sheet's rate; and the
multiply-adds in the time in which an element of a tile of A or B is delivered."""

_SHARING, _LONG_STEPS = 0.861, 1.25
"""What each of many CTAs of an SM takes of that, and how much more with steps of more than 16 of k."""

_WAIT_SECONDS = 0.219e-6
"""What 4 warps wait for the elements of the next step; more warps have more to do meanwhile."""

_STORED_SECONDS, _SENT_SECONDS = 1.59e-6, 1.30e-6
"""To finish 64x128 results, and to exchange as many sums of parts of k."""

_MEMORY = 0.72
"""The share of the data sheet's bandwidth."""

_OTHER_REGISTERS = 96
"""Registers of a thread besides its sums."""


class Ways(NamedTuple):
    """Configs on a GPU as their times see them, an array of each number.

    step: what of k a cluster takes at once, and tile_k a CTA. clusters: those that work at once with a CTA on each SM,
    and ctas: the CTAs that find room on an SM. multiplying, delivering, waiting: seconds of a CTA alone for one of k.
    sharing: what of the first two each of many CTAs takes. ending: seconds that a CTA takes besides.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    step: Array
    split_k: Array
    clusters: Array
    ctas: Array
    multiplying: Array
    delivering: Array
    waiting: Array
    sharing: Array
    ending: Array


def ways_of(configs: Sequence[Any], hardware: Hardware) -> Ways:
    """Configs of `simt` as their times see them."""
    return Ways(*np.array([_way(config, hardware) for config in configs], np.float64).T)


def _way(config: Any, hardware: Hardware) -> tuple[float, ...]:
    results, elements = config.tile_m * config.tile_n, config.tile_m + config.tile_n
    rate = hardware.macs("cuda_cores", fp32) * hardware.clock("cuda_cores") * _PACE
    registers = config.threads * (config.thread_m * config.thread_n + _OTHER_REGISTERS)
    return (
        config.tile_m,
        config.tile_n,
        config.tile_k,
        config.tile_k * config.split_k,
        config.split_k,
        hardware.clusters(config.split_k),
        max(1, min(REGISTERS // registers, hardware.smem_bytes // config.smem_bytes(4))),
        results / rate,
        elements * _DELIVERY / rate,
        _WAIT_SECONDS / config.tile_k * 128 / config.threads,
        _SHARING * (_LONG_STEPS if config.tile_k > 16 else 1.0),
        results / 8192 * (_STORED_SECONDS / config.split_k + (config.split_k > 1) * _SENT_SECONDS),
    )


class _Waves(NamedTuple):
    """Clusters of each way in waves: those that fill all SMs, and the CTAs that share an SM in the last one.

    filled: what of the last wave's places is taken. k: what a CTA takes of k.
    """

    full: Array
    last: Array
    filled: Array
    k: Array


def _waves_of(ways: Ways, problem: Problem) -> _Waves:
    clusters = np.ceil(problem.m / ways.tile_m) * np.ceil(problem.n / ways.tile_n) * problem.batch_count
    full, rest = np.divmod(clusters, ways.clusters * ways.ctas)
    last = np.ceil(rest / ways.clusters)
    k = np.ceil(max(problem.k, 1) / ways.step) * ways.tile_k
    return _Waves(full, last, rest / np.maximum(last * ways.clusters, 1), k)


def _busy(ways: Ways, waves: _Waves, working: Array, waiting: Array) -> Array:
    """Seconds of all waves, in which a CTA alone works and waits so long for one of k."""

    def took(ctas: Array) -> Array:
        both: Array = np.hypot(np.minimum(ctas, 1) * (working + waiting), ctas * ways.sharing * working)
        return both

    busy: Array = (waves.full * took(ways.ctas) + took(waves.last)) * waves.k
    return busy


def _looped(ways: Ways, waves: _Waves, memory: float) -> Array:
    looped: Array = np.hypot(_busy(ways, waves, ways.multiplying + ways.delivering, ways.waiting), memory)
    return looped


def _own(ways: Ways, waves: _Waves, hardware: Hardware) -> tuple[float, Array]:
    """Seconds of the launch, and of ends of tiles."""
    launch = _LAUNCH_SECONDS + serial_launch_seconds(hardware)
    return launch, (waves.full * ways.ctas + waves.last) * ways.ending


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
    tiles = (waves.full * ways.ctas * ways.clusters + waves.last * waves.filled * ways.clusters).item()
    rounds = int((waves.full + (waves.last > 0)).item())
    places = (rounds * ways.ctas * ways.clusters * ways.tile_m * ways.tile_n).item()
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
        evenly = waves.full + waves.filled * waves.last / ways.ctas
        floor = max(memory, _looped(ways, waves._replace(full=evenly, last=none), memory).item())
        tail = max(0.0, looped - floor)
    prologue = min(_WAIT_SECONDS, looped - tail)
    of_sm = (waves.full * ways.ctas + waves.last) * ways.multiplying * waves.k  # at the pace of a CTA alone
    limits = {
        "CUDA cores": of_sm.item() * _PACE,
        "delivery of elements": _busy(ways, waves, ways.delivering, none).item(),
        "latency of GMEM": _busy(ways, waves, none, ways.waiting).item(),
        "GMEM": memory,
    }
    parts = Parts(launch, prologue, looped - tail - prologue, tail, ending.item())
    slots = int((ways.clusters * ways.split_k * ways.ctas).item())
    return Breakdown(parts, {name: min(limit, looped) for name, limit in limits.items()}, slots)
