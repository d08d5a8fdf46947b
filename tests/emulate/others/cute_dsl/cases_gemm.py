"""Matrix products and attention by CuTe DSL."""

import ml_dtypes
import numpy as np

import tilewright as tw
from emulate.others.corpus import Launch, Twin, kernel
from emulate.others.values import product, small_integers

TILED_MMA = np.uint8(0)
"""The tiled MMA as the kernel gets it: whether it accumulates."""


def of_tma(rng, cluster):
    m, n, k = 256, 128, 320
    a, b = small_integers(rng, (m, k), limit=2), small_integers(rng, (n, k), limit=2)
    c = np.empty((m, n), np.float16)
    boxes = (64 // cluster[1], 64), (64 // cluster[0], 64), (64, 64)
    tiles = [tw.TensorMap(array, box, 128) for array, box in zip((a, b, c), boxes, strict=True)]
    return Launch([*tiles, TILED_MMA], {2: product(a, b.T)}, (4, 2), 160, cluster)


@kernel(
    "tma_gemm.py", "STAGES=3", "CLUSTER=(1, 1)",
    twins=[
        Twin("EARLY_RELEASE", "overwrite-before-wait"), Twin("NO_FENCE", "proxy-fence"), Twin("NO_BARRIER", "race"),
    ],
)  # fmt: skip
def tma_gemm(rng):
    return of_tma(rng, (1, 1))


@kernel("tma_gemm.py", "STAGES=2", "CLUSTER=(2, 2)")
def multicast_gemm(rng):
    return of_tma(rng, (2, 2))


@kernel("tma_gemm.py", "STAGES=2", "CLUSTER=(4, 1)", twins=[Twin("EARLY_RELEASE", "overwrite-before-wait")])
def tall_cluster_gemm(rng):
    return of_tma(rng, (4, 1))


@kernel(
    "persistent_gemm.py", "CTAS=2",
    twins=[Twin("NO_STORE_WAIT", "overwrite-before-wait"), Twin("WRONG_PHASE", "read-before-wait")],
)  # fmt: skip
def persistent_gemm(rng):
    m, n, k = 256, 384, 192
    a, b = (small_integers(rng, shape, ml_dtypes.bfloat16, 2) for shape in ((m, k), (n, k)))
    expected = product(a, b.T).astype(ml_dtypes.bfloat16)
    tiles = tw.TensorMap(a, (128, 64), 128), tw.TensorMap(b, (128, 64), 128)
    stored = tw.TensorMap(np.empty_like(expected), (128, 32), 64)
    return Launch([*tiles, stored, TILED_MMA], {2: expected}, (1, 1, 2), 384)


@kernel("mma_gemm.py", twins=[Twin("WAIT_TOO_MANY", "read-before-wait"), Twin("NO_BARRIER", "race")])
def mma_gemm(rng):
    m, n, k = 128, 128, 160
    a, b = (small_integers(rng, shape, ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    return Launch([a, b, np.empty((m, n), np.float32)], {2: product(a, b.T)}, (2, 2), 128)


@kernel(
    "attention.py",
    twins=[
        Twin("NO_WAIT_FOR_QUERIES", "read-before-wait"), Twin("NO_WAIT_FOR_SCORES", "accumulator-before-wait"),
        Twin("EARLY_RELEASE", "overwrite-before-wait"),
    ],
)  # fmt: skip
def attention(rng):
    rows, keys, head = 128, 320, 64
    q = rng.standard_normal((rows, head)).astype(np.float16)
    k, v = rng.standard_normal((2, keys, head)).astype(np.float16)
    scores = product(q, k.T) / np.sqrt(head)
    raised = np.exp(scores - scores.max(1, keepdims=True))
    expected = product(raised / raised.sum(1, keepdims=True), v)
    loads = [tw.TensorMap(array, (64, 64), 128) for array in (q, k, v)]
    return Launch([*loads, np.empty_like(q), TILED_MMA, TILED_MMA], {3: expected}, 2, 160, tolerance=1e-3)
