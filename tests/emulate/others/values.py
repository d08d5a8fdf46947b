"""Random arguments of kernels, and what products of them are."""

import numpy as np


def small_integers(rng, shape, dtype=np.float16, limit=4):
    """Whole numbers of which sums of some hundred products are exact, in fp32 and mostly in the result's type."""
    return rng.integers(-limit, limit + 1, shape).astype(dtype)


def product(a, b):
    """The product in float32; exact for small integers."""
    return a.astype(np.float32) @ b.astype(np.float32)
