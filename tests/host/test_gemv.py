"""What `gemv` takes, which Configs it offers, and what its model says."""

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from support.families import Loaded, all_compiled
from tilewright.dtypes import bf16, fp8_e4m3, fp32
from tilewright.hardware import A100, H100_SXM, H200
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.registry import KERNELS, considered
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner.choose import choose
from tilewright.planner.family import ConfigLaunches
from tilewright.problem import Matrix, Problem

GEMV: Any = KERNELS["gemv"]


def product(m, n, k, layout="nt", dtype=bf16):
    a = Matrix(dtype, k, 1) if layout[0] == "n" else Matrix(dtype, 1, m)
    b = Matrix(dtype, n, 1) if layout[1] == "n" else Matrix(dtype, 1, k)
    return Problem(m, n, k, a, b, Matrix(dtype, n, 1))


def test_it_is_considered_for_few_rows_or_columns():
    for few in (product(1, 4096, 4096), product(16, 4096, 4096), product(4096, 16, 4096)):
        assert GEMV in list(considered(few))
    assert GEMV not in list(considered(product(17, 4096, 4096)))
    assert GEMV in list(considered(product(128, 4096, 4096, dtype=fp32)))
    assert GEMV not in list(considered(product(129, 4096, 4096, dtype=fp32)))


def test_the_model_decides_between_it_and_the_next_kernel():
    assert choose(product(1, 2048, 7168), H200).kernel is GEMV
    assert choose(product(8, 28672, 8192), H200).kernel is GEMV
    assert choose(product(16, 28672, 8192), H200).kernel is KERNELS["wgmma"]
    invariant = product(1, 2048, 7168)._replace(batch_invariant=True)
    assert choose(invariant, H200).kernel is KERNELS["wgmma"]
    assert choose(product(20, 200, 40000, dtype=fp32), H200).kernel is GEMV
    assert choose(product(128, 4096, 4096, dtype=fp32), H200).kernel is KERNELS["simt"]


def test_times_of_fp32_are_those_that_were_measured():
    times = defaultdict(dict)
    record = json.loads(Path("results/fp32_rows_h200.json").read_text())
    for m, n, k, batch, layout, kernel, config, us in record["launches"]:
        if batch == 1 and kernel == "gemv":
            times[product(m, n, k, layout, fp32)][GemvConfig(*config)] = us
    chosen = {problem: choose(problem, H200) for problem in times}
    configs = {problem: choice.config for problem, choice in chosen.items() if choice.kernel is GEMV}
    shares = [min(times[problem].values()) / times[problem][config] for problem, config in configs.items()]
    ratios = [
        GEMV.predict(config, problem, H200).seconds * 1e6 / times[problem][config]
        for problem, config in configs.items()
    ]
    assert len(shares) == 18
    assert geometric_mean(shares) > 0.96
    assert min(shares) > 0.85
    assert geometric_mean(ratios) == pytest.approx(1, rel=0.05)
    assert 0.8 < min(ratios) < max(ratios) < 1.2


def test_rows_that_begin_anywhere_take_what_was_measured():
    """The quickest Config of each product of odd extents in a record of an H200."""
    quickest = {}
    record = json.loads(Path("results/gemv_ends_h200.json").read_text())
    for m, n, k, layout, kernel, config, us, _ in record["launches"]:
        problem = product(m, n, k, layout)
        if kernel == "gemv" and us < quickest.get(problem, (math.inf,))[0]:
            quickest[problem] = us, GemvConfig(*config)
    assert len(quickest) == 167
    ratios = [GEMV.predict(config, problem, H200).seconds * 1e6 / us for problem, (us, config) in quickest.items()]
    assert 0.85 < min(ratios) < max(ratios) < 1.15
    assert geometric_mean(ratios) == pytest.approx(1, rel=0.04)


def test_plans_of_few_rows_share_no_unit_with_others_of_the_same_remainder():
    few = product(6, 4096, 64, "tt")._replace(a=Matrix(bf16, 1, 6))
    more = product(14, 4096, 64, "tt")._replace(a=Matrix(bf16, 1, 14))
    config = GemvConfig(8, 64, 1, 4, 1, swap_ab=True)
    assert GEMV.assemble(config, few, H200).source != GEMV.assemble(config, more, H200).source
    backend = Loaded(H200)
    with all_compiled():
        launches = ConfigLaunches(GEMV, config, backend)
        made = [launches.loaded(problem, copied=False).launch for problem in (more, few)]
    assert made[0].source != made[1].source


