"""Rows whose bits depend on nothing else of a batch, in the emulator."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import A100, H200
from tilewright.kernels.registry import KERNELS
from tilewright.planner.choose import choose
from tilewright.problem import Matrix, Problem

BACKEND = EmulatedBackend()
K, N, MOST = 328, 72, 300


def operands(dtype, seed=3):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape).astype(dtype) for shape in ((MOST, K), (K, N), (N,)))


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize(("dtype", "most"), [(bfloat16, MOST), (np.float32, 70)])
def test_a_row_has_the_same_bits_whatever_the_batch(dtype, most):
    a, b, bias = operands(dtype)
    multiply = {"bias": bias, "activation": "gelu", "batch_invariant": True, "backend": BACKEND}
    expected = bits(tw.matmul(a[:most], b, **multiply))
    for first, last in ((0, 1), (7, 8), (1, 17), (3, 67), (0, most // 2), (5, most)):
        assert np.array_equal(bits(tw.matmul(a[first:last], b, **multiply)), expected[first:last]), (first, last)
    batched = tw.matmul(a[:60].reshape(3, 20, K), b, **multiply)
    assert np.array_equal(bits(batched).reshape(60, -1), expected[:60])
    alone = tw.matmul(a[4], b, **multiply)
    assert np.array_equal(bits(alone), expected[4])


@pytest.mark.parametrize("dtype", [bfloat16, np.float32])
def test_a_row_has_the_same_bits_up_to_4096_rows(dtype):
    generator = np.random.default_rng(4)
    a, b = (generator.standard_normal(shape).astype(dtype) for shape in ((4096, 136), (136, 64)))
    expected = bits(tw.matmul(a, b, batch_invariant=True, backend=BACKEND))
    for m in (1, 2, 15, 16, 17, 33, 64, 65, 129, 257, 513, 1025, 2049, 4095):
        assert np.array_equal(bits(tw.matmul(a[-m:], b, batch_invariant=True, backend=BACKEND)), expected[-m:]), m


def test_neither_strides_nor_alignment_of_a_matter():
    a, b, _ = operands(bfloat16)
    expected = bits(tw.matmul(a, b, batch_invariant=True, backend=BACKEND))
    wide = np.zeros((20, 3 * K + 2), bfloat16)
    for view in (wide[:, 1 : K + 1], wide[:, : 2 * K : 2], wide[:, 2 * K + 1 : K + 1 : -1]):
        view[...] = a[:20]
        assert np.array_equal(bits(tw.matmul(view, b, batch_invariant=True, backend=BACKEND)), expected[:20])
    column_major = np.asfortranarray(a[:20])
    assert np.array_equal(bits(tw.matmul(column_major, b, batch_invariant=True, backend=BACKEND)), expected[:20])


@pytest.mark.parametrize("gpu", [H200, A100], ids=lambda gpu: gpu.name)
def test_one_kernel_takes_all_rows_and_no_config_splits_k(gpu):
    random = np.random.default_rng(5)
    kernels = set()
    for _ in range(300):
        m, k = int(2 ** random.uniform(0, 13)), 2048
        a = Matrix(dtypes.bf16, k + int(random.integers(0, 9)), 1, (), int(random.choice((2, 4, 8, 16))))
        asked = Problem(m, 512, k, a, Matrix(dtypes.bf16, 1, k), Matrix(dtypes.bf16, 512, 1), batch_invariant=True)
        choice = choose(asked, gpu)
        kernels.add(choice.kernel.name)
        assert getattr(choice.config, "split_k", 1) == 1
    assert len(kernels) == 1


def test_a_config_that_splits_k_is_refused():
    a, b, _ = operands(bfloat16)
    split = tw.WgmmaConfig(64, 64, 2, split_k=2, epilogue="direct", overlap=False, wait_depth=1)
    tw.plan(a, b, config=split, backend=BACKEND)
    with pytest.raises(tw.ConfigError, match=r"splits k, and with batch_invariant=True .* take split_k=1"):
        tw.plan(a, b, config=split, batch_invariant=True, backend=BACKEND)
    with pytest.raises(TypeError, match=r"batch_invariant='yes' is not a bool"):
        tw.plan(a, b, batch_invariant="yes", backend=BACKEND)


def test_the_planner_splits_k_otherwise():
    """Else the tests above prove nothing."""
    problem = Problem(
        16, 512, 4096, Matrix(dtypes.bf16, 4096, 1), Matrix(dtypes.bf16, 1, 4096), Matrix(dtypes.bf16, 512, 1)
    )
    kernel = KERNELS["wgmma"]
    assert kernel.best(problem, H200).split_k > 1
    assert kernel.best(problem._replace(batch_invariant=True), H200).split_k == 1


def test_plans_and_ranges_of_rows_keep_the_bits():
    a, b, _ = operands(bfloat16)
    expected = bits(tw.matmul(a, b, batch_invariant=True, backend=BACKEND))
    plan = tw.plan(a, b, m=range(1, MOST + 1, 37), batch_invariant=True, backend=BACKEND)
    for rows in plan.rows:
        assert np.array_equal(bits(plan(a[:rows], b)), expected[:rows]), rows


WGMMA = [
    tw.WgmmaConfig(64, 16, 3, epilogue="direct", overlap=False, tile_k=128),
    tw.WgmmaConfig(128, 64, 3, epilogue="direct", overlap=False),
    tw.WgmmaConfig(64, 24, 2, epilogue="direct", overlap=False, swap_ab=True),
    tw.WgmmaConfig(256, 80, 3, cluster_n=2, epilogue="direct", overlap=False, swap_ab=True),
]
SIMT = [tw.SimtConfig(tile_m=256, tile_k=8, warp_n=64, thread_m=16), tw.SimtConfig()]


def same_bits(configs, a, b, **keywords):
    """The bits that all Configs give, which differ in what changes how the compiler sees an epilogue."""
    first, *others = (
        bits(tw.matmul(a, b, config=config, batch_invariant=True, backend=BACKEND, **keywords)) for config in configs
    )
    assert all(np.array_equal(first, other) for other in others)
    return first


@pytest.mark.parametrize(
    "keywords",
    [
        {"epilogue": "acc * (r * t + u * v)"},
        {"epilogue": "gelu(acc * r - t * u) / (v + silu(acc))"},
        {"activation": "gelu_tanh"},
        {"activation": "silu", "c": True, "beta": 0.3, "alpha": -1.7},
    ],
    ids=str,
)
def test_no_config_joins_operations_as_no_other_does(keywords):
    """A sum of a product of rows and one of columns is hoisted in one orientation and not in the other."""
    a, b, _ = operands(bfloat16)
    a = a[:96]
    rng = np.random.default_rng(8)
    vectors = {name: rng.standard_normal((96, 1) if name in "rt" else (1, N)).astype(np.float32) for name in "rtuv"}
    keywords = dict(keywords)
    if "epilogue" in keywords:
        keywords["operands"] = vectors
    if keywords.pop("c", False):
        keywords["c"] = rng.standard_normal((96, N)).astype(np.float32)
    same_bits(WGMMA, a, b, out_dtype="fp32", **keywords)


@pytest.mark.parametrize(
    ("configs", "dtype", "k"), [(WGMMA, bfloat16, 8), (SIMT, np.float32, 8)], ids=["wgmma", "simt"]
)
def test_zeros_have_one_sign(configs, dtype, k):
    """A sum of underflowing products is -0, and stays it unless zeros pad it to a whole k-block."""
    a, b = np.full((64, k), -1e-30, np.float32).astype(dtype), np.full((k, 64), 1e-30, np.float32).astype(dtype)
    assert not same_bits(configs, a, b, out_dtype="fp32").any()
