"""The microbenchmarks on a GPU: their results are right, and each SM has taken clocks."""

import pytest

from tilewright.bench.inputs import Shape
from tilewright.bench.micro import banks, fma, occupancy, power, strides, wgmma
from tilewright.bench.micro.runners import GpuRunner
from tilewright.cli.products import problem_of
from tilewright.measure.protocol import Burst, Settled
from tilewright.model.memory.dram import FETCHES


@pytest.fixture(scope="module")
def runner(gpu):
    return GpuRunner(gpu.device)


def test_chains_of_multiply_adds(runner):
    for found in fma.measure([fma.Case(1), fma.Case(8, 16)], runner, rounds=16):
        assert 0 < found.least <= found.median <= found.most


def test_reads_by_bank(runner):
    found = list(banks.measure(banks.CASES, runner, rounds=16))
    assert len(found) == len(banks.CASES)
    assert all(0 < each.least <= each.median <= each.most for each in found)


@pytest.mark.parametrize("kind", wgmma.KINDS, ids=str)
def test_chains_of_wgmmas(gpu, runner, kind):
    if gpu.hardware.capability != 90:
        pytest.skip(f"{gpu.hardware.name} has no wgmma")
    cases = wgmma.cases([kind], (8, 120, 256), (1, 2))
    assert sum(found.least > 0 for found in wgmma.measure(cases, runner, rounds=16)) == len(cases)


def test_products_of_several_kinds_of_data(gpu):
    problem = problem_of(Shape(512, 512, 512), bias=False, activation=None)
    quick = Settled(cycles=1, slice_seconds=0.1, warmup_seconds=0.02)
    found = power.measure(problem, power.DATA, power.gpu_stand(problem), quick)
    assert [each.data for each in found] == list(power.DATA)
    assert all(each.tflops > 0 for each in found)


def test_reads_by_stride(gpu, runner):
    wanted = [strides.Case(stride, fetch) for stride in (32, 4096) for fetch in FETCHES]
    found = list(strides.measure(wanted, runner, 1 << 28))
    assert all(each.measured > 0 for each in found)
    assert len(found) == len(wanted)


def test_rungs_for_one_cta_and_for_two(gpu):
    problem = problem_of(Shape(512, 512, 512, "fp32", "nn"), bias=False, activation=None)
    found = occupancy.measure(problem, power.gpu_stand(problem), Burst(cycles=1, idle_seconds=0.01))
    assert [each.ctas for each in found] == [1, 2, 1, 2]
    assert all(each.tflops > 0 for each in found)
