"""CuTe's layouts, copies and products, and CUTLASS's pipelines and kernels."""

import ml_dtypes
import numpy as np

import tilewright as tw
from emulate.others.corpus import Launch, Twin, kernel


def halves(rng, m, n, k):
    """A (m, k), B (n, k) and their product."""
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, a.astype(np.float32) @ b.T.astype(np.float32)


@kernel("cute_transpose.cu", twins=[Twin("NO_SYNC", "race")])
def cute_transpose(rng):
    values = rng.standard_normal((128, 64), np.float32)
    return Launch([np.empty((64, 128), np.float32), values, 128, 64], {0: values.T}, grid=(1, 2), block=256)


@kernel("cute_gemm_sm80.cu", "-arch=sm_80", twins=[Twin("ONE_LATE", "read-before-wait"), Twin("NO_SYNC", "race")])
def cute_gemm_sm80(rng):
    m, n, k = 128, 128, 5 * 32
    a, b, expected = halves(rng, m, n, k)
    arguments = [np.empty((m, n), np.float32), a, b, m, n, k]
    return Launch(arguments, {0: expected}, grid=(2, 1), block=128, shared_bytes=3 * 192 * 32 * 2)


@kernel(
    "cute_gemm_sm90.cu",
    twins=[
        Twin("NO_ARRIVE", "wgmma-fence"),
        Twin("NO_WAIT", "accumulator-before-wait"),
        Twin("NO_STORE_FENCE", "proxy-fence"),
    ],
)
def cute_gemm_sm90(rng):
    m, n, k = 128, 128, 4 * 64
    a, b, expected = halves(rng, m, n, k)
    c = np.empty((m, n), np.float16)
    maps = [tw.TensorMap(c, (64, 64)), *(tw.TensorMap(array, (64, 64), swizzle=128) for array in (a, b))]
    return Launch([*maps, k], {0: expected.astype(np.float16)}, grid=(2, 2), block=128, shared_bytes=42 * 1024)


def pipelined(rng, cluster):
    m, n, k = 128, 64, 5 * 64
    a, b, expected = halves(rng, m, n, k)
    maps = [tw.TensorMap(a, (64, 64), swizzle=128), tw.TensorMap(b, (64 // cluster, 64), swizzle=128)]
    arguments = [np.empty((m, n), np.float32), *maps, n, k]
    return Launch(arguments, {0: expected}, grid=(2, 1), block=256, cluster=cluster, shared_bytes=50 * 1024)


@kernel(
    "pipeline_tma.cu",
    twins=[Twin("NO_ACQUIRE", "overwrite-before-wait"), Twin("RELEASED_EARLY", "overwrite-before-wait")],
)
def pipeline_tma(rng):
    return pipelined(rng, 1)


@kernel("pipeline_tma.cu", "-DCLUSTER=2", twins=[Twin("NO_TAIL", "cluster-exit")])
def pipeline_tma_multicast(rng):
    return pipelined(rng, 2)


@kernel("quantize.cu", twins=[Twin("SYNC_OF_A_WARP", "race")])
def quantize(rng):
    values = (rng.standard_normal((3, 640), np.float32) * np.array([[0.01], [1], [300]])).astype(np.float32)
    scales = np.exp2(np.ceil(np.log2(np.abs(values).max(axis=1) / 448))).astype(np.float32)
    codes = (values / scales[:, None]).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    arguments = [np.empty_like(codes), np.empty_like(scales), values, 80]
    return Launch(arguments, {0: codes, 1: scales}, grid=3, block=128)


@kernel("ordered_sums.cu", twins=[Twin("NO_TURN", "race")])
def ordered_sums(rng):
    values = rng.integers(-1000, 1000, (6, 128)).astype(np.int32)
    return Launch([np.empty(6, np.int32), values, 3], {0: values.sum(axis=1, dtype=np.int32)}, grid=1, block=256)


@kernel("device_gemm.cu")
def device_gemm_split_k(rng):
    m, n, k, slices = 80, 64, 4 * 32, 2
    a, b, product = halves(rng, m, n, k)
    c = rng.integers(-9, 9, (m, n)).astype(np.float32)
    arguments = [np.empty_like(c), a, b, c, np.zeros(2, np.int32), m, n, k, slices, 2.0, -1.0]
    return Launch(arguments, {0: 2 * product - c}, grid=(2, 1, slices), block=128, shared_bytes=3 * 128 * 32 * 2)


@kernel("device_gemm.cu", "-DSIMT")
def device_gemm_simt(rng):
    m, n, k = 45, 50, 21
    a, b, product = (array.astype(np.float32) for array in halves(rng, m, n, k))
    c = rng.integers(-9, 9, (m, n)).astype(np.float32)
    arguments = [np.empty_like(c), a, b, c, None, m, n, k, 1, 1.0, 3.0]
    return Launch(arguments, {0: product + 3 * c}, grid=(2, 1), block=64, shared_bytes=16 * 1024)


@kernel("collective_sm90.cu", twins=[Twin("NO_ACQUIRE", "tensormap-fence")])
def collective_sm90(rng):
    m, n, k = 128, 64, 5 * 64
    a, b, expected = halves(rng, m, n, k)
    maps = [tw.TensorMap(array[None], (1, 64, 64), swizzle=128) for array in (a, b)]
    arguments = [np.empty((m, n), np.float32), np.zeros((2, 1024), np.uint8), *maps, m, n, k]
    return Launch(arguments, {0: expected}, grid=(1, 2), block=256, shared_bytes=50 * 1024)
