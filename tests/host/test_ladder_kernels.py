"""What the ladder's kernels refuse before anything is compiled, and which Configs they offer."""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.cli.product import Product
from tilewright.dtypes import bf16, fp16
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.problem import Matrix

WMMA_GMEM = LADDER["wmma_gmem"].kernel
RUNGS = [rung for rung in LADDER.values() if isinstance(rung.kernel, LadderKernel)]


def product(rung, dtype=None):
    kind = dtype or rung.inputs[0]
    return Product(512, 512, 512, kind, kind, rung.layout).problem


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("stride", [-512, 0, 8, 2**31, 2**31 + 64])
def test_row_strides_that_wmma_load_does_not_take_are_refused(operand, stride):
    problem = replace(product(LADDER["wmma_gmem"]), **{operand: Matrix(fp16, stride, 1)})
    refusal = WMMA_GMEM.rejects(problem, H200)
    assert f"16 to 2147483647 elements, and {operand} has row stride {stride}: copy {operand}" in refusal


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("stride", [16, 2**31 - 8])
def test_row_strides_that_wmma_load_takes_are_not(operand, stride):
    problem = replace(product(LADDER["wmma_gmem"]), **{operand: Matrix(fp16, stride, 1)})
    assert WMMA_GMEM.rejects(problem, H200) is None


def test_a_flipped_matrix_never_reaches_wmma_load():
    a, b = np.ones((32, 64), np.float16), np.ones((64, 64), np.float16)
    with pytest.raises(ValueError, match="a has row stride -64: copy a"):
        tw.plan(a[::-1], b, kernel="wmma_gmem", backend=EmulatedBackend())


@pytest.mark.parametrize("rung", RUNGS, ids=attrgetter("name"))
def test_every_config_that_a_rung_offers_passes_its_rules(rung):
    for dtype in rung.inputs:
        problem = product(rung, dtype)
        configs = rung.kernel.configs(problem, H200)
        assert configs
        for config in configs:
            rung.kernel.check(config, problem, H200)


@pytest.mark.parametrize(("dtype", "accumulators"), [(fp16, ["fp32", "fp16"]), (bf16, ["fp32"])])
def test_sums_in_fp16_are_offered_for_fp16(dtype, accumulators):
    rung = LADDER["mma_warp"]
    assert [config.accumulator for config in rung.kernel.configs(product(rung, dtype), H200)] == accumulators
