"""Reductions, scans, sorts and histograms."""

import ml_dtypes
import numpy as np

from emulate.others.corpus import Launch, Twin, kernel


def integers(rng, *shape, dtype=np.int32):
    return rng.integers(-1000, 1000, shape).astype(dtype)


@kernel("reduce_block.cu", twins=[Twin("NO_BARRIER", "race"), Twin("TOO_MANY", "uninitialized-register")])
def reduce_block(rng):
    values = integers(rng, 3, 700)
    expected = np.stack([values.sum(axis=1), values.max(axis=1)], axis=1).astype(np.int32)
    return Launch([np.empty((3, 2), np.int32), values, 700], {0: expected}, grid=3, block=256)


@kernel("reduce_grid.cu", twins=[Twin("NO_FENCE", "race")])
def reduce_grid(rng):
    values = integers(rng, 5000)
    expected = values.sum(keepdims=True, dtype=np.int32)
    return Launch([np.empty(1, np.int32), np.empty(6, np.int32), values, 5000], {0: expected}, grid=6, block=256)


@kernel("reduce_cluster.cu", twins=[Twin("NO_SYNC", "race"), Twin("EXITS", "cluster-exit")])
def reduce_cluster(rng):
    values = integers(rng, 3, 1500)
    expected = values.sum(axis=1, dtype=np.int32)
    return Launch([np.empty(3, np.int32), values, 1500], {0: expected}, grid=12, block=128, cluster=4)


@kernel("scan_lookback.cu", twins=[Twin("NO_FENCE", "race"), Twin("PUBLISHED_TOO_EARLY", "race")])
def scan_lookback(rng):
    values = integers(rng, 3333)
    published, next_tile = np.zeros((3, 16), np.int32), np.zeros(1, np.int32)
    arguments = [np.empty_like(values), values, 3333, published, next_tile]
    return Launch(arguments, {0: np.cumsum(values, dtype=np.int32)}, grid=7, block=128)


@kernel("sort_bitonic.cu", twins=[Twin("NO_BARRIER", "race"), Twin("NO_SYNCWARP", "race")])
def sort_bitonic(rng):
    keys = np.stack([rng.permutation(5000)[:512] for _ in range(2)]).astype(np.uint32)
    values = rng.integers(0, 1 << 30, (2, 512)).astype(np.uint32)
    order = np.argsort(keys, axis=1)
    expected = {0: np.take_along_axis(keys, order, 1), 1: np.take_along_axis(values, order, 1)}
    return Launch([keys, values], expected, grid=2, block=256)


@kernel("sort_radix.cu", twins=[Twin("NO_SYNCWARP", "race")])
def sort_radix(rng):
    keys = rng.integers(0, 1 << 16, (2, 512)).astype(np.uint16)
    return Launch([keys], {0: np.sort(keys, axis=1)}, grid=2, block=128)


@kernel("histogram.cu", twins=[Twin("NOT_CLEARED", "uninitialized-shared")])
def histogram(rng):
    values = rng.integers(0, 256, 4000).astype(np.uint8)
    expected = np.bincount(values, minlength=256).astype(np.uint32)
    return Launch([np.zeros(256, np.uint32), values, 1000], {0: expected}, grid=2, block=256)


@kernel("hash_table.cu", twins=[Twin("NO_FENCE", "race")])
def hash_table(rng):
    keys = rng.permutation(1000)[:150].astype(np.uint32)
    queries = rng.integers(0, 1000, 150).astype(np.uint32)
    places = {int(key): place for place, key in enumerate(keys)}
    expected = np.array([places.get(int(query), -1) for query in queries], np.int32)
    table = np.full(256, 2**64 - 1, np.uint64)
    arguments = [np.empty(150, np.int32), table, keys, queries, np.zeros(1, np.uint32), 256, 150]
    return Launch(arguments, {0: expected}, grid=3, block=64)


@kernel("smith_waterman.cu", twins=[Twin("NO_SYNCWARP", "race")])
def smith_waterman(rng):
    rows, columns, pairs = 23, 45, 4
    first, second = (rng.integers(1, 5, (pairs, size)).astype(np.int8) for size in (rows, columns))
    scores = np.zeros((pairs, rows + 1, columns + 1), np.int32)
    for i in range(rows):
        for j in range(columns):
            match = scores[:, i, j] + np.where(first[:, i] == second[:, j], 3, -2)
            gap = np.maximum(scores[:, i, j + 1], scores[:, i + 1, j]) - 1
            scores[:, i + 1, j + 1] = np.maximum(0, np.maximum(match, gap))
    arguments = [np.empty(pairs, np.int32), first, second, rows, columns]
    return Launch(arguments, {0: scores.max(axis=(1, 2))}, grid=2, block=64, shared_bytes=2 * 2 * (rows + 1))


@kernel("fft.cu", twins=[Twin("NO_BARRIER", "race")])
def fft(rng):
    values = rng.standard_normal((2, 256, 2), np.float32)
    expected = np.fft.fft(values.astype(np.float64).view(np.complex128)[..., 0])[..., None].view(np.float64)
    return Launch([np.empty_like(values), values], {0: expected}, grid=2, block=128, tolerance=1e-6)


@kernel("vector_atomics.cu", twins=[Twin("NO_BARRIER", "race")])
def vector_atomics(rng):
    values, bins = rng.integers(0, 1 << 20, 256).astype(np.int32), 5
    bin_of, small = (values & 255) % bins, (values % 8).astype(np.float64)
    sums = np.stack([np.bincount(bin_of, weight, bins) for weight in (small, np.ones(256))], axis=1)
    vectors = np.stack([sums[:, 0], 2 * sums[:, 0], 3 * sums[:, 0], sums[:, 1]], axis=1)
    expected = {
        0: sums.astype(np.float16),
        1: (sums * [-1, 1]).astype(ml_dtypes.bfloat16),
        2: vectors.astype(np.float32),
        3: 0.125 * sums[:, 0],
        4: np.arange(1, bins + 1, dtype=np.uint16),
        5: np.array([values.max()], np.uint32),
    }
    arguments = [np.zeros_like(array) for array in expected.values()]
    return Launch([*arguments, values, bins], expected, grid=2, block=128)
