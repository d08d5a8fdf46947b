"""The model of the machine against figures measured on an H200 (random data, settled unless stated)."""

from dataclasses import replace
from math import ceil, hypot, inf
from random import Random

import numpy as np
import pytest

from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp8_e4m3, fp32
from tilewright.expression.grammar import parse
from tilewright.hardware import A100, GPUS, H20, H200
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.kernels.wgmma.operands import scattered
from tilewright.kernels.wgmma.space import tiles_of
from tilewright.model.cost import COSTS, COSTS_OF_SHORT, fixed, found_of, is_short, prepare
from tilewright.model.prediction import SHIFTED, STREAMED, TIMES, costs_of, prepare_in
from tilewright.model.speed_of_light import speed_of_light
from tilewright.model.tiling.tiles import Tiles
from tilewright.problem import Epilogue, Matrix, Problem

# cuBLAS, whose large bf16 kernels make 128x256 tiles.
SETTLED = [
    (2048, 2048, 2048, 634),
    (2048, 4096, 4096, 648),
    (2048, 11008, 4096, 645),
    (2048, 12288, 4096, 655),
    (2048, 32000, 4096, 647),
    (2048, 4096, 11008, 693),
    (4096, 10240, 8192, 673),
    (4096, 8192, 28672, 677),
    (4096, 4096, 4096, 676),
    (4096, 28672, 8192, 665),
    (8192, 8192, 8192, 671),
    (16384, 16384, 16384, 693),
]
BURST = [(4096, 4096, 4096, 812), (4096, 28672, 8192, 812), (8192, 8192, 8192, 812)]
# Microseconds: with tiles that fill the machine (results/calibration_h200.json), and that stream the weights.
SMALL = [(1024, 1024, 1024, 64, 128, 5.24)]
DECODE = [(1, 12288, 4096, 27.8), (1, 28672, 8192, 105.9), (16, 28672, 8192, 107.0), (64, 28672, 8192, 116.7)]


def product(m, n, k, dtype=bf16):
    return Problem(m, n, k, Matrix(dtype, k, 1), Matrix(dtype, 1, k), Matrix(dtype, n, 1))


def predicted(m, n, k, tile_m=128, tile_n=256, power="settled", gpu=H200, **fields):
    """The prediction for a Config of `wgmma`."""
    return KERNELS["wgmma"].predict(WgmmaConfig(tile_m, tile_n, 2, **fields), product(m, n, k), gpu, power)


@pytest.mark.parametrize(("m", "n", "k", "tflops"), SETTLED)
def test_settled_rates_are_met_within_an_eighth(m, n, k, tflops):
    assert predicted(m, n, k).tflops == pytest.approx(tflops, rel=0.125)


@pytest.mark.parametrize(("m", "n", "k", "tflops"), BURST)
def test_burst_rates_are_met_within_a_fourteenth(m, n, k, tflops):
    assert predicted(m, n, k, power="burst").tflops == pytest.approx(tflops, rel=0.07)


@pytest.mark.parametrize(("m", "n", "k", "tile_m", "tile_n", "us"), SMALL)
def test_small_products_are_met_within_a_tenth_by_the_costs_that_rank(m, n, k, tile_m, tile_n, us):
    assert predicted(m, n, k, tile_m, tile_n, "recorded").seconds * 1e6 == pytest.approx(us, rel=0.1)


@pytest.mark.parametrize(("m", "n", "k", "us"), DECODE)
def test_products_with_few_rows_are_bound_by_memory(m, n, k, us):
    assert predicted(m, n, k, 64, 128).seconds * 1e6 == pytest.approx(us, rel=0.125)
    assert speed_of_light(product(m, n, k), H200).bound == "memory"


