"""TMA and wgmma."""

import ml_dtypes
import numpy as np

import tilewright as tw
from emulate.others.corpus import Launch, Twin, kernel


def halves(rng, m, n, k):
    """A (m, k), B (n, k) and their product."""
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, a.astype(np.float32) @ b.T.astype(np.float32)


def tiles(array, rows=64):
    """The tensor map of rows of 128 bytes."""
    return tw.TensorMap(array, (rows, 64), swizzle=128)


@kernel(
    "gemm_wgmma.cu",
    twins=[
        Twin("ONE_CONSUMER", "BarrierProtocol"),
        Twin("WRONG_PHASE", "Deadlock"),
        Twin("NO_FULL_WAIT", "read-before-wait"),
        Twin("NO_WGMMA_WAIT", "accumulator-before-wait"),
        Twin("NO_WGMMA_FENCE", "wgmma-fence"),
        Twin("NO_PROXY_FENCE", "proxy-fence"),
        Twin("NO_STORE_WAIT", "exit-before-wait"),
    ],
)
def gemm_wgmma(rng):
    m, n, k = 256, 128, 4 * 64
    a, b, expected = halves(rng, m, n, k)
    c = np.empty((m, n), np.float16)
    arguments = [tiles(c), tiles(a, 128), tiles(b), m, n, k]
    return Launch(arguments, {0: expected.astype(np.float16)}, grid=2, block=288, shared_bytes=92 * 1024)


@kernel("gemm_multicast.cu", twins=[Twin("OWN_CONSUMER_ONLY", "overwrite-before-wait"), Twin("EXITS", "cluster-exit")])
def gemm_multicast(rng):
    m, n, k = 128, 128, 5 * 64
    a, b, expected = halves(rng, m, n, k)
    arguments = [np.empty((m, n), np.float32), tiles(a), tiles(b, 32), n, k]
    return Launch(arguments, {0: expected}, grid=(2, 2), block=256, cluster=2, shared_bytes=36 * 1024)


@kernel("gemm_grouped.cu", twins=[Twin("NO_ACQUIRE", "tensormap-fence")])
def gemm_grouped(rng):
    ends, k = np.array([20, 20, 90, 154], np.int32), 2 * 64
    a, b, _ = halves(rng, ends[-1], 4 * 64, k)
    c = np.empty((len(a), 64), np.float32)
    expected = np.empty_like(c)
    for group, (low, high) in enumerate(zip([0, *ends], ends, strict=False)):
        weight = b[64 * group : 64 * group + 64]
        expected[low:high] = a[low:high].astype(np.float32) @ weight.T.astype(np.float32)
    arguments = [c, a, ends, np.zeros((4, 128), np.uint8), tiles(a), tiles(b), k]
    return Launch(arguments, {0: expected}, grid=4, block=128, shared_bytes=34 * 1024)


@kernel(
    "bulk_copy_ring.cu", twins=[Twin("NO_PROXY_FENCE", "proxy-fence"), Twin("NO_READ_WAIT", "overwrite-before-wait")]
)
def bulk_copy_ring(rng):
    rows, weights = rng.standard_normal((11, 256), np.float32), rng.standard_normal(256, np.float32)
    return Launch([np.empty_like(rows), rows, weights, 11], {0: rows * weights}, grid=2, block=128)


@kernel("scatter_add.cu", twins=[Twin("NO_READ_WAIT", "overwrite-before-wait")])
def scatter_add(rng):
    rows, indices = rng.integers(-9, 9, (10, 64)).astype(np.int32), rng.integers(0, 4, 10).astype(np.int32)
    table = np.zeros((4, 64), np.int32)
    expected = table.copy()
    np.add.at(expected, indices, 3 * rows)
    return Launch([table, rows, indices, 10], {0: expected}, grid=3, block=64)


@kernel("tma_stencil.cu", twins=[Twin("NO_BARRIER", "mbarrier-init")])
def tma_stencil(rng):
    image, filter = rng.integers(-9, 9, (30, 36)).astype(np.int32), rng.integers(-2, 3, (3, 3)).astype(np.int32)
    padded = np.pad(image, 1)
    expected = sum(filter[y, x] * padded[y : y + 30, x : x + 36] for y in range(3) for x in range(3))
    arguments = [tw.TensorMap(np.empty_like(image), (16, 16)), tw.TensorMap(image, (18, 24)), filter]
    return Launch(arguments, {0: expected}, grid=(3, 2), block=256)


@kernel("gemm_fp8_blocks.cu", twins=[Twin("NO_WAIT", "accumulator-before-wait")])
def gemm_fp8_blocks(rng):
    m, n, k = 64, 128, 3 * 128
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, k), (n, k)))
    a_scale, b_scale = (2.0 ** rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, 3), (n // 64, 3)))
    left = a.astype(np.float32) * np.repeat(a_scale, 128, axis=1)
    right = b.astype(np.float32) * np.repeat(np.repeat(b_scale, 128, axis=1), 64, axis=0)
    maps = [tw.TensorMap(array, (64, 128), swizzle=128) for array in (a, b)]
    arguments = [np.empty((m, n), np.float32), *maps, a_scale, b_scale, n, k]
    return Launch(arguments, {0: left @ right.T}, grid=(2, 1), block=128, shared_bytes=34 * 1024)
