"""The time that `gemv` takes with each of many Configs: new numbers of rows wait for it, so it is arithmetic on arrays.

A CTA waits for rounds of loads, and memory brings the weights of all CTAs; of what these two take, neither hides much
of the other, so their times add up. The constants were fitted to results/gemv_h200.json, gemv_odd_h100.json and
gemv_decode_h100.json, most to Configs that are near a product's best one. How much longer launches took is a sum of
small trees, as model/ranking/correction.py has it of other kernels; tools/fit_gemv.py fits them to more records, and
docs/choosing.md has what choices reach.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DType, fp32
from tilewright.hardware import Hardware
from tilewright.model.prediction import Breakdown, Parts
from tilewright.model.ranking.correction import TREES, is_known
from tilewright.model.ranking.trees import Trees
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Problem

_LAUNCH_SECONDS, _CTA_SECONDS, _EXCHANGE_SECONDS = 0.66e-6, 0.915e-6, 0.72e-6
"""A launch in a graph; what a CTA does besides its rounds; and more if a cluster splits k."""

_ROUND_SECONDS, _LOAD_SECONDS = 0.154e-6, 3.1e-9
"""What a round takes, and what each load adds that a warp of the SM has under way: of weights, and of activations if
they straddle chunks, since others are in L1."""

_STREAMED, _NARROW = 1.4, 1.12
"""The share of the data sheet's bandwidth if nothing else took time; how much longer memory takes where a warp reads
128 neighboring bytes of each column of the weights, with two parts of k, and not 256 or 512."""

_REACHED = 0.94
"""The share of the data sheet's bandwidth that the longest launches on record reach (results/few_rows.json)."""

_ACROSS = 1.14
"""How much longer all takes where B is contiguous along n."""

_SIXTEEN = 1.12
"""How much longer more than 8 rows take: a lane adds up twice the sums, and reads twice the activations."""

_ROWS_FP32 = {8: (1.35, 1.25), 16: (1.95, 1.75)}
"""How much longer tiles of so many rows of fp32 take, which CUDA cores multiply: where B is contiguous along k, and
where it is along n. Measured on an H200 (results/fp32_rows_h200.json), and taken for every GPU."""

_SINGLE_FP32 = 1.35
"""How much longer those of 16 rows take if elements of activations are loaded one by one (the same record, and
results/fp32_split_h200.json and fp32_random_h200.json)."""

_LAST_WAVE = 0.55
"""The share of the time of empty places in the last wave, if it is the second one; later on, CTAs begin apart."""

_EMPTY = 0.71
"""The share by which memory is slower if there is room for CTAs that do not exist, for all of the room."""

_RANKED, _RANKED_ACROSS, _RANKED_COPIED, _RANKED_FP32 = (0.89, 0.94), (1.04, 1.16), 0.84, (0.8, 0.96)
"""What the time that is compared with those of other kernels is of this one: up to 8 rows and beyond, where B is
contiguous along k, and where it is along n; where others copy it; and of fp32, with k up to _SHORT_K and beyond. Those
by which `wgmma` chooses are mostly too short, and most of all for the fewest rows and with copies. Those of fp32 are
too long for a short k: results/fp32_split_h200.json and fp32_random_h200.json have what both kernels took."""

_SHORT_K = 128

TREES_OF_GEMV = TREES["2"].with_name("correction_gemv.json")
"""Where the trees are, for elements of 2 bytes."""

FEATURES = (
    "waves", "filled", "even", "rounds", "rounds_filled", "n", "k", "warps", "in_flight", "split_k", "ctas", "tile_m",
    "tile_n", "k_parts", "k_major", "vectors", "b_straddles", "a_straddles", "b_bytes", "bandwidth",
)  # fmt: skip
"""What trees ask about: of a product, and of Configs on a GPU.

waves: how often all room for CTAs is filled. filled, even, rounds_filled: what whole waves, equal shares of the SMs and
whole rounds of loads have of the work. vectors: of 16 bytes of weights that a lane has under way. bandwidth: in TB/s.
"""
_OF_PRODUCT = range(FEATURES.index("warps"))
_OF_CONFIG = range(_OF_PRODUCT.stop, len(FEATURES))
GROUPS = _OF_PRODUCT, _OF_CONFIG


