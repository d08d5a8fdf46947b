"""The model of the machine against figures measured on an H200 (random data, settled unless stated)."""

import pytest

from tilewright.dtypes import bf16, fp32
from tilewright.hardware import A100, H20, H200
from tilewright.model.speed_of_light import predict, speed_of_light
from tilewright.problem import Matrix, Problem

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
# Microseconds, with tiles that fill the machine or stream the weights.
SMALL = [(512, 512, 512, 64, 64, 4.0), (1024, 1024, 1024, 64, 128, 6.3)]
DECODE = [(1, 12288, 4096, 27.8), (1, 28672, 8192, 105.9), (16, 28672, 8192, 107.0), (64, 28672, 8192, 116.7)]


def product(m, n, k, dtype=bf16):
    return Problem(m, n, k, Matrix(dtype, k, 1), Matrix(dtype, 1, k), Matrix(dtype, n, 1))


@pytest.mark.parametrize(("m", "n", "k", "tflops"), SETTLED)
def test_settled_rates_are_met_within_a_tenth(m, n, k, tflops):
    assert predict(product(m, n, k), H200, 128, 256, 132).tflops == pytest.approx(tflops, rel=0.1)


@pytest.mark.parametrize(("m", "n", "k", "tflops"), BURST)
def test_burst_rates_are_met_within_a_tenth(m, n, k, tflops):
    assert predict(product(m, n, k), H200, 128, 256, 132, power="burst").tflops == pytest.approx(tflops, rel=0.1)


@pytest.mark.parametrize(("m", "n", "k", "tile_m", "tile_n", "us"), SMALL)
def test_small_products_are_met_within_a_tenth(m, n, k, tile_m, tile_n, us):
    assert predict(product(m, n, k), H200, tile_m, tile_n, 132).seconds * 1e6 == pytest.approx(us, rel=0.1)


@pytest.mark.parametrize(("m", "n", "k", "us"), DECODE)
def test_products_with_few_rows_are_bound_by_memory(m, n, k, us):
    assert predict(product(m, n, k), H200, 64, 128, 132).seconds * 1e6 == pytest.approx(us, rel=0.1)
    assert speed_of_light(product(m, n, k), H200).bound == "memory"


def test_fp32_runs_on_the_cuda_cores_at_their_boost_clock():
    prediction = predict(product(8192, 8192, 8192, fp32), H200, 128, 128, 132, unit="cuda_cores")
    assert prediction.clock == H200.cuda_core_clock
    assert prediction.tflops == pytest.approx(50.5, rel=0.05)


def test_speed_of_light_is_the_data_sheet():
    light = speed_of_light(product(8192, 8192, 8192), H200)
    assert 2 * 8192**3 / light.seconds == pytest.approx(989.4e12, rel=1e-3)
    assert light.bound == "compute"


def test_no_prediction_is_faster_than_light():
    for m, n, k, _ in SETTLED:
        problem = product(m, n, k)
        for power in ("settled", "burst"):
            assert predict(problem, H200, 128, 256, 132, power=power).seconds > speed_of_light(problem, H200).seconds


def test_one_tile_too_many_costs_a_wave():
    full = predict(product(128 * 11, 256 * 12, 4096), H200, 128, 256, 132)
    over = predict(product(128 * 11, 256 * 12 + 1, 4096), H200, 128, 256, 132)
    assert (full.tile_count, full.waves, full.quantization) == (132, 1, 1.0)
    assert (over.tile_count, over.waves) == (143, 2)
    assert over.compute_seconds == pytest.approx(2 * full.compute_seconds)


def test_a_grid_that_leaves_multiprocessors_idle_counts_as_quantization():
    prediction = predict(product(128 * 60, 256 * 2, 4096), H200, 128, 256, 120)
    assert prediction.waves == 1
    assert prediction.quantization == pytest.approx(120 / 132)


def test_power_limits_only_gpus_whose_tensor_cores_can_exceed_it():
    problem = product(4096, 4096, 4096)
    assert predict(problem, H200, 128, 256, 132).clock < H200.tensor_clock
    assert predict(problem, H20, 128, 256, 78).clock == H20.tensor_clock
    assert predict(problem, A100, 128, 256, 108, unit="mma").clock == A100.tensor_clock


def test_an_empty_sum_costs_the_overhead_and_the_writing():
    prediction = predict(product(256, 256, 0), H200, 128, 256, 132)
    assert prediction.compute_seconds == 0
    assert prediction.quantization == 1.0
    assert prediction.seconds > prediction.overhead_seconds
