"""Reductions, scans, sorts and histograms."""

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
