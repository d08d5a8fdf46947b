"""What the ladder's kernels refuse before anything is compiled, and which Configs they offer."""

import numpy as np
import pytest

import tilewright as tw
from support.rungs import RUNGS, product
from tilewright.backends.emulated import EmulatedBackend
from tilewright.dtypes import bf16, fp16
from tilewright.hardware import H200
from tilewright.problem import Matrix

WMMA_GMEM = RUNGS["wmma_gmem"]
CLUSTERED = [name for name, kernel in RUNGS.items() if kernel.cluster_m > 1]


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("stride", [-512, 0, 8, 2**31, 2**31 + 64])
def test_row_strides_that_wmma_load_does_not_take_are_refused(operand, stride):
    problem = product(WMMA_GMEM)._replace(**{operand: Matrix(fp16, stride, 1)})
    refusal = WMMA_GMEM.refuses(problem, H200)
    assert f"16 to 2147483647 elements, and {operand} has row stride {stride}: copy {operand}" in refusal.reason


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("stride", [16, 2**31 - 8])
def test_row_strides_that_wmma_load_takes_are_not(operand, stride):
    problem = product(WMMA_GMEM)._replace(**{operand: Matrix(fp16, stride, 1)})
    assert WMMA_GMEM.refuses(problem, H200) is None


def test_a_flipped_matrix_never_reaches_wmma_load():
    a, b = np.ones((32, 64), np.float16), np.ones((64, 64), np.float16)
    with pytest.raises(ValueError, match="a has row stride -64: copy a"):
        tw.plan(a[::-1], b, kernel="wmma_gmem", backend=EmulatedBackend())


@pytest.mark.parametrize("kernel", RUNGS.values(), ids=RUNGS)
def test_every_config_that_a_rung_offers_passes_its_rules(kernel):
    for dtype in kernel.inputs:
        problem = product(kernel, dtype)
        configs = kernel.configs(problem, H200)
        assert configs
        for config in configs:
            kernel.check(config, problem, H200)


@pytest.mark.parametrize(("dtype", "accumulators"), [(fp16, ["fp16", "fp32"]), (bf16, ["fp32"])])
def test_sums_in_fp16_are_offered_for_fp16(dtype, accumulators):
    kernel = RUNGS["mma_warp"]
    assert [config.accumulator for config in kernel.configs(product(kernel, dtype), H200)] == accumulators


def launch(kernel, hardware):
    problem = product(kernel)
    return kernel.assemble(kernel.configs(problem, hardware)[0], problem, hardware).shape


@pytest.mark.parametrize("name", CLUSTERED)
def test_a_cluster_needs_as_many_sms_as_ctas(name):
    kernel = RUNGS[name]
    refusal = kernel.refuses(product(kernel), H200._replace(sm_count=1))
    assert f"{name} launches clusters of 2 CTAs" in refusal.reason
    assert "H200 has 1" in refusal.reason
    two = H200._replace(sm_count=2)
    assert kernel.refuses(product(kernel), two) is None
    assert launch(kernel, two).grid == 2


@pytest.mark.parametrize("name", ["wgmma_basic", "wgmma_persistent", "wgmma_lean_barriers"])
def test_rungs_without_clusters_run_on_one_sm(name):
    one = H200._replace(sm_count=1)
    assert RUNGS[name].refuses(product(RUNGS[name]), one) is None
    assert launch(RUNGS[name], one).grid > 0


@pytest.mark.parametrize("name", ["uncoalesced", "coalesced", "smem_tiles"])
def test_a_sum_of_nothing_is_zero(name):
    a, b = np.zeros((40, 0), np.float32), np.zeros((0, 24), np.float32)
    assert not tw.matmul(a, b, kernel=name, backend=EmulatedBackend()).any()