@pytest.mark.parametrize(
    ("kernel", "dtype", "size", "us"),
    [
        ("mma", bf16, 1024, 12.7),
        ("mma", bf16, 4096, 369.7),
        ("mma", bf16, 8192, 2766.0),
        ("simt", fp32, 4096, 2758.8),
        ("simt", fp32, 8192, 21955.5),
    ],
)
def test_the_other_kernels_are_met_within_a_twentieth(kernel, dtype, size, us):
    problem, kernel = product(size, size, size, dtype), KERNELS[kernel]
    prediction = kernel.predict(kernel.best(problem, H200), problem, H200, "burst")
    assert prediction.seconds * 1e6 == pytest.approx(us, rel=0.05)  # results/ladder_*.json


def test_the_prediction_is_the_time_that_the_planner_ranks_by():
    kernel, problem = KERNELS["wgmma"], product(3000, 5000, 2000)
    configs = kernel.configs(problem, H200)
    ranked = [kernel.ranked_seconds(config, problem, H200) for config in configs]
    assert ranked == pytest.approx(sorted(ranked))
    assert ranked[0] < ranked[-1]
    predicted = min(kernel.predict(config, problem, H200, "recorded").seconds for config in configs)
    assert ranked[0] == pytest.approx(predicted)


def test_rungs_of_the_ladder_have_no_prediction():
    kernel = EVERY_KERNEL["wgmma_basic"]
    problem = product(1024, 1024, 1024)
    assert kernel.predict(kernel.best(problem, H200), problem, H200) is None


def test_speed_of_light_is_the_data_sheet():
    light = speed_of_light(product(8192, 8192, 8192), H200)
    assert 2 * 8192**3 / light.seconds == pytest.approx(989.4e12, rel=1e-3)
    assert light.bound == "compute"


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS.values() if gpu.arch == "sm_90a"], ids=lambda gpu: gpu.name)
def test_no_prediction_is_faster_than_light(gpu):
    kernel = KERNELS["wgmma"]
    shapes = [shape[:3] for shape in (*SETTLED, *DECODE)] + [(16, 4096, 4096), (4096, 64, 12288), (64, 64, 64)]
    for problem in (product(*shape) for shape in shapes):
        for power in ("settled", "burst"):
            seconds = kernel.predict(kernel.best(problem, gpu), problem, gpu, power).seconds
            assert seconds > speed_of_light(problem, gpu).seconds


def test_one_tile_too_many_costs_a_wave():
    full, over = (predicted(128 * 11, columns, 4096, power="recorded") for columns in (256 * 12, 256 * 12 + 1))
    assert (full.tile_count, full.waves, full.quantization) == (132, 1, 1.0)
    assert (over.tile_count, over.waves) == (143, 2)
    assert over.seconds > 1.7 * full.seconds


def test_idle_multiprocessors_count_as_quantization():
    prediction = predicted(128 * 60, 256 * 2, 4096)
    assert prediction.waves == 1
    assert prediction.quantization == pytest.approx(120 / 132)


def test_clusters_splits_and_swapped_tiles_are_counted():
    clustered = predicted(1024, 1024, 1024, cluster_m=2)
    assert (clustered.tile_count, clustered.waves) == (32, 1)
    split = predicted(1024, 1024, 1024, split_k=2)
    assert (split.tile_count, split.waves, split.quantization) == (64, 1, pytest.approx(64 / 132))
    assert predicted(100, 1000, 64, swap_ab=True).tile_count == 8


def test_what_a_cta_stores_takes_its_time_whoever_stores_it():
    """Elements one by one are the exception: there a consumer that multiplies alone also stores alone."""
    shared = WgmmaConfig(tile_n=128, epilogue="direct")
    configs = [shared, replace(shared, overlap=False, ping_pong=True)]
    epilogue, scattered = 2 * COSTS.epilogue, np.array([1.0, 2.0]) * COSTS.scattered
    prepared = prepare(tiles_of(configs, H200, scattered=(True, True)), "wgmma", bf16, H200, COSTS)
    np.testing.assert_allclose(prepared.fixed, COSTS.launch + epilogue + scattered)
    np.testing.assert_allclose(prepared.wave, COSTS.wave + scattered + [0.0, epilogue])  # shared: of the next tile
    plain, shifted = (
        prepare_in("settled", tiles_of(configs, H200), "wgmma", bf16, H200, shifted=shifted)
        for shifted in (False, True)
    )
    np.testing.assert_allclose(shifted.fixed - plain.fixed, [SHIFTED, 2 * SHIFTED])
    np.testing.assert_allclose(shifted.wave - plain.wave, [SHIFTED, 2 * SHIFTED])