@pytest.fixture(scope="module")
def measured():
    """The us of each Config by problem, of gemv and of the one that wgmma took that day, on an H200."""
    found = defaultdict(dict)
    for m, n, k, layout, kernel, config, us, _ in json.loads(Path("results/gemv_h200.json").read_text())["launches"]:
        if kernel != "stream_read":
            found[product(m, n, k, layout)][KERNELS[kernel].config_type(*config)] = us
    return found


def test_its_choice_is_near_the_best_of_what_was_measured(measured):
    shares = []
    for problem, times in measured.items():
        chosen = choose(problem, H200)
        # Of wgmma the record has the choice of its day alone, which stands for today's.
        others = [us for config, us in times.items() if isinstance(config, WgmmaConfig)]
        us = times.get(chosen.config, others[0] if chosen.kernel is not GEMV and others else None)
        if us is not None:
            shares.append(min(times.values()) / us)
    assert len(shares) > 0.9 * len(measured)
    assert geometric_mean(shares) > 0.97
    assert min(shares) > 0.83


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 1, 4096), (4096, 8, 4096), (28672, 4, 8192)])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_few_columns_are_ranked_as_few_rows(m, n, k, layout):
    columns = product(m, n, k, layout)
    assert GEMV.best_seconds(columns, H200) == GEMV.best_seconds(columns.transposed, H200)


@pytest.mark.parametrize(("m", "layout"), [(1, "nt"), (2, "nt"), (16, "nn")])
@pytest.mark.parametrize("gpu", [H100_SXM, H200])
def test_no_time_is_shorter_than_memory_takes_at_its_full_rate(m, layout, gpu):
    for n, k in ((128256, 8192), (28672, 8192), (152064, 4096)):
        asked = product(m, n, k, layout)
        assert GEMV.best(asked, gpu) is not None
        predicted = GEMV.predict(GEMV.best(asked, gpu), asked, gpu).seconds
        assert predicted >= asked.minimum_bytes / gpu.memory_bandwidth


@pytest.mark.parametrize("strides", [(2, 8193), (8193, 2), (3, 12291)])
@pytest.mark.parametrize("dtype", [bf16, fp32])
def test_weights_whose_neighbors_lie_apart_have_a_breakdown(strides, dtype):
    asked = product(4, 4096, 4096, dtype=dtype).with_strides("b", *strides)
    config = GEMV.best(asked, H200)
    found = GEMV.breakdown(config, asked, H200)
    assert sum(found.parts) == pytest.approx(GEMV.predict(config, asked, H200).seconds)
    assert min(found.parts) >= 0
    assert max(found.limits.values()) <= sum(found.parts)


@pytest.mark.parametrize(("m", "n", "k"), [(343, 35, 1428), (741, 28, 26), (1001, 16, 1024), (131, 64, 640)])
def test_few_columns_of_fp32_are_decided_about_by_the_exact_rows(m, n, k):
    """Transposed, a is what rows of weights are, and how many of its elements a load may read depends on m."""
    asked = product(m, n, k, "tt", fp32)._replace(a=Matrix(fp32, 1, m + 8 - m % 8))
    chosen = choose(asked, H200)
    assert chosen.kernel is GEMV
    assert chosen.config == GEMV.best(asked, H200)


@pytest.mark.parametrize(("m", "n", "k", "split_k"), [(33, 129, 65, 1), (128, 1001, 77, 1), (1, 64, 4096, 4)])
def test_the_share_of_useful_work_counts_empty_places(m, n, k, split_k):
    asked = product(m, n, k, dtype=fp32)
    config = next(each for each in GEMV.configs(asked, H200) if each.split_k == split_k)
    found = GEMV.predict(config, asked, H200)
    tiles = math.ceil(m / config.tile_m) * math.ceil(n / config.tile_n)
    at_once = H200.clusters(split_k) * split_k * config.ctas
    assert found.tile_count == tiles * split_k
    inside = m * n / (tiles * config.tile_m * config.tile_n)
    assert found.quantization == pytest.approx(inside * found.tile_count / (found.waves * at_once))


def test_odd_rows_that_others_copy_are_read_where_they_are():
    """us of an H200 (results/gemv_odd_h200.json, odd_weights_h200.json): 10.2, and 11.6 with copies for `wgmma`."""
    assert choose(product(16, 1001, 4096, "nn"), H200).kernel is GEMV
    assert choose(product(1, 8941, 1391, "nn"), H200).kernel is GEMV
    assert choose(product(16, 4096, 4096, "nn"), H200).kernel is KERNELS["wgmma"]


