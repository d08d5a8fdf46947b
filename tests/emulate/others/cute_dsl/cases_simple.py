"""Elementwise kernels, transposes and reductions by CuTe DSL."""

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel
from emulate.others.values import small_integers


@kernel("scaled_sum.py", twins=[Twin("NO_PREDICATE", "OutOfBounds")])
def scaled_sum(rng):
    x, y = small_integers(rng, (2, 50, 200), np.float32)
    return Launch([x, y, np.empty_like(x), 2.0], {2: x + 2 * y}, 8, 128)


@kernel("transpose.py", twins=[Twin("NO_BARRIER", "race")])
def transpose(rng):
    x = rng.standard_normal((64, 96), np.float32)
    return Launch([x, np.empty((96, 64), np.float32)], {1: x.T}, (3, 2), (32, 8))


@kernel("softmax.py", twins=[Twin("NO_BARRIER", "race")])
def softmax(rng):
    x = rng.standard_normal((6, 300), np.float32)
    raised = np.exp(x - x.max(1, keepdims=True))
    return Launch([x, np.empty_like(x)], {1: raised / raised.sum(1, keepdims=True)}, 6, 128, tolerance=1e-6)


@kernel("cluster_sums.py", "CTAS=4", twins=[Twin("NO_BARRIER", "mbarrier-init"), Twin("CTA_SCOPE", "read-before-wait")])
def cluster_sums(rng):
    x = small_integers(rng, (50, 256), np.int32, 9)
    return Launch([x, np.empty(256, np.int32)], {1: x.sum(0, dtype=np.int32)}, (4, 2), 128, 4)
