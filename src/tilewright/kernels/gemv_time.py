"""The time that `gemv` takes with each of many Configs: new numbers of rows wait for it, so it is arithmetic on arrays.

The constants were fitted to results/gemv_h200.json. There, the choice takes 1.03 times as long as the best Config where
B is contiguous along k, and 1.04 times otherwise (geometric means). That of the last step is from the five Configs that
were measured of 16x4096x1001 and 3x28672x8191 (docs/performance-log.md).
"""

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.hardware import Hardware
from tilewright.model.prediction import Breakdown, Parts
from tilewright.problem import Problem

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"

_LAUNCH_SECONDS, _CTA_SECONDS, _EXCHANGE_SECONDS = 0.9e-6, 0.83e-6, 0.9e-6
"""A launch in a graph; what a CTA does besides its steps; one more time for each doubling of the CTAs that split k."""

_LATENCY_SECONDS, _LOAD_SECONDS, _READ_SECONDS = 0.58e-6, 1.06e-9, 2.6e-9
"""The time in which memory answers, and what each load that a warp of the SM has under way adds: of weights, of
activations."""

_END_SECONDS = 0.6e-6
"""The last step of k for each vector of 16 bytes of a lane that straddles chunks: its loads are narrow there."""

_STREAMED, _SM_BANDWIDTH, _ACROSS = 1.1, 60e9, 1.12
"""The share of the data sheet's bandwidth if nothing else took time; the bytes per second that an SM can read; how much
longer it takes where B is contiguous along n."""

_SIXTEEN = 1.06
"""How much longer more than 8 rows take: a lane adds up twice the sums, and reads twice the activations. Also from
results/few_rows.json."""

_LAST_WAVE = 0.39
"""The share of the time of empty places in the last wave, if it is the second one; later on, CTAs begin apart."""

_EMPTY = 0.4
"""The share by which memory is slower if there is room for CTAs that do not exist, for all of the room."""

_TOGETHER = 2.5
"""How times add up that overlap: the norm of their vector."""


class Ways(NamedTuple):
    """Configs on a GPU as their times see them, an array of each number.

    at_once: the CTAs for which there is room. step_k: what of k all workers of a tile have under way at once.
    round_seconds: how long they wait for it. end_seconds: what the last step takes beside that. exchange_seconds: for
    the sums of other CTAs. cta_bytes: the weights of a
    CTA for one k. bandwidth: bytes per second of all of memory. slower: how many times as long all takes.
    """

    tile_m: Array
    tile_n: Array
    split_k: Array
    tile_k: Array
    steps_at_once: Array
    at_once: Array
    round_seconds: Array
    end_seconds: Array
    exchange_seconds: Array
    cta_bytes: Array
    sm_count: Array
    bandwidth: Array
    slower: Array


def ways_of(fitting: Sequence[tuple[Any, Any]], hardware: Hardware) -> Ways:
    """Configs with their Constants, of problems that are stored alike, as their times see them."""
    rows = []
    for config, constants in fitting:
        of_b, of_a = wide_loads(config, constants.b_k_major), max(config.tile_m // constants.rows_apart, 1)
        loads = of_b * _loads(constants.b_bytes, constants.b_straddles)
        reads = of_a * _loads(constants.a_bytes, constants.a_straddles)
        ending = of_a * constants.a_straddles + of_b * (constants.b_straddles and constants.b_k_major)
        warps = config.warps * config.ctas
        under_way = warps * config.in_flight * (_LOAD_SECONDS * loads + _READ_SECONDS * reads)
        rows.append(
            (
                config.tile_m,
                config.tile_n,
                config.split_k,
                constants.tile_k,
                constants.workers * config.in_flight,
                hardware.clusters(config.split_k) * config.split_k * config.ctas,
                _LATENCY_SECONDS + under_way,
                _END_SECONDS * ending,
                _EXCHANGE_SECONDS * log2(config.split_k),
                config.tile_n / config.split_k * constants.Input.nbytes,
                hardware.sm_count,
                _STREAMED * hardware.memory_bandwidth,
                (1.0 if constants.b_k_major else _ACROSS) * (_SIXTEEN if config.tile_m > 8 else 1.0),
            )
        )
    return Ways(*np.array(rows, np.float64).T)


class _Waves(NamedTuple):
    """The CTAs of each way in waves: how many, with what the last one adds, and how long one takes by each limit."""

    waves: Array
    with_last: Array
    latency: Array
    streaming: Array
    reading: Array


def seconds(ways: Ways, problem: Problem) -> Array:
    """What the model says of a launch with each Config, for a problem as it is solved."""
    _, waves, *limits = _waves_of(ways, problem)
    latency, streaming, reading = (limit**_TOGETHER for limit in limits)
    found: Array = _LAUNCH_SECONDS + waves * (ways.slower * (latency + streaming + reading) ** (1 / _TOGETHER))
    return found


def breakdown(ways: Ways, problem: Problem) -> Breakdown:
    """Where the time of one way goes, and what limits it."""
    found = _waves_of(ways, problem)
    waves, with_last, *limits = (each.item() for each in found)
    looped, epilogue = seconds(ways, problem).item() - _LAUNCH_SECONDS, ways.exchange_seconds.item()
    tail = looped * (1 - waves / with_last)
    parts = Parts(_LAUNCH_SECONDS, _LATENCY_SECONDS, looped - tail - _LATENCY_SECONDS - epilogue, tail, epilogue)
    names = ("latency of GMEM", "GMEM", "loads of an SM")
    by_name = {name: limit * waves for name, limit in zip(names, limits, strict=True)}
    return Breakdown(parts, by_name, int(ways.at_once.item()))


def _waves_of(ways: Ways, problem: Problem) -> _Waves:
    k, at_once = np.array(problem.k, np.float64), ways.at_once
    ctas: Array = np.ceil(problem.m / ways.tile_m) * np.ceil(problem.n / ways.tile_n) * ways.split_k
    if problem.batch:
        ctas *= problem.batch_count
    waves = np.maximum(ctas / at_once, 1.0)
    with_last = waves + _LAST_WAVE * (np.ceil(waves) - waves) / waves
    np.minimum(ctas, at_once, out=ctas)  # from here on, those of one wave
    latency = np.ceil(np.ceil(k / ways.tile_k) / ways.steps_at_once) * ways.round_seconds
    latency += _CTA_SECONDS + ways.end_seconds + ways.exchange_seconds
    of_cta = ways.cta_bytes * k
    streaming = ctas * of_cta / ways.bandwidth * (1 + _EMPTY * (1 - ctas / at_once))
    reading = np.ceil(ctas / ways.sm_count) * of_cta / _SM_BANDWIDTH
    return _Waves(waves, with_last, latency, streaming, reading)


def _loads(nbytes: int, straddles: bool) -> int:
    """The loads of so many bytes that bring 16."""
    return 2 if straddles else 16 // nbytes


def wide_loads(config: Any, k_major: bool) -> int:
    """The 16 bytes of neighboring weights that a lane of a GemvConfig loads in a step; k_major: whether along k."""
    eighths: int = config.tile_n * config.k_parts // 8 if k_major else config.tile_n // 8
    return eighths
