"""Kernels that move memory."""

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel


@kernel("transpose.cu", twins=[Twin("NO_BARRIER", "race"), Twin("NO_EDGE", "OutOfBounds")])
def transpose(rng):
    values = rng.standard_normal((70, 45), np.float32)
    return Launch([np.empty((45, 70), np.float32), values, 70, 45], {0: values.T}, grid=(2, 3), block=(32, 8))
