"""Attention, forward and backward."""

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel

SCALE = 0.125


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32).astype(np.float16)


def softmax(scores):
    """The softmax of rows, and the logarithms of the sums."""
    most = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - most)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total, (most + np.log(total))[..., 0]


@kernel("attention_forward.cu", twins=[Twin("VALUES_TOO_EARLY", "read-before-wait")])
def attention_forward(rng):
    heads, length = 2, 100
    q, k, v = (normal(rng, heads, length, 64) for _ in "qkv")
    exact_q, exact_k, exact_v = (array.astype(np.float64) for array in (q, k, v))
    scores = np.where(np.tri(length, dtype=bool), exact_q @ exact_k.swapaxes(1, 2) * SCALE, -np.inf)
    weights, logarithms = softmax(scores)
    arguments = [np.empty_like(q), np.empty((heads, length), np.float32), q, k, v, length, SCALE]
    return Launch(arguments, {0: weights @ exact_v, 1: logarithms}, grid=(2, heads), block=128, tolerance=2e-3)


@kernel("attention_backward.cu", twins=[Twin("NO_BARRIER", "race")])
def attention_backward(rng):
    length = 112
    q, k, v, dout = (normal(rng, length, 64) for _ in range(4))
    exact_q, exact_k, exact_v, exact_dout = (array.astype(np.float64) for array in (q, k, v, dout))
    weights, logarithms = softmax(exact_q @ exact_k.T * SCALE)
    delta = (exact_dout * (weights @ exact_v)).sum(axis=1)
    ds = weights * (exact_dout @ exact_v.T - delta[:, None]) * SCALE
    outputs = [np.zeros((length, 64), np.float32), np.empty_like(k), np.empty_like(v)]
    statistics = [logarithms.astype(np.float32), delta.astype(np.float32)]
    expected = {0: ds @ exact_k, 1: ds.T @ exact_q, 2: weights.T @ exact_dout}
    arguments = [*outputs, q, k, v, dout, *statistics, length, SCALE]
    return Launch(arguments, expected, grid=2, block=128, tolerance=5e-3)
