"""Matrix products."""

import ml_dtypes
import numpy as np

from emulate.others.corpus import Launch, Twin, kernel

RING_BYTES = 3 * 2 * 64 * 64 * 2


def small(rng, *shape, dtype=np.float16):
    """Integers whose products and sums are exact."""
    return rng.integers(-3, 4, shape).astype(dtype)


def exact(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def halves(rng, m, n, k):
    """A (m, k), B (n, k), and what the kernels of tile_gemm.cuh take for them."""
    a, b = small(rng, m, k), small(rng, n, k)
    return a, b, exact(a, b.T)


@kernel("gemm_simt.cu", twins=[Twin("ONE_BUFFER", "race")])
def gemm_simt(rng):
    m, n, k = 70, 90, 43
    a, b = small(rng, m, k, dtype=np.float32), small(rng, k, n, dtype=np.float32)
    return Launch([np.empty((m, n), np.float32), a, b, m, n, k], {0: a @ b}, grid=(2, 2), block=256)


@kernel("gemm_mma.cu", twins=[Twin("WAITS_FOR_ONE_LESS", "read-before-wait")])
def gemm_mma(rng):
    m, n, k = 100, 72, 5 * 64 - 8
    a, b, expected = halves(rng, m, n, k)
    arguments = [np.empty((m, n), np.float32), a, b, m, n, k]
    return Launch(arguments, {0: expected}, grid=(2, 2), block=128, shared_bytes=RING_BYTES)


@kernel("gemm_split_k.cu", twins=[Twin("NO_RELEASE", "race"), Twin("NO_BARRIER", "race")])
def gemm_split_k(rng):
    m, n, k = 64, 72, 5 * 64
    a, b, expected = halves(rng, m, n, k)
    arguments = [np.empty((m, n), np.float32), np.zeros(2, np.int32), a, b, m, n, k]
    return Launch(arguments, {0: expected}, grid=(2, 1, 3), block=128, shared_bytes=RING_BYTES)


@kernel("gemm_stream_k.cu", twins=[Twin("NO_FENCE", "race")])
def gemm_stream_k(rng):
    m, n, k = 80, 64, 5 * 64
    a, b, expected = halves(rng, m, n, k)
    workspace, ready = np.empty((3, 64, 64), np.float32), np.zeros(3, np.int32)
    arguments = [np.empty((m, n), np.float32), workspace, ready, a, b, m, n, k]
    return Launch(arguments, {0: expected}, grid=3, block=128, shared_bytes=RING_BYTES)


@kernel("gemm_wmma.cu")
def gemm_wmma(rng):
    a, b = small(rng, 64, 96, dtype=ml_dtypes.bfloat16), small(rng, 96, 128, dtype=ml_dtypes.bfloat16)
    arguments = [np.empty((64, 128), np.float32), a, b, 128, 96]
    return Launch(arguments, {0: exact(a, b)}, grid=(2, 1), block=128)


def scaled(rng, dtype):
    m, n, k = 90, 64, 256 + 32
    a, b = small(rng, m, k, dtype=dtype), small(rng, n, k, dtype=dtype)
    a_scale, b_scale = (2.0 ** rng.integers(-3, 4, size).astype(np.float32) for size in (m, n))
    expected = exact(a, b.T) * a_scale[:, None] * b_scale
    arguments = [np.empty((m, n), np.float32), a, b, a_scale, b_scale, m, n, k]
    return Launch(arguments, {0: expected}, grid=(1, 2), block=128)


@kernel("gemm_int8.cu")
def gemm_int8(rng):
    return scaled(rng, np.int8)


@kernel("gemm_fp8.cu")
def gemm_fp8(rng):
    return scaled(rng, ml_dtypes.float8_e4m3fn)


@kernel("gemm_w4a16.cu", twins=[Twin("NO_BARRIER", "race")])
def gemm_w4a16(rng):
    m, n, k = 50, 64, 4 * 64
    a, codes = small(rng, m, k), rng.integers(0, 16, (n, k), dtype=np.uint32)
    words = (codes.reshape(n, k // 8, 8) << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    scale, zero = 2.0 ** rng.integers(-3, 0, (k // 64, n)), rng.integers(6, 10, (k // 64, n))
    weight = (codes - np.repeat(zero, 64, axis=0).T.astype(np.float64)) * np.repeat(scale, 64, axis=0).T
    arguments = [np.empty((m, n), np.float16), a, words, scale.astype(np.float16), zero.astype(np.float16), m, n, k]
    expected = (a.astype(np.float64) @ weight.T).astype(np.float16)
    return Launch(arguments, {0: expected}, grid=(1, 1), block=128)


@kernel("gemm_double.cu", twins=[Twin("UNALIGNED", "Misaligned")])
def gemm_double(rng):
    a, b = rng.integers(-1000, 1000, (16, 20)).astype(np.float64), rng.integers(-1000, 1000, (8, 20)).astype(np.float64)
    return Launch([np.empty((16, 8)), a, b, 8, 20], {0: a @ b.T}, grid=(1, 2), block=32)


@kernel("gemm_tf32.cu")
def gemm_tf32(rng):
    a, b = rng.standard_normal((32, 40), np.float32), rng.standard_normal((40, 32), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    arguments = [np.empty((32, 32), np.float32), a, b, 32, 40]
    return Launch(arguments, {0: expected}, grid=(1, 2), block=128, tolerance=1e-6)
