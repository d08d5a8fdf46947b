"""Kernels that move, normalize and compute element by element."""

import math

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


@kernel("stream_hints.cu")
def stream_hints(rng):
    values, weights = rng.standard_normal((150, 4), np.float32), rng.standard_normal(8, np.float32)
    expected = values * weights[np.arange(150) % 8][:, None]
    expected[:, 2], expected[:, 3] = 0, values[:, 3]
    return Launch([np.empty_like(values), values, weights, 150], {0: expected}, grid=2, block=32)


@kernel("functions.cu")
def functions(rng):
    x = rng.uniform(-10, 10, 100)
    y = x.astype(np.float32).astype(np.float64)
    erf = np.vectorize(math.erf)
    doubles = [np.sin(x), np.exp(x / 8), np.log(np.abs(x) + 0.5), np.abs(x) ** 1.7]
    doubles += [erf(x / 4), np.tanh(x), np.arctan2(x, 2.0), np.fmod(x, 0.7)]
    arguments = (1000 * y).astype(np.float32).astype(np.float64)
    floats = [np.sin(arguments), np.exp(y / 4), np.log1p(np.abs(y)), np.abs(y) ** 0.3, erf(y / 4), np.cbrt(y)]
    floats += [1 - 0.5 * y + 0.25 * y**2 - 0.125 * y**3, 1 / np.hypot(y, 3)]
    expected = {0: np.stack(doubles, axis=1), 1: np.stack(floats, axis=1)}
    outputs = [np.empty((100, 8)), np.empty((100, 8), np.float32)]
    return Launch([*outputs, x, 100], expected, grid=2, block=64, tolerance=3e-7)


@kernel("assertions.cu", twins=[Twin("OFF_BY_ONE", "KernelTrap")])
def assertions(rng):
    indices, values = rng.integers(0, 40, 64).astype(np.int32), rng.integers(0, 99, 40).astype(np.int32)
    indices[5] = 39
    return Launch([np.empty(64, np.int32), indices, values, 40], {0: values[indices]}, grid=1, block=64)