def test_tensor_cores_wait_while_sums_are_finished_and_less_by_turns():
    shared = WgmmaConfig(tile_m=256, tile_n=176, epilogue="direct")
    configs = [shared, replace(shared, tile_m=128, overlap=False, ping_pong=True), replace(shared, tile_n=208)]
    with_bias = tiles_of(configs, H200, finish=(10.0, 25.0))
    np.testing.assert_array_equal(with_bias.finish, [10, 10, 25])  # beside 208 sums, threads have no registers

    def loop(tiles, m):
        unlimited = COSTS._replace(power=inf)
        return found_of(fixed(prepare(tiles, "wgmma", bf16, H200, unlimited), 176, 1 << 14), m)

    for waves in (1, 2, 3):
        m = 132 * 256 * waves
        plain, finished = (
            loop(tiles_of(configs[:1], H200), m),
            loop(tiles_of(configs[:1], H200, finish=(10.0, 25.0)), m),
        )
        assert finished.waves == waves
        clocks = 256 * 176 * 10 / 128 * COSTS.finish
        np.testing.assert_allclose(finished.us - plain.us, waves * clocks / COSTS.clock)
        turns = loop(tiles_of(configs[1:2], H200), m), loop(tiles_of(configs[1:2], H200, finish=(10.0, 25.0)), m)
        ends = 1 + (2 * waves - 1) / 2  # in tiles of half the height; the last one has nobody to hide behind
        np.testing.assert_allclose(turns[1].us - turns[0].us, ends * clocks / 2 / COSTS.clock)


def test_what_earlier_waves_store_takes_time_and_more_if_ends_halve_sectors():
    names = ({"tile_n": 128}, {"tile_n": 136}, {"tile_n": 128, "swap_ab": True}, {"tile_n": 136, "swap_ab": True})
    tiles = tiles_of([WgmmaConfig(128, stages=2, epilogue="direct", **each) for each in names], H200)
    np.testing.assert_array_equal(tiles.ragged, [False, True, False, False])  # swapped, 128 columns lie along n
    np.testing.assert_array_equal(tiles._replace(out_bytes=4).ragged, [False, False, False, False])
    costs = COSTS_OF_SHORT._replace(dram_share=inf, power=inf)
    prepared, without = (prepare(tiles, "wgmma", bf16, H200, each) for each in (costs, costs._replace(store=inf)))
    for m in (128, 4096):
        of_n = fixed(prepared, 4096, 64)
        found, plain = found_of(of_n, m), found_of(fixed(without, 4096, 64), m)
        per_us = costs.store * costs.clock * H200.sm_count
        factors = np.array([1, 1 + costs.ragged / 136, 1 + costs.transposed, 1 + costs.transposed])
        earlier = m * 4096 * 2 / per_us * factors * (1 - 1 / found.waves)
        np.testing.assert_allclose(found.loop, np.hypot(plain.loop, earlier))
        assert (found.waves == 1).all() == (m == 128)


def test_stores_limit_products_of_a_short_k_and_a_large_result():
    kernel, problem = KERNELS["wgmma"], product(8192, 8192, 128)
    limits = kernel.breakdown(WgmmaConfig(256, 128, 4), problem, H200).limits
    written = 8192 * 8192 * 2 * 15 / 16 / (TIMES.store * TIMES.clock * H200.sm_count) / 1e6  # in 15 of 16 waves
    assert max(limits, key=lambda name: limits[name]) == "stores"
    assert limits["stores"] == pytest.approx(written)
    gated = Product(8192, 8192, 128, bf16, bf16, "nt", expression=parse("silu(x) * y", [], "stacked")).problem
    half = kernel.breakdown(WgmmaConfig(256, 128, 4), gated, H200).limits["stores"]
    assert half == pytest.approx(written / 2)


