"""Attention, normalization, scans and sorts by Triton."""

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel
from emulate.others.triton.cases_matmul import SCRATCH, THREADS, maps
from emulate.others.values import product, small_integers

LOG2_E = 1.4426950408889634


def softmax_of(scores):
    """The softmax along the last axis, and the logarithm of the sum in base 2."""
    highest = scores.max(-1, keepdims=True)
    raised = np.exp(scores - highest)
    total = raised.sum(-1, keepdims=True)
    return raised / total, ((highest + np.log(total)) * LOG2_E)[..., 0]


@kernel("attention.py", "HEAD=64", "TILE_Q=64", "TILE_K=64")
def attention(rng):
    rows, head = 150, 64
    q, k, v = (rng.standard_normal((2, rows, head)).astype(np.float16) for _ in range(3))
    scores = np.where(np.tri(rows, dtype=bool), product(q, k.swapaxes(1, 2)) / 8, -np.inf)
    weights, log_sums = softmax_of(scores)
    arguments = [q, k, v, np.empty_like(q), np.empty((2, rows), np.float32), rows, LOG2_E / 8, *SCRATCH]
    return Launch(arguments, {3: product(weights, v), 4: log_sums}, (3, 2), THREADS, tolerance=1e-3)


@kernel("attention_backward.py", "HEAD=64", "TILE_Q=64", "TILE_K=64", twins=[Twin("NO_ATOMIC", "race")])
def attention_backward(rng):
    rows, head = 128, 64
    q, k, v, d_out = (rng.standard_normal((rows, head)).astype(np.float16) for _ in range(4))
    weights, log_sums = softmax_of(product(q, k.T) / 8)
    deltas = (product(weights, v) * d_out).sum(1)
    of_scores = weights * (product(d_out, v.T) - deltas[:, None])
    expected = {6: product(of_scores, k), 7: product(of_scores.T, q), 8: product(weights.T, d_out)}
    d_q, d_k, d_v = (np.zeros((rows, head), np.float32) for _ in range(3))
    arguments = [q, k, v, d_out, log_sums, deltas, d_q, d_k, d_v, rows, LOG2_E / 8, *SCRATCH]
    return Launch(arguments, expected, 2, THREADS, tolerance=1e-3)


@kernel("softmax.py", "PROGRAMS=3", "WIDTH=256", twins=[Twin("NO_MASK", "OutOfBounds")])
def softmax(rng):
    x = rng.standard_normal((9, 200), np.float32)
    return Launch([np.empty_like(x), x, 9, 200, *SCRATCH], {0: softmax_of(x)[0]}, 3, THREADS, tolerance=1e-6)


def normalized(x):
    """The rows of x less their mean, the inverse of their deviation, and the product of both."""
    mean, inverse = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
    return mean, inverse, (x - mean[:, None]) * inverse[:, None]


@kernel("layer_norm.py", "WIDTH=256", entry="forward")
def layer_norm(rng):
    x, (weight, bias) = rng.standard_normal((12, 200), np.float32), rng.random((2, 200), np.float32)
    mean, inverse, scaled = normalized(x)
    means, inverses = np.empty((2, 12), np.float32)
    arguments = [x, weight, bias, np.empty_like(x), means, inverses, 200, 1e-5, *SCRATCH]
    return Launch(arguments, {3: scaled * weight + bias, 4: mean, 5: inverse}, 12, THREADS, tolerance=1e-6)


@kernel(
    "layer_norm.py", "LOCKS=1", "WIDTH=256", entry="backward",
    twins=[Twin("NO_LOCK", "race"), Twin("NO_RELEASE", "race"), Twin("NO_BARRIER", "race")],
)  # fmt: skip
def layer_norm_backward(rng):
    x, d_out = rng.standard_normal((2, 12, 200), np.float32)
    weight = rng.random(200, np.float32)
    mean, inverse, scaled = normalized(x)
    weighted = d_out * weight
    along = (scaled * weighted).mean(1, keepdims=True)
    d_x = (weighted - scaled * along - weighted.mean(1, keepdims=True)) * inverse[:, None]
    d_weight, d_bias = np.zeros((2, 200), np.float32)
    locks, filled = np.zeros((2, 1), np.int32)
    arguments = [d_out, x, weight, mean, inverse, np.empty_like(x), d_weight, d_bias, locks, filled, 200, *SCRATCH]
    expected = {5: d_x, 6: (d_out * scaled).sum(0), 7: d_out.sum(0)}
    return Launch(arguments, expected, 12, THREADS, tolerance=1e-5)


