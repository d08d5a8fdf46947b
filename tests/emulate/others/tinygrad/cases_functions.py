"""Kernels by tinygrad, of its CUDA and of its own PTX."""

import ml_dtypes
import numpy as np

from emulate.others.corpus import Launch, kernel
from emulate.others.values import product, small_integers

CUDA, PTX = 'RENDERER="cuda"', 'RENDERER="ptx"'


def launch(expected, *inputs, grid, block, tolerance=0.0):
    return Launch([np.empty_like(expected), *inputs], {0: expected}, grid, block, tolerance=tolerance)


@kernel("functions.py", CUDA)
def half_matmul(rng):
    a, b = small_integers(rng, (96, 64)), small_integers(rng, (64, 80))
    return launch(product(a, b).astype(np.float16), a, b, grid=(2, 1, 1), block=(32, 2, 1))


@kernel("functions.py", CUDA)
def batched_matmul(rng):
    a, b = (small_integers(rng, shape, ml_dtypes.bfloat16) for shape in ((3, 128, 64), (3, 64, 128)))
    return launch(product(a, b), a, b, grid=(2, 3, 1), block=(32, 4, 1))


@kernel("functions.py", PTX)
def linear_layer(rng):
    x, weight, bias = (small_integers(rng, shape) for shape in ((64, 96), (128, 96), (128,)))
    expected = np.maximum(product(x, weight.T) + bias, 0).astype(np.float16)
    return launch(expected, x, weight, bias, grid=(1, 1, 1), block=(32, 4, 1))


@kernel("functions.py", PTX)
def float_matmul(rng):
    a, b = (small_integers(rng, shape, np.float32) for shape in ((128, 64), (64, 128)))
    return launch(product(a, b), a, b, grid=(2, 4, 1), block=(8, 16, 1))


@kernel("functions.py", CUDA)
def log_sum_exp(rng):
    x = rng.standard_normal((64, 4096), np.float32)
    return launch(np.log(np.exp(x).sum(1)), x, grid=(64, 1, 1), block=(16, 1, 1), tolerance=1e-6)


@kernel("functions.py", PTX)
def softmax_weights(rng):
    x = rng.standard_normal((64, 300), np.float32)
    highest = x.max(1, keepdims=True)
    total = np.exp(x - highest).sum(1, keepdims=True)
    expected = np.exp(x - highest) / total
    return launch(expected, x, highest, total, grid=(25, 2, 1), block=(32, 4, 1), tolerance=1e-6)


@kernel("functions.py", CUDA)
def convolution(rng):
    x, weight = (small_integers(rng, shape, np.float32) for shape in ((2, 16, 13, 11), (24, 16, 3, 3)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    expected = np.einsum("bchwij,fcij->bfhw", windows, weight)
    return launch(expected, x, weight, grid=(42, 24, 2), block=(16, 1, 1))


@kernel("functions.py", PTX)
def running_sums(rng):
    x = small_integers(rng, (20, 300), np.float32)
    return launch(x.cumsum(1), x, grid=(75, 5, 1), block=(4, 4, 1))


@kernel("functions.py", PTX)
def largest_of_windows(rng):
    x = rng.standard_normal((2, 16, 12, 12), np.float32)
    expected = x.reshape(2, 16, 6, 2, 6, 2).max((3, 5))
    return launch(expected, x, grid=(2, 6, 1), block=(32, 3, 1))


@kernel("functions.py", CUDA)
def chosen_rows(rng):
    table, rows = rng.standard_normal((100, 32), np.float32), rng.integers(0, 100, 40).astype(np.int32)
    return launch(table[rows], rows, table, grid=(5, 1, 1), block=(8, 8, 1))
