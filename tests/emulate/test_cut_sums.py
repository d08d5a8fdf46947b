"""What tensor cores cut off sums of fp8 stays within the bound that results are compared with."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.emulator.semantics.matrices.accumulation import ADDERS, factors_of, hardware_sum
from tilewright.reference.bounds import cut_error, sum_bound

NEVER = 1 << 20
STEP = 32


def summed(a, b, cut_after):
    """a @ b as wgmma adds products of fp8 and the kernel promotes its sums."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for first in range(0, a.shape[1], cut_after):
        partial = np.zeros_like(total)
        for start in range(first, min(first + cut_after, a.shape[1]), STEP):
            factors = factors_of(a[:, start : start + STEP], b[start : start + STEP], "e4m3", "e4m3")
            partial = hardware_sum(ADDERS["wgmma", "fp8"], factors, partial, "f32")
        total += partial
    return total


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def positive(rng, *shape):
    return abs(normal(rng, *shape))


def scattered(rng, *shape):
    """Exponents far from each other."""
    wide = rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 8, shape)
    return wide.clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


@pytest.mark.parametrize("cut_after", [128, NEVER])
@pytest.mark.parametrize("data", [normal, positive, scattered])
@pytest.mark.parametrize("k", [1, 32, 100, 1024])
def test_sums_are_within_the_bound(k, data, cut_after):
    rng = np.random.default_rng(k)
    a, b = data(rng, 24, k), data(rng, k, 40)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = abs(summed(a, b, cut_after) - exact)
    bound = sum_bound(a.astype(np.float64), b.astype(np.float64), cut_after=cut_after)
    assert (error <= bound).all()
    if k >= 100:
        assert error.max() > bound.max() / 60


def test_a_lost_product_is_outside_the_bound():
    rng = np.random.default_rng(0)
    a, b = normal(rng, 24, 256), normal(rng, 256, 40)
    bound = sum_bound(a.astype(np.float64), b.astype(np.float64), cut_after=128)
    lost = abs(a[:, 7:8] * b[7:8])
    assert (lost > bound).mean() > 0.5


def test_promotion_keeps_more():
    rng = np.random.default_rng(0)
    a, b = (each.astype(np.float64) for each in (positive(rng, 8, 4096), positive(rng, 4096, 8)))
    assert (cut_error(a, b, 128) < cut_error(a, b, NEVER) / 4).all()


def test_batches_are_bounded_each():
    rng = np.random.default_rng(0)
    a, b = (each.astype(np.float64) for each in (normal(rng, 3, 8, 70), normal(rng, 3, 70, 5)))
    together = cut_error(a, b, 128)
    assert all(np.array_equal(together[i], cut_error(a[i], b[i], 128)) for i in range(3))
