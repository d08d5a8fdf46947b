"""Kernels that move and normalize."""

import ml_dtypes
import numpy as np

from emulate.others.corpus import Launch, Twin, kernel


@kernel("transpose.cu", twins=[Twin("NO_BARRIER", "race"), Twin("NO_EDGE", "OutOfBounds")])
def transpose(rng):
    values = rng.standard_normal((70, 45), np.float32)
    return Launch([np.empty((45, 70), np.float32), values, 70, 45], {0: values.T}, grid=(2, 3), block=(32, 8))


@kernel("copy_vectors.cu", twins=[Twin("MISALIGNED", "Misaligned")])
def copy_vectors(rng):
    x, y = (rng.integers(-8, 8, 1027).astype(np.float32) for _ in "xy")
    return Launch([y, x, 2.0, 1027], {0: 2 * x + y}, grid=2, block=128)


@kernel("softmax.cu")
def softmax(rng):
    values = rng.standard_normal((13, 328), np.float32).astype(np.float16)
    powers = np.exp(values.astype(np.float64))
    expected = powers / powers.sum(axis=1, keepdims=True)
    return Launch([np.empty_like(values), values, 13, 328], {0: expected}, grid=4, block=(32, 4), tolerance=1e-3)


@kernel("layernorm.cu")
def layernorm(rng):
    values = (3 + rng.standard_normal((37, 83), np.float32)).astype(ml_dtypes.bfloat16)
    scale, shift = rng.standard_normal((2, 83), np.float32)
    exact = values.astype(np.float64)
    centered = exact - exact.mean(axis=1, keepdims=True)
    expected = centered / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5) * scale + shift
    arguments = [np.empty_like(values), values, scale, shift, 37, 83]
    return Launch(arguments, {0: expected}, grid=3, block=128, tolerance=2**-8)
