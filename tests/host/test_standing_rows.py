"""Choices are shared by numbers of rows: they are as good as choices for each, and the model is rarely asked."""

from itertools import pairwise
from statistics import geometric_mean

import pytest

from tilewright.dtypes import bf16, fp8_e4m3, fp32
from tilewright.hardware import A100, H200
from tilewright.kernels.registry import FEW_ROWS, KERNELS, few_rows
from tilewright.kernels.wgmma import kernel as wgmma
from tilewright.kernels.wgmma.operands import operands_of, row_bytes, scattered
from tilewright.kernels.wgmma.space import tiles_of
from tilewright.model.ranking.ranking import Ranking
from tilewright.planner.choose import Offers, asked, choose, standing_for
from tilewright.problem import Epilogue, Matrix, Problem

WEIGHTS = [(4096, 4096), (12288, 4096), (2112, 7168), (512, 7168), (28672, 8192)]

RANKED = "recorded"
"""The power state in which choices are made."""


def product(m, n, k, layout="nt", dtype=bf16, *, biased=False):
    b = Matrix(dtype, n, 1) if layout[1] == "n" else Matrix(dtype, 1, k)
    epilogue = Epilogue(bias=Matrix(dtype, 0, 1)) if biased else Epilogue()
    return Problem(m, n, k, Matrix(dtype, k, 1), b, Matrix(dtype, n, 1), (), epilogue)


def test_rows_stand_for_themselves_or_for_fewer_with_equal_tiles():
    standing = [standing_for(m) for m in range(1, 4097)]
    assert list(dict.fromkeys(standing)) == [1, 2, 4, 8, 16, *range(24, 4097, 8)]
    assert all(m <= stands for m, stands in enumerate(standing, 1))
    assert all(one <= other for one, other in pairwise(standing))


def ranked_alone(kernel, problem):
    """The times by which a kernel chooses among its Configs for exactly these rows."""
    configs = kernel.candidates(problem, H200, 1000)
    if kernel is not KERNELS["wgmma"]:
        return {config: kernel.ranked_seconds(config, problem, H200) for config in configs}
    tiles = tiles_of(configs, H200, operands_of(problem).mn_major, scattered(problem))
    times = Ranking(tiles, "wgmma", bf16, H200).times(problem.m, problem.n, problem.k, 1, row_bytes(problem))
    return dict(zip(configs, times, strict=True))


@pytest.mark.parametrize(("n", "k", "layout"), [*((*extents, "nt") for extents in WEIGHTS), (4096, 4096, "nn")])
def test_a_shared_choice_is_as_good_as_the_best_for_these_rows_alone(n, k, layout):
    losses = []
    for m in range(1, 301):
        problem = product(m, n, k, layout)
        shared = choose(product(standing_for(m), n, k, layout), H200)
        kernels = [kernel for kernel, _ in asked(problem, H200)]
        of_kernel = shared.kernel.best_seconds(problem, H200) / min(
            each.best_seconds(problem, H200) for each in kernels
        )
        alone = ranked_alone(shared.kernel, problem)
        losses.append(of_kernel * alone[shared.config] / min(alone.values()))
    # Corrections of near ties change in steps.
    assert geometric_mean(losses) < 1.006
    assert max(losses) < 1.08


@pytest.mark.parametrize(
    ("dtype", "known", "rows"),
    [
        (bf16, 1000, range(FEW_ROWS + 1, 1200, 7)),
        (fp32, 1000, range(few_rows(fp32) + 1, 1200, 7)),
        (fp32, 100, range(2, few_rows(fp32) + 1, 3)),
    ],
)
@pytest.mark.parametrize("gpu", [H200, A100])
@pytest.mark.parametrize("biased", [False, True])
def test_from_one_choice_follow_those_of_other_rows(gpu, dtype, known, rows, biased):
    for n, k in WEIGHTS:
        offers = Offers.of(product(known, n, k, "nt", dtype, biased=biased), gpu)
        for m in rows:
            problem = product(m, n, k, "nt", dtype, biased=biased)
            resized = offers.resized(problem)
            assert resized is not None
            assert resized.choice(problem, gpu) == choose(problem, gpu)


@pytest.mark.parametrize("m", range(1, FEW_ROWS + 1))
def test_few_rows_are_decided_about_as_those_that_stand_for_them(m):
    for n, k in WEIGHTS:
        one, other = (choose(product(rows, n, k), H200) for rows in (m, standing_for(m)))
        assert (one.kernel, one.config) == (other.kernel, other.config)


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("dtype", [bf16, fp8_e4m3, fp32])
def test_the_limits_of_tilings_repeat_every_sixteen_rows(layout, dtype):
    n, k, wide = 264, 512, 4096
    a = Matrix(bf16, k, 1) if layout[0] == "n" else Matrix(bf16, 1, wide)
    limits = set()
    for strides in ((n, 1), (n + 1, 1), (1, wide), (1, wide + 2)):
        for m in range(1, 200):
            problem = Problem(m, n, k, a, Matrix(bf16, 1, k), Matrix(dtype, *strides))
            limits.add(wgmma._limits(problem))
            assert wgmma._limits(problem) == wgmma._limits_of.__wrapped__(problem)
    assert len(limits) > 1 or dtype == fp32