@pytest.mark.parametrize(("config", "blocks"), [
    (WgmmaConfig(256, 200, 3, epilogue="direct"), 2),
    (WgmmaConfig(128, 256, 4), 1),
    (WgmmaConfig(128, 200, 5, epilogue="direct", overlap=False, ping_pong=True), 1),
])  # fmt: skip
@pytest.mark.parametrize(("k", "share"), [(4096, 1.0), (256, 0.5)])
def test_at_the_power_limit_waves_wait_for_the_first_of_two_blocks_of_rows(config, blocks, k, share):
    kernel, problem = KERNELS["wgmma"], product(8192, 24576, k)
    prepared = prepare_in("settled", tiles_of([config], H200), "wgmma", bf16, H200)
    of_n = fixed(prepared, problem.n, k)
    found = found_of(of_n, problem.m)
    earlier = found.waves.item() - 1
    power = found.energy.item() + earlier * (blocks - 1) * TIMES.two_blocks * 200 / 128 * share
    loop = max(found.loop.item(), power)
    assert found.us.item() == pytest.approx(loop + (prepared.fixed + earlier * of_n.wave).item())
    breakdown = kernel.breakdown(config, problem, H200)
    assert breakdown.parts.main_loop + breakdown.parts.tail == pytest.approx(loop / 1e6)
    if k == 4096:
        assert breakdown.limits["power"] == pytest.approx(power / 1e6)


@pytest.mark.parametrize(("dtype", "out", "k", "short"), [
    (bf16, bf16, 512, True), (bf16, bf16, 520, False), (bf16, fp32, 512, True), (fp8_e4m3, bf16, 64, False),
])  # fmt: skip
def test_what_is_recorded_is_what_ranks_short_products(dtype, out, k, short):
    """On an H20, no measured launch corrects the ranking."""
    kernel = KERNELS["wgmma"]
    problem = Problem(1024, 1024, k, Matrix(dtype, k, 1), Matrix(dtype, 1, k), Matrix(out, 1024, 1))
    assert is_short(dtype, out.nbytes, 1024, 1024, k) == short
    assert not is_short(dtype, out.nbytes / 2, 1024, 1016, k)
    assert is_short(dtype, out.nbytes, 4096, 2048, 2048) == (dtype is bf16)
    assert not is_short(dtype, out.nbytes / 2, 4096, 2040, 2048)
    assert not is_short(dtype, out.nbytes, 1 << 14, 1 << 14, 2056)
    for config in kernel.candidates(problem, H20, 40):
        ranked = kernel.ranked_seconds(config, problem, H20)
        assert kernel.predict(config, problem, H20, "recorded").seconds == pytest.approx(ranked)


def test_waves_of_a_short_k_hide_each_other():
    prepared = prepare(tiles_of([WgmmaConfig(128, 128, 4)], H200), "wgmma", bf16, H200, COSTS_OF_SHORT)
    lines = COSTS_OF_SHORT.ahead
    for k in (32, 64, 384, 1024):
        np.testing.assert_allclose(fixed(prepared, 4096, k).wave, COSTS.wave * min(1, k / 64 / lines))
    plain = prepare(tiles_of([WgmmaConfig(128, 128, 4)], H200), "wgmma", bf16, H200, COSTS)
    assert fixed(plain, 4096, 8).wave == COSTS.wave


