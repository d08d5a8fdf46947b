"""Epilogues of `wgmma` whose CTAs make several tiles: a bias read ahead, and the largest magnitude of all tiles."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.kernels.wgmma.config import WgmmaConfig

M, N, K = 1100, 152, 16
"""18 times 10 tiles of 64x16, of which 132 CTAs make one or two; the last ones are cut off."""


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("place", [(0, 0), (M - 1, N - 1), (700, 80)], ids=str)
def test_the_largest_magnitude_is_found_in_any_tile(overlap, place):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    bias = rng.integers(-8, 9, N).astype(np.float32)
    shift = np.zeros((M, N), np.float32)
    shift[place] = -1000
    largest = np.full((), np.nan, np.float32)
    out = tw.matmul(
        a, b.T, epilogue="acc + bias + shift", operands={"bias": bias, "shift": shift}, outputs={"amax": largest},
        kernel="wgmma", config=WgmmaConfig(64, 16, 3, epilogue="direct", overlap=overlap), backend="emulator",
    )  # fmt: skip
    expected = a.astype(np.float32) @ b.astype(np.float32).T + bias + shift
    np.testing.assert_array_equal(out, expected.astype(ml_dtypes.bfloat16))
    assert largest == np.abs(expected).max() == np.abs(expected[place])
