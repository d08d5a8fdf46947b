"""The tuner and ranges of rows on a GPU: right results, times that are times, and nothing compiled in a range."""

import pytest

import tilewright as tw
from tilewright.dtypes import bf16, fp16
from tilewright.jit import cache
from tilewright.jit.cache import build
from tilewright.jit.compile import compile
from tilewright.jit.pool import CompilerPool
from tilewright.kernels.registry import KERNELS
from tilewright.measure.protocol import Settled
from tilewright.planner import planning, tuned
from tilewright.planner.tuning import Settings, candidates, tune
from tilewright.planner.tuning.stand import GpuStand
from tilewright.problem import Epilogue, Matrix, Problem

QUICK = Settings(tilings=10, varied=1, settled=Settled(cycles=2, slice_seconds=0.04, warmup_seconds=0.1))


@pytest.fixture
def untuned_gpu(tmp_path, monkeypatch):
    """An empty table; kernels stay in the usual cache."""
    monkeypatch.setattr(tuned, "_SHIPPED", tmp_path / "none")
    kept = tuned.Store("unused", [tmp_path])
    monkeypatch.setattr(tuned, "store", lambda gpu: kept)
    monkeypatch.setattr("tilewright.planner.tuning.ensure.store", lambda gpu: kept)
    return kept


@pytest.fixture(autouse=True)
def untuned():
    """The planner takes what the tests have tuned."""


def product(m, n, k, dtype=bf16, **changes):
    matrices = {"a": Matrix(dtype, k, 1), "b": Matrix(dtype, 1, k), "out": Matrix(dtype, n, 1)}
    return Problem(**{"m": m, "n": n, "k": k} | matrices | changes)


PRODUCTS = {
    "plain": product(512, 1024, 768),
    "swapped": product(16, 4096, 2048),
    "gelu": product(200, 520, 264, fp16, epilogue=Epilogue(bias=Matrix(fp16, 0, 1), activation="gelu")),
    "c": product(129, 136, 72, fp16, epilogue=Epilogue(c=Matrix(fp16, 136, 1))),
    "strided": product(300, 200, 100, a=Matrix(bf16, 203, 2), b=Matrix(bf16, 1, 101, alignment=2)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_tuned_with_right_results(gpu, name):
    problem = PRODUCTS[name]
    with GpuStand(problem, gpu) as stand, CompilerPool() as pool:
        found = tune(problem, stand, pool, settings=QUICK)
        first = candidates.untuned(problem, gpu.hardware)
        assert stand.fault(first, build(first.source, gpu.hardware.arch)) == ""
    assert found.faults == ()
    assert found.best[0].gain > 1 or found.best[0].config == first.config
    assert all(0 < each.us < 1e5 for each in found.best)
    assert found.entry.made_config() == found.best[0].config


def test_a_stand_on_a_gpu_notices_a_kernel_of_another_product(gpu):
    problem = product(40, 48, 72, fp16)
    other = product(40, 48, 64, fp16, a=Matrix(fp16, 72, 1), b=Matrix(fp16, 1, 72))
    wrong = candidates.untuned(other, gpu.hardware)
    with GpuStand(problem, gpu) as stand:
        assert "sampled elements are wrong" in stand.fault(wrong, build(wrong.source, gpu.hardware.arch))


def test_every_ranked_candidate_is_right(gpu):
    problem = product(264, 392, 520)
    with GpuStand(problem, gpu) as stand, CompilerPool() as pool:
        tried = list(candidates.ranked(candidates.untuned(problem, gpu.hardware), problem, gpu.hardware, 24))
        kernels = dict(pool.build_all([each.source for each in tried], gpu.hardware.arch))
        assert {str(each.config): stand.fault(each, kernels[each.source]) for each in tried} == {
            str(each.config): "" for each in tried
        }


def test_what_a_plan_tunes_is_what_later_plans_take(untuned_gpu, torch, monkeypatch):
    monkeypatch.setattr("tilewright.planner.tuning.search.Settings", lambda: QUICK)
    a = torch.randn(96, 512, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(768, 512, device="cuda", dtype=torch.bfloat16)
    first = tw.plan(a, weight.T, tune=True)
    assert len(untuned_gpu.table()) == 1
    later = tw.plan(a, weight.T)
    assert later.config == first.config == untuned_gpu.table().entries()[0].made_config()
    assert "; tuned for 96 rows" in later.reason
    expected = a.double() @ weight.double().T
    torch.testing.assert_close(later(a, weight.T).double(), expected, rtol=1e-2, atol=1e-2)


def test_no_call_in_a_range_compiles_or_loads_also_under_capture(gpu, torch, monkeypatch):
    weight = torch.randn(520, 1032, device="cuda", dtype=torch.bfloat16)
    plan = tw.plan(weight.new_empty(1, 1032), weight.T, m=range(1, 257))

    def forbidden(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(planning, "build", forbidden)
    monkeypatch.setattr(cache, "build", forbidden)
    loaded = len(gpu._functions)
    inputs = {rows: torch.randn(rows, 1032, device="cuda", dtype=torch.bfloat16) for rows in (1, 2, 17, 64, 129, 256)}
    results = {}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for rows, a in inputs.items():
            results[rows] = plan(a, weight.T)
    graph.replay()
    torch.cuda.synchronize()
    assert len(gpu._functions) == loaded
    for rows, a in inputs.items():
        torch.testing.assert_close(results[rows].double(), a.double() @ weight.double().T, rtol=2e-2, atol=2e-2)


def test_kernels_compiled_by_other_processes_are_those_of_this_one(gpu, tmp_path, monkeypatch):
    problem, config = product(136, 264, 72), tw.WgmmaConfig(128, 136, 2, epilogue="direct", overlap=False)
    source = KERNELS["wgmma"].assemble(config, problem, gpu.hardware).source
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    with CompilerPool(1) as pool:
        by_worker = pool.submit(source, gpu.hardware.arch).result()
    here = compile(source, gpu.hardware.arch)
    assert by_worker.ptx == here.ptx  # ptxas may number control codes in another way
    assert (by_worker.registers, by_worker.spill_bytes) == (here.registers, here.spill_bytes)
