"""Matrix products by Triton, and by its dialect Gluon."""

import ml_dtypes
import numpy as np

import tilewright as tw
from emulate.others.corpus import Launch, Twin, kernel
from emulate.others.values import product, small_integers

THREADS = 128
SCRATCH = (None, None)
"""Two pointers to scratch memory, which most kernels do not need."""


def maps(count, programs):
    """Scratch memory for the tensor maps that programs make."""
    return np.zeros(128 * count * programs, np.uint8), None


def descriptor(array, *box):
    """A tensor descriptor as the PTX takes it, swizzled by 128 bytes."""
    strides = (np.int64(stride // array.itemsize) for stride in array.strides)
    return tw.TensorMap(array, box, 128), *map(np.int32, array.shape), *strides


@kernel(
    "matmul.py",
    "TILE_M=64",
    "TILE_N=64",
    "TILE_K=32",
    "GROUP=2",
    "num_stages=3",
    twins=[Twin("NO_EDGE", "OutOfBounds")],
)
def matmul(rng):
    m, n, k, stride = 208, 144, 208, 224
    a, b = small_integers(rng, (m, stride)), small_integers(rng, (k, n))
    c = np.empty((m, n), np.float16)
    return Launch([a, b, c, m, n, k, stride, *SCRATCH], {2: product(a[:, :k], b)}, 12, THREADS)


@kernel("matmul.py", "TILE_M=32", "TILE_N=64", "TILE_K=16", "GROUP=3", "num_warps=2")
def matmul_of_odd_shape(rng):
    m, n, k, stride = 101, 67, 77, 79
    a, b = small_integers(rng, (m, stride)), small_integers(rng, (k, n))
    c = np.empty((m, n), np.float16)
    return Launch([a, b, c, m, n, k, stride, *SCRATCH], {2: product(a[:, :k], b)}, 8, 64)


@kernel("persistent_matmul.py", "PROGRAMS=3", "num_stages=3")
def persistent_matmul(rng):
    m, n, k = 200, 136, 200
    a, b, c = small_integers(rng, (m, k)), small_integers(rng, (n, k)), np.empty((m, n), np.float16)
    tiles = *descriptor(a, 128, 64), *descriptor(b, 64, 64), *descriptor(c, 128, 64)
    return Launch([*tiles, m, n, k, *SCRATCH], {10: product(a, b.T)}, 3, THREADS)


# Triton lets its workers give up registers twice in a row. PTX ISA, "setmaxnreg": all warps of the warpgroup must
# synchronize explicitly before a subsequent one.
TWICE = ("setmaxnreg",)


@kernel("specialized_matmul.py", "PROGRAMS=3", "TILE_M=128", "TILE_N=64", "TILE_K=64", "num_stages=3", known=TWICE)
def specialized_matmul(rng):
    m, n, k = 200, 136, 200
    a, b, c = small_integers(rng, (m, k)), small_integers(rng, (n, k)), np.empty((m, n), np.float16)
    return Launch([a, b, c, m, n, k, *maps(4, 3)], {2: product(a, b.T)}, 3, 3 * THREADS)


@kernel("device_descriptors.py", "TILE_M=64", "TILE_N=64", "TILE_K=32", entry="batched_matmul")
def batched_matmul(rng):
    m, n, k = 100, 96, 208
    a, b = (small_integers(rng, shape, ml_dtypes.bfloat16) for shape in ((2, m, k), (2, k, n)))
    expected = product(a, b).astype(ml_dtypes.bfloat16)
    c = np.empty_like(expected)
    return Launch([a, b, c, m, n, k, k, n, n, *maps(3, 8)], {2: expected}, (4, 2), THREADS)


@kernel("block_scaled_fp8.py", "TILE_M=64", "TILE_N=64", "BLOCK=128", entry="block_scaled_matmul")
def block_scaled_matmul(rng):
    m, n, k = 100, 144, 320
    a, b = (small_integers(rng, shape, ml_dtypes.float8_e4m3fn, 8) for shape in ((m, k), (n, k)))
    scale_a, scale_b = rng.random((m, 3), np.float32), rng.random((2, 3), np.float32)
    left = a.astype(np.float32) * scale_a.repeat(128, 1)[:, :k]
    right = b.astype(np.float32) * scale_b.repeat(128, 0).repeat(128, 1)[:n, :k]
    c = np.empty((m, n), ml_dtypes.bfloat16)
    arguments = [a, b, scale_a, scale_b, c, m, n, k, *SCRATCH]
    return Launch(arguments, {4: left @ right.T}, (2, 3), THREADS, tolerance=2**-8)


@kernel("int8_matmul.py", "TILE_M=64", "TILE_N=64", "TILE_K=64")
def int8_matmul(rng):
    m, n, k = 100, 80, 384
    a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (n, k), np.int8)
    scale_a, scale_b = rng.random(m, np.float32), rng.random(n, np.float32)
    sums = (a.astype(np.int32) @ b.astype(np.int32).T).astype(np.float32)
    arguments = [a, b, scale_a, scale_b, np.empty((m, n), np.float32), m, n, k, *SCRATCH]
    return Launch(arguments, {4: sums * scale_a[:, None] * scale_b}, (2, 2), THREADS)


@kernel("w4a16.py", "TILE_M=16", "TILE_N=64", "GROUP=64", entry="w4a16_matmul")
def w4a16_matmul(rng):
    m, n, k = 24, 128, 384
    x, codes = small_integers(rng, (m, k)), rng.integers(0, 16, (k, n))
    scales, zeros = rng.random((6, n)).astype(np.float16), rng.integers(0, 16, (6, n)).astype(np.float16)
    weight = (codes.astype(np.float16) - zeros.repeat(64, 0)) * scales.repeat(64, 0)
    words = (codes.reshape(k // 8, 8, n) << 4 * np.arange(8)[:, None]).sum(1).astype(np.uint32).view(np.int32)
    arguments = [x, words, scales, zeros, np.empty((m, n), np.float16), m, n, k, *SCRATCH]
    return Launch(arguments, {4: product(x, weight)}, (2, 2), THREADS, tolerance=2**-11)


@kernel(
    "split_k.py", "PARTS=3", "TILE_M=64", "TILE_N=64", "TILE_K=32", entry="split_k_matmul",
    twins=[Twin("NO_ATOMIC", "race")],
)  # fmt: skip
def split_k_matmul(rng):
    m, n, k = 128, 128, 640
    a, b = (small_integers(rng, shape, np.float32) for shape in ((m, k), (k, n)))
    return Launch([a, b, np.zeros((m, n), np.float32), n, k, *SCRATCH], {2: product(a, b)}, (2, 2, 3), THREADS)


@kernel(
    "grouped_matmul.py", "PROGRAMS=3", "TILE_M=64", "TILE_N=64", "TILE_K=32",
    twins=[Twin("NO_END", "race")],
)  # fmt: skip
def grouped_matmul(rng):
    ends, n, k = np.array([70, 70, 165, 200], np.int32), 80, 192
    a, b = (small_integers(rng, shape, ml_dtypes.bfloat16) for shape in ((200, k), (4, k, n)))
    parts = [product(part, b[group]) for group, part in enumerate(np.split(a, ends)[:4])]
    expected = np.concatenate(parts).astype(ml_dtypes.bfloat16)
    return Launch([a, b, np.empty_like(expected), ends, 4, n, k, *SCRATCH], {2: expected}, 3, THREADS)


@kernel("convolution.py", "STRIDE=2", "SIZE=3", "CHANNELS=32", "TILE_M=64", "TILE_N=64")
def convolution(rng):
    x, weight = small_integers(rng, (2, 13, 11, 32)), small_integers(rng, (3, 3, 32, 48))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), (3, 3), (1, 2))[:, ::2, ::2]
    expected = np.einsum("bhwcij,ijcf->bhwf", windows, weight.astype(np.float32)).astype(np.float16)
    return Launch([x, weight, np.empty_like(expected), 13, 11, 48, *SCRATCH], {2: expected}, (1, 1, 2), THREADS)


@kernel(
    "gluon_ring.py", "TILE_M=64", "TILE_N=64", "TILE_K=64", "SLOTS=3", entry="ring_matmul",
    twins=[Twin("LATE_WAIT", "overwrite-before-wait"), Twin("WRONG_PHASE", "read-before-wait")],
)  # fmt: skip
def ring_matmul(rng):
    m, n, k = 128, 128, 320
    a, b = small_integers(rng, (m, k), limit=2), small_integers(rng, (k, n), limit=2)
    return Launch([a, b, np.empty((m, n), np.float16), m, n, k, *maps(3, 4)], {2: product(a, b)}, (2, 2), THREADS)


@kernel(
    "gluon_specialized.py", "TILE_M=64", "TILE_N=64", "TILE_K=64", "SLOTS=3", entry="specialized_matmul", known=TWICE,
    twins=[Twin("EARLY_RELEASE", "overwrite-before-wait"), Twin("NO_STORE_WAIT", "overwrite-before-wait")],
)  # fmt: skip
def producer_and_consumer(rng):
    m, n, k = 192, 128, 320
    a, b = small_integers(rng, (m, k), limit=2), small_integers(rng, (k, n), limit=2)
    return Launch([a, b, np.empty((m, n), np.float16), m, n, k, *maps(3, 3)], {2: product(a, b)}, 3, 2 * THREADS)