class Ways(NamedTuple):
    """Configs on a GPU as their times see them, an array of each number.

    at_once: the CTAs for which there is room. step_k: what of k all workers of a tile have under way at once.
    loading: seconds that the loads of a round of a CTA take. exchange: for the sums of other CTAs. cta_bytes: the
    weights of a CTA for one k. bandwidth: bytes per second of all of memory. slower: how many times as long all takes.
    of_config: a row for each of FEATURES. known: whether launches on such a GPU are on record.
    """

    known: bool
    of_config: Array
    tile_m: Array
    tile_n: Array
    split_k: Array
    tile_k: Array
    steps_at_once: Array
    at_once: Array
    loading: Array
    exchange: Array
    cta_bytes: Array
    sm_count: Array
    bandwidth: Array
    slower: Array


@cache
def trees() -> Trees:
    """Those that come with the package."""
    return Trees.stored(json.loads(TREES_OF_GEMV.read_text(encoding="utf-8")), FEATURES, GROUPS)


def knows(elements: DType, hardware: Hardware) -> bool:
    """Whether trees are fitted to launches with such elements on such a GPU."""
    return elements.nbytes == 2 and is_known(elements, hardware)


def ways_of(fitting: Sequence[tuple[Any, Any]], hardware: Hardware) -> Ways:
    """Configs with their Constants, of problems that are stored alike, as their times see them."""
    rows, of_config = [], []
    for config, constants in fitting:
        of_b, of_a = wide_loads(config, constants.b_k_major), max(config.tile_m // constants.rows_apart, 1)
        loads = of_b * (2 if constants.b_straddles else 16 // constants.b_bytes) + 2 * of_a * constants.a_straddles
        narrow = _NARROW if constants.b_k_major and config.k_parts <= 2 else 1.0
        rows.append(
            (
                config.tile_m,
                config.tile_n,
                config.split_k,
                constants.tile_k,
                constants.workers * config.in_flight,
                hardware.clusters(config.split_k) * config.split_k * config.ctas,
                _LOAD_SECONDS * loads * config.warps * config.in_flight,
                _EXCHANGE_SECONDS if config.split_k > 1 else 0.0,
                config.tile_n / config.split_k * constants.Input.nbytes,
                hardware.sm_count,
                _STREAMED / narrow * hardware.memory_bandwidth,
                (1.0 if constants.b_k_major else _ACROSS) * _slower_by_rows(constants),
            )
        )
        of_config.append(
            (
                config.warps, config.in_flight, config.split_k, config.ctas, config.tile_m, config.tile_n,
                config.k_parts, constants.b_k_major, of_b * config.in_flight, constants.b_straddles,
                constants.a_straddles, constants.b_bytes, hardware.memory_bandwidth / 1e12,
            )
        )  # fmt: skip
    return Ways(knows(fitting[0][1].Input, hardware), np.array(of_config, np.float64).T, *np.array(rows, np.float64).T)


def _slower_by_rows(constants: Any) -> float:
    """How many times as long a tile takes for its number of rows."""
    if constants.Input == fp32:
        single = constants.tile_m > 8 and constants.a_bytes < 8
        return _ROWS_FP32.get(constants.tile_m, (1.0, 1.0))[not constants.b_k_major] * (_SINGLE_FP32 if single else 1.0)
    return _SIXTEEN if constants.tile_m > 8 else 1.0


class _Waves(NamedTuple):
    """The CTAs of each way in waves: how many, with what the last one adds, and what one takes for each reason.

    of_product: a row for each of FEATURES.
    """

    waves: Array
    with_last: Array
    waiting: Array
    loading: Array
    streaming: Array
    of_product: Array


def seconds(ways: Ways, problem: Problem) -> Array:
    """What the model says of a launch with each Config, for a problem as it is solved."""
    found = _waves_of(ways, problem)
    took: Array = np.maximum(arithmetic(ways, found) * _longer(ways, found), _LAUNCH_SECONDS + _memory(ways, problem))
    return took


def predicted(ways: Ways, problem: Problem) -> Array:
    """What a launch with each Config will take: `seconds` ranks, and may say that weights come quicker than they do."""
    took: Array = np.maximum(seconds(ways, problem), _LAUNCH_SECONDS + _memory(ways, problem) / _REACHED)
    return took


def arithmetic(ways: Ways, found: _Waves) -> Array:
    """`seconds` without trees, where weights are next to each other."""
    looped: Array = found.with_last * ways.slower * (found.waiting + found.loading + found.streaming)
    return _LAUNCH_SECONDS + looped


def ranked(tile_m: int, constants: Any, k: int) -> float:
    """What the time that is compared with those of other kernels is of that of Configs with so many rows.

    constants: theirs, or the features of their problem. TMA cannot read rows whose 16 bytes are not aligned.
    """
    if constants.Input == fp32:
        return _RANKED_FP32[k > _SHORT_K]
    if constants.b_bytes < 16 or constants.b_straddles:
        return _RANKED_COPIED
    return (_RANKED if constants.b_k_major else _RANKED_ACROSS)[tile_m > 8]


def measurable(ways: Ways, problem: Problem) -> tuple[Array, Array]:
    """A column of FEATURES for each way, and seconds without trees: what these are fitted to."""
    found = _waves_of(ways, problem)
    return np.concatenate([found.of_product, ways.of_config]), arithmetic(ways, found)


def _longer(ways: Ways, found: _Waves) -> "Array | float":
    """How many times as long launches took as the arithmetic says."""
    if not ways.known:
        return 1.0
    numbers = trees().numbers(found.of_product, _OF_PRODUCT) + trees().numbers(ways.of_config, _OF_CONFIG)
    return np.exp(trees().logarithms(trees().first + numbers))


def breakdown(ways: Ways, problem: Problem) -> Breakdown:
    """Where the time of one way goes, and what limits it."""
    found = _waves_of(ways, problem)
    took = predicted(ways, problem)
    looped, epilogue = took.item() - _LAUNCH_SECONDS, ways.exchange.item()
    tail = looped * (1 - (found.waves / found.with_last).item())
    parts = Parts(_LAUNCH_SECONDS, _ROUND_SECONDS, looped - tail - _ROUND_SECONDS - epilogue, tail, epilogue)
    longer = found.waves * took / arithmetic(ways, found)
    alone = (longer * limit for limit in (found.waiting, found.loading, found.streaming))
    names = ("latency of GMEM", "loads of an SM", "GMEM")
    by_name = {name: each.item() for name, each in zip(names, alone, strict=True)}
    by_name["GMEM"] = max(by_name["GMEM"], _memory(ways, problem).item() / _REACHED)
    return Breakdown(parts, {name: min(each, looped) for name, each in by_name.items()}, int(ways.at_once.item()))


def _memory(ways: Ways, problem: Problem) -> Array:
    """The time of memory for each element once, or for weights that lie apart and what lies between."""
    once: Array = problem.minimum_bytes / (ways.of_config[-1] * 1e12)
    b = problem.b
    if 1 in (b.row_stride, b.column_stride):
        return once
    return np.maximum(once, problem.crossing_bytes("b", b) / ways.bandwidth)


def _waves_of(ways: Ways, problem: Problem) -> _Waves:
    k, at_once = np.array(problem.k, np.float64), ways.at_once
    ctas: Array = np.ceil(problem.m / ways.tile_m) * np.ceil(problem.n / ways.tile_n) * ways.split_k
    if problem.batch:
        ctas *= problem.batch_count
    filled, shares = ctas / at_once, ctas / ways.sm_count
    waves = np.maximum(filled, 1.0)
    with_last = waves + _LAST_WAVE * (np.ceil(waves) - waves) / waves
    np.minimum(ctas, at_once, out=ctas)  # from here on, those of one wave
    begun = np.ceil(k / ways.tile_k) / ways.steps_at_once
    rounds = np.ceil(begun)
    waiting = rounds * _ROUND_SECONDS + _CTA_SECONDS + ways.exchange
    loading = rounds * np.ceil(ctas / ways.sm_count) * ways.loading
    streaming = ctas * ways.cta_bytes * k / ways.bandwidth * (1 + _EMPTY * (1 - ctas / at_once))
    of_product = np.empty((len(_OF_PRODUCT), len(ctas)))
    of_product[:5] = filled, filled / np.ceil(filled), shares / np.ceil(shares), rounds, begun / np.maximum(rounds, 1)
    of_product[5:] = [[problem.n], [problem.k]]
    return _Waves(waves, with_last, waiting, loading, streaming, of_product)


def wide_loads(config: Any, k_major: bool) -> int:
    """The 16 bytes of neighboring weights that a lane of a GemvConfig loads in a step; k_major: whether along k."""
    eighths: int = config.tile_n * config.k_parts // 8 if k_major else config.tile_n // 8
    return eighths