@kernel("recurrence.py", "CHANNELS=16", "CHUNK=32")
def recurrence(rng):
    gates, x = rng.random((70, 32), np.float32), rng.standard_normal((70, 32), np.float32)
    expected, carried = np.empty_like(x), np.zeros(32)
    for step in range(70):
        expected[step] = carried = gates[step] * carried + x[step]
    return Launch([gates, x, np.empty_like(x), 70, *SCRATCH], {2: expected}, 2, THREADS, tolerance=1e-6)


@kernel("look_back.py", "BLOCK=256", entry="prefix_sum", twins=[Twin("RELAXED", "race")])
def prefix_sum(rng):
    x = rng.integers(-100, 100, 1000).astype(np.int32)
    sums, flags = np.zeros((2, 4), np.int32)
    expected = x.cumsum(dtype=np.int32)
    return Launch([x, np.empty_like(x), sums, flags, 1000, *SCRATCH], {1: expected}, 4, THREADS)


@kernel("top_k.py", "WIDTH=128", "K=8")
def top_k(rng):
    x = rng.integers(-3000, 3000, (5, 100)).astype(np.int16)
    columns = np.argsort(-x.astype(np.int32), 1, kind="stable")[:, :8].astype(np.int32)
    values = np.take_along_axis(x, columns, 1)
    arguments = [x, np.empty_like(values), np.empty_like(columns), 100, *SCRATCH]
    return Launch(arguments, {1: values, 2: columns}, 5, THREADS)


@kernel("top_k.py", "WIDTH=128", entry="sort_rows")
def sort_rows(rng):
    x = rng.standard_normal((5, 100), np.float32)
    return Launch([x, np.empty_like(x), 100, *SCRATCH], {1: np.sort(x, 1)}, 5, THREADS)


@kernel("histogram.py", "BLOCK=256", "BINS=32", twins=[Twin("NO_ATOMIC", "race")])
def histogram(rng):
    x = small_integers(rng, 1000, np.int32, 15) + 15
    expected = np.bincount(x, minlength=32).astype(np.int32)
    return Launch([x.astype(np.int32), np.zeros(32, np.int32), 1000, *SCRATCH], {1: expected}, 4, THREADS)


@kernel("gluon_copies.py", "WIDTH=512", "SLOTS=3", entry="sum_rows", twins=[Twin("WAIT_TOO_MANY", "read-before-wait")])
def sum_rows(rng):
    x = small_integers(rng, (10, 1024), np.float32)
    return Launch([x, np.empty(1024, np.float32), 10, 1024, *SCRATCH], {1: x.sum(0)}, 2, THREADS)


@kernel(
    "gluon_multicast.py", "ROWS=64", "COLUMNS=64", "num_ctas=2", entry="double_tiles",
    twins=[Twin("EARLY_REFILL", "overwrite-before-wait")],
)  # fmt: skip
def double_tiles(rng):
    x = small_integers(rng, (3 * 64, 64))
    return Launch([x, np.empty_like(x), 3, *maps(1, 2)], {1: 2 * x}, 2, THREADS, cluster=2)


@kernel("float8_e4b15.py", "N=128")
def float8_e4b15(rng):
    codes = rng.choice(np.delete(np.arange(256, dtype=np.uint8), [0x7F, 0xFF]), 128)  # these two are clamped
    bits = codes.astype(np.uint16)
    halves = ((bits & 0x80) << 8 | (bits & 0x7F) << 7).view(np.float16)
    arguments = [codes, np.empty(128, np.float16), np.empty(128, np.uint8), *SCRATCH]
    return Launch(arguments, {1: halves, 2: codes}, 1, THREADS)
