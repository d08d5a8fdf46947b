"""Attention, forward and backward."""

import numpy as np

import tilewright as tw
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


@kernel("attention_decode.cu", twins=[Twin("COUNTED_BY_ANOTHER", "race")])
def attention_decode(rng):
    length = 75
    q, k, v = (rng.standard_normal(shape, np.float32) for shape in (64, (length, 64), (length, 64)))
    weights, _ = softmax((k.astype(np.float64) @ q * SCALE)[None])
    parts, finished = np.zeros((3, 66), np.float32), np.zeros(1, np.uint32)
    arguments = [np.empty(64, np.float32), parts, finished, q, k, v, length, SCALE]
    return Launch(arguments, {0: (weights @ v)[0]}, grid=3, block=128, tolerance=1e-5)


@kernel("attention_wgmma.cu", twins=[Twin("VALUES_TOO_EARLY", "read-before-wait")])
def attention_wgmma(rng):
    length = 3 * 64
    q, k, v = (normal(rng, length, 64) for _ in "qkv")
    weights, _ = softmax(q.astype(np.float64) @ k.T.astype(np.float64) * SCALE)
    maps = [tw.TensorMap(array, (64, 64), swizzle=128) for array in (q, k, v)]
    arguments = [np.empty((length, 64), np.float32), *maps, length, SCALE]
    return Launch(arguments, {0: weights @ v.astype(np.float64)}, 3, 160, shared_bytes=42 * 1024, tolerance=2e-3)