def test_the_model_knows_what_its_choice_took(measured):
    ratios = []
    for problem, times in measured.items():
        config = GEMV.best(problem, H200)
        if config in times:
            ratios.append(GEMV.predict(config, problem, H200).seconds * 1e6 / times[config])
    assert len(ratios) > 0.9 * len(measured)
    assert geometric_mean(ratios) == pytest.approx(1, abs=0.03)
    assert min(ratios) > 0.84
    assert max(ratios) < 1.15


@pytest.mark.parametrize(
    ("problem", "gpu", "reason"),
    [
        (product(1, 64, 64), A100, "needs clusters"),
        (product(1, 64, 64, dtype=fp8_e4m3), H200, "a is fp8_e4m3"),
        (product(1, 64, 64)._replace(batch_invariant=True), H200, "batch-invariant"),
    ],
)
def test_what_it_refuses(problem, gpu, reason):
    assert reason in GEMV.refuses(problem, gpu).reason


def test_cuda_cores_multiply_fp32():
    """So that rooflines have their rate, and blocks of a thread are its sums."""
    assert [GEMV.unit_of(dtype) for dtype in (bf16, fp32)] == ["mma", "cuda_cores"]
    constants = GEMV.constants(GemvConfig(8, 16, 2), product(8, 64, 64, dtype=fp32))
    assert GEMV.blocking(constants).thread == (8, 4)
    assert constants.accumulators == 32


@pytest.mark.parametrize("dtype", [bf16, fp32])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 9, 16, 17, 40])
def test_every_config_that_it_offers_obeys_its_rules(m, layout, dtype):
    problem = product(m, 1000, 2048, layout, dtype)
    configs = GEMV.configs(problem, H200)
    for config in configs:
        GEMV.check(config, problem, H200)
    tile_m = configs[0].tile_m
    assert tile_m >= min(m, 16)
    assert tile_m < 2 * m or (tile_m == 8 and dtype is bf16)  # a fragment's, where B is contiguous along n


def test_few_columns_are_the_rows_of_the_transposed_product():
    tall = product(4096, 3, 512)
    assert all(config.swap_ab and config.tile_m == 4 for config in GEMV.configs(tall, H200))
    assert not any(config.swap_ab for config in GEMV.configs(product(3, 4096, 512), H200))


@pytest.mark.parametrize(
    ("n", "loads"), [(64, (16, False)), (60, (8, False)), (62, (16, True)), (9, (16, True)), (7, (2, False))]
)
def test_a_load_along_n_lies_inside_a_row_or_is_one_of_two_that_eight_elements_straddle(n, loads):
    features = GEMV.features(product(1, n, 64, "nn")._replace(b=Matrix(bf16, 64, 1)))
    assert (features.b_bytes, features.b_straddles) == loads


@pytest.mark.parametrize("layout", ["nt", "nn"])
def test_two_loads_of_eight_elements_take_twice_the_registers_and_more_time(layout):
    config = GemvConfig(8, 8, 2) if layout == "nt" else GemvConfig(8, 64, 1)
    words, seconds = [], []
    for problem in (product(8, 4096, 4096, layout), product(8, 4095, 4095, layout)):
        words.append(GEMV.constants(config, problem).load_words)
        seconds.append(GEMV.predict(config, problem, H200).seconds)
    assert words[1] == 2 * words[0]
    assert seconds[1] > seconds[0]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"k_parts": 3}, "take 1, 2, 4 or 8"),
        ({"tile_m": 3, "k_parts": 4}, "fill columns of mma.sync by eights"),
        ({"tile_n": 7}, "make tile_n a multiple"),
        ({"warps": 17}, "1 to 16 warps"),
        ({"in_flight": 4}, "take fewer steps"),
        ({"tile_m": 16, "tile_n": 64, "k_parts": 2}, "take a smaller tile"),
        ({"split_k": 3}, "1, 2, 4 or 8 CTAs"),
        ({"tile_n": 4, "split_k": 4}, "finishes as many pairs"),
        ({"ctas": 9}, "2048 threads"),
        ({"prefetch": -1}, "count CTAs"),
    ],
)
def test_a_config_that_breaks_a_rule_is_told_so(changes, rule):
    with pytest.raises(ConfigError, match=rule):
        GEMV.check(replace(GemvConfig(), **changes), product(1, 4096, 4096), H200)