@pytest.mark.parametrize("turns", [{}, {"overlap": False, "ping_pong": True}])
def test_what_an_epilogue_computes_takes_time_beside_the_loop(turns):
    kernel, plain = KERNELS["wgmma"], product(1024, 1664, 1024)  # two waves of an H20, which power does not limit
    fused = plain._replace(epilogue=Epilogue(activation="gelu"))
    config = WgmmaConfig(128, 128, 4, epilogue="direct", **turns)
    first, second = (kernel.breakdown(config, each, H20, "burst") for each in (plain, fused))
    clock = TIMES.clock * H20.clock("wgmma") / H200.clock("wgmma")
    name = "functions of the epilogue"
    assert name not in first.limits
    assert {**first.limits, name: second.limits[name]} == pytest.approx(second.limits)
    longer = kernel.predict(config, fused, H20, "burst").seconds - kernel.predict(config, plain, H20, "burst").seconds
    assert longer == pytest.approx(second.limits[name])
    assert longer == pytest.approx((1.5 if turns else 2) * 128 * 128 * 8 / 128 * 0.8 / clock / 1e6)
    assert sum(second.parts) - sum(first.parts) == pytest.approx(longer)


@pytest.mark.parametrize(
    ("dtype", "n", "stored"),
    [(bf16, 1000, (False, False)), (bf16, 1001, (False, True)), (fp8_e4m3, 1001, (True, True)),
     (fp8_e4m3, 1002, (False, True)), (fp32, 1001, (False, False))],
)  # fmt: skip
def test_what_is_stored_element_by_element(dtype, n, stored):
    of = {"a": fp8_e4m3, "b": fp8_e4m3} if dtype is fp8_e4m3 else {"a": bf16, "b": bf16}
    problem = Problem(1001, n, 1024, Matrix(of["a"], 1024, 1), Matrix(of["b"], 1, 1024), Matrix(dtype, n, 1))
    assert scattered(problem) == stored


def test_power_limits_only_gpus_whose_tensor_cores_can_exceed_it():
    settled, burst = (predicted(4096, 4096, 4096, power=power).seconds for power in ("settled", "burst"))
    assert settled > 1.1 * burst
    settled, burst = (predicted(4096, 4096, 4096, power=power, gpu=H20).seconds for power in ("settled", "burst"))
    assert settled == burst


def test_an_empty_sum_costs_the_launch_and_the_writing():
    problem, kernel = product(2048, 2048, 0), KERNELS["mma"]
    prediction = kernel.predict(kernel.best(problem, H200), problem, H200)
    assert prediction.tflops == 0
    assert 2.5e-6 + 2 * 2048**2 / H200.memory_bandwidth < prediction.seconds < 6e-6


@pytest.mark.parametrize(("unit", "dtype", "gpu"), [("mma", bf16, A100), ("mma", bf16, H200)])
def test_where_nothing_overlaps_the_parts_of_a_step_add_up(unit, dtype, gpu):
    rng, costs = Random(5), costs_of(unit, dtype, gpu)
    ways = [(tile, 16 * rng.randint(1, 16), 32) for tile in (64, 128, 192, 256)]
    tile_m, tile_n, tile_k = np.array(ways, np.float64).T
    one, apart = np.ones(len(ways)), np.zeros(len(ways), bool)
    tiles = Tiles(tile_m, tile_n, tile_k, one, one, one, one, one * gpu.sm_count, tile_m, tile_n, *[apart] * 4)
    prepared = prepare(tiles, unit, dtype, gpu, costs)

    def us(product, way):
        (m, n, k, batch_count), (tile_m, tile_n, tile_k) = product, way
        multiply = tile_m * tile_n * tile_k / gpu.macs(unit, dtype)
        deliver = (tile_m + tile_n) * tile_k * dtype.nbytes / costs.fill
        waves = ceil(ceil(m / tile_m) * ceil(n / tile_n) * batch_count / gpu.sm_count)
        busy = waves * ceil(k / tile_k) * (multiply + deliver) / costs.clock
        streamed = (m + n) * k * batch_count * dtype.nbytes / (STREAMED * gpu.memory_bandwidth) * 1e6
        return hypot(busy, streamed) + costs.launch

    for _ in range(200):
        product = (*(rng.randint(1, 9000) for _ in range(3)), rng.randint(1, 9))
        m, *others = product
        np.testing.assert_allclose(
            found_of(fixed(prepared, *others), m).us, [us(product, way) for way in ways], rtol=1e-12
        )
