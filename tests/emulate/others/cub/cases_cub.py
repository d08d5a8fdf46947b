"""Block, warp and device algorithms of CUB."""

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel


def integers(rng, *shape):
    return rng.integers(-1000, 1000, shape).astype(np.int32)


@kernel("block_reduce.cu", twins=[Twin("NO_SYNC", "race")])
def block_reduce(rng):
    values = integers(rng, 2, 128)
    expected = np.stack([values.sum(axis=1), values.max(axis=1), values[:, :77].sum(axis=1)], axis=1).astype(np.int32)
    return Launch([np.empty((2, 3), np.int32), values], {0: expected}, grid=2, block=128)


@kernel("block_scan.cu", twins=[Twin("NO_SYNC", "race")])
def block_scan(rng):
    values = integers(rng, 500)
    tiles = np.pad(values, (0, 140)).reshape(2, 320)
    sums = np.cumsum(tiles, axis=1, dtype=np.int32)
    expected = {0: (sums - tiles).reshape(-1)[:500], 1: sums[:, -1]}
    return Launch([np.empty_like(values), np.empty(2, np.int32), values, 500], expected, grid=2, block=64)


@kernel("block_radix_sort.cu")
def block_radix_sort(rng):
    values = rng.permutation(2 * 200).reshape(2, 200).astype(np.float32) - 150
    places = np.argsort(-values, axis=1)[:, :20].astype(np.int32)
    expected = {0: np.take_along_axis(values, places, 1), 1: places}
    arguments = [np.empty((2, 20), np.float32), np.empty((2, 20), np.int32), values, 200, 20]
    return Launch(arguments, expected, grid=2, block=64)


@kernel("block_histogram.cu", twins=[Twin("NOT_CLEARED", "uninitialized-shared")])
def block_histogram(rng):
    values = rng.integers(0, 32, (2, 256)).astype(np.uint8)
    counts = np.stack([np.bincount(row, minlength=32) for row in values]).astype(np.uint32)
    expected = np.stack([counts, counts], axis=1)
    return Launch([np.empty((2, 2, 32), np.uint32), values], {0: expected}, grid=2, block=64)


@kernel("warp_collectives.cu")
def warp_collectives(rng):
    values, heads = integers(rng, 64), (rng.random(64) < 0.2).astype(np.int32)
    heads[::32] = 1
    starts = np.flatnonzero(heads)
    segments = np.zeros(64, np.int32)
    segments[starts] = np.add.reduceat(values, starts)
    scans = np.maximum.accumulate(values.reshape(4, 16), axis=1).reshape(64)
    ordered = np.sort(np.stack([values, -values], axis=1).reshape(2, 64), axis=1).reshape(128)
    arguments = [np.zeros(64, np.int32), np.empty(64, np.int32), np.empty(128, np.int32), values, heads]
    return Launch(arguments, {0: segments, 1: scans, 2: ordered}, grid=1, block=64)


@kernel("run_lengths.cu")
def run_lengths(rng):
    values = np.repeat(rng.integers(0, 100, 2 * 64), 4).astype(np.int32).reshape(2, 256)
    starts, counts = np.zeros((2, 256), np.int32), np.zeros(2, np.int32)
    for row, (tile, start) in enumerate(zip(values, starts, strict=True)):
        places = np.flatnonzero(np.r_[True, tile[1:] != tile[:-1]])
        start[: len(places)], counts[row] = places, len(places)
    arguments = [np.zeros_like(starts), np.empty_like(counts), np.empty_like(values), values]
    return Launch(arguments, {0: starts, 1: counts, 2: values[:, ::-1]}, grid=2, block=64)


@kernel("grid_scan.cu")
def grid_scan(rng):
    values = integers(rng, 5 * 256)
    arguments = [np.empty_like(values), values, np.zeros(64, np.uint64), 5, np.zeros(1, np.int32)]
    return Launch(arguments, {0: np.cumsum(values, dtype=np.int32)}, grid=6, block=64)


NOTHING = bytes(1)
"""An operator without state, passed by value."""


# Entries by parts of their mangled names: pointers to constants tell the first pass over the input from the second.


@kernel("device_reduce.cu", entry="determinism_tE1EEEPKiPijS9_iiNS7_8identityEEEvT0_T1_T2_T3_T4_T6_")
def device_reduce_of_a_tile(rng):
    values = integers(rng, 1000)
    arguments = [values, np.empty(1, np.int32), 1000, NOTHING, 7, NOTHING]
    return Launch(arguments, {1: np.array([values.sum() + 7], np.int32)}, grid=1, block=256)


@kernel("device_reduce.cu", entry="DeviceReduceKernel")
def device_reduce(rng):
    values, blocks = integers(rng, 10_000), 2
    share = np.zeros(10, np.int32)  # cub::GridEvenShare, whose blocks compute the rest
    share[5:7] = values.size, blocks
    tiles = np.pad(values, (0, 3 * 4096 - values.size)).reshape(3, 4096).sum(axis=1)
    expected = np.array([tiles[::blocks].sum(), tiles[1::blocks].sum()], np.int32)
    arguments = [values, np.empty(blocks, np.int32), values.size, share.tobytes(), NOTHING, 0, NOTHING]
    return Launch(arguments, {1: expected}, grid=blocks, block=256)


@kernel("device_sort.cu", entry="DeviceRadixSortSingleTileKernel")
def device_sort(rng):
    keys = rng.integers(0, 1 << 16, 700).astype(np.uint16)
    arguments = [keys, np.empty_like(keys), None, None, 700, 0, 16, NOTHING]
    return Launch(arguments, {1: np.sort(keys)}, grid=1, block=256)


@kernel("device_sort.cu", entry="DeviceRadixSortOnesweepKernel")
def device_sort_pass(rng):
    """The pass over the lower byte, in tiles that look back; bins are where the keys with each byte begin."""
    keys = rng.integers(0, 1 << 16, 12_000).astype(np.uint16)
    starts = np.cumsum(np.bincount(keys & 255, minlength=256)) - np.bincount(keys & 255, minlength=256)
    lookback, counter, bins = np.zeros(8 * 256, np.int32), np.zeros(1, np.int32), starts.astype(np.uint32)
    arguments = [lookback, counter, None, bins, np.empty_like(keys), keys, None, None, keys.size, 0, 8, NOTHING]
    return Launch(arguments, {4: keys[np.argsort(keys & 255, kind="stable")]}, grid=2, block=512)
