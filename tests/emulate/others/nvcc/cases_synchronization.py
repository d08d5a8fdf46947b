"""Clusters, mbarriers, named barriers, pipelines, flags and locks."""

from itertools import pairwise

import numpy as np

from emulate.others.corpus import Launch, Twin, kernel


def integers(rng, *shape):
    return rng.integers(-1000, 1000, shape).astype(np.int32)


def weighted(tiles):
    """The sum of tiles, each times its number from 1 on, with columns in reverse."""
    return (tiles[:, ::-1] * np.arange(1, len(tiles) + 1)[:, None]).sum(axis=0).astype(np.int32)


@kernel("st_async_ring.cu", twins=[Twin("NO_WAIT", "read-before-wait")])
def st_async_ring(rng):
    values = integers(rng, 2, 4, 256)
    expected = np.broadcast_to(values.sum(axis=1, keepdims=True, dtype=np.int32), values.shape)
    return Launch([np.empty_like(values), values], {0: expected}, grid=8, block=64, cluster=4)


@kernel("red_async_votes.cu", twins=[Twin("WRONG_PARITY", "read-before-wait"), Twin("TO_ITSELF", "MisdirectedStore")])
def red_async_votes(rng):
    votes = rng.integers(0, 16, (2, 4 * 64)).astype(np.uint8)
    expected = np.stack([np.bincount(row, minlength=16) for row in votes]).astype(np.uint32)
    return Launch([np.empty((2, 16), np.uint32), votes], {0: expected}, grid=8, block=64, cluster=4)


@kernel("dynamic_scheduler.cu", twins=[Twin("NO_BARRIER", "race")])
def dynamic_scheduler(rng):
    lengths = rng.integers(0, 400, 11)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = integers(rng, starts[-1])
    expected = np.array([values[low:high].sum() for low, high in pairwise(starts)], np.int32)
    arguments = [np.zeros(11, np.int32), values, starts, 11, np.zeros(1, np.int32)]
    return Launch(arguments, {0: expected}, grid=3, block=128)


@kernel("named_barriers.cu", twins=[Twin("FREED_EARLY", "race")])
def named_barriers(rng):
    tiles = integers(rng, 7, 128)
    return Launch([np.empty(128, np.int32), tiles, 7], {0: weighted(tiles)}, grid=1, block=192)


@kernel("memcpy_async_barrier.cu", twins=[Twin("NO_SYNC", "overwrite-before-wait")])
def memcpy_async_barrier(rng):
    rows = integers(rng, 5, 128)
    padded = np.pad(rows, ((0, 0), (1, 1)))
    expected = padded[:, :-2] + 2 * rows + padded[:, 2:]
    return Launch([np.empty_like(rows), rows, 5], {0: expected}, grid=2, block=128)


@kernel("pipeline_stages.cu", twins=[Twin("DESTROYED_EARLY", "race")])
def pipeline_stages(rng):
    tiles = integers(rng, 8, 128)
    return Launch([np.empty(128, np.int32), tiles, 8], {0: weighted(tiles)}, grid=1, block=128)


@kernel("pipeline_of_threads.cu", twins=[Twin("ONE_LATE", "read-before-wait"), Twin("NO_BARRIER", "race")])
def pipeline_of_threads(rng):
    tiles = integers(rng, 9, 256)
    expected = weighted(tiles).reshape(4, 64).sum(axis=0, dtype=np.int32)
    return Launch([np.empty(64, np.int32), tiles, 9], {0: expected}, grid=1, block=64)


@kernel("group_collectives.cu")
def group_collectives(rng):
    values = integers(rng, 2, 96)
    kept = values[values > 0]
    arguments = [np.empty_like(values), np.zeros(8, np.int32), np.empty_like(kept), np.zeros(1, np.int32), values]
    expected = {
        0: np.cumsum(values.reshape(-1, 16), axis=1, dtype=np.int32).reshape(values.shape),
        1: np.bincount(values.ravel() & 7, minlength=8).astype(np.int32),
        3: np.array([kept.size], np.int32),
    }
    return Launch(arguments, expected, grid=2, block=96)


@kernel("ticket_lock.cu", twins=[Twin("NO_RELEASE", "race")])
def ticket_lock(rng):
    arguments = [np.zeros(2, np.uint32), np.zeros(5, np.int32), np.zeros(1, np.int32)]
    return Launch(arguments, {1: np.arange(0, 50, 10, dtype=np.int32), 2: np.array([5], np.int32)}, grid=5, block=32)


@kernel("message_flags.cu", twins=[Twin("OF_THE_BLOCK", "race")])
def message_flags(rng):
    expected = (100 * np.arange(5)[:, None] + np.arange(31, -1, -1)).astype(np.int32)
    arguments = [np.empty((5, 32), np.int32), np.zeros((2, 32), np.int32), *np.zeros((2, 1, 1), np.int32), 5]
    return Launch(arguments, {0: expected}, grid=2, block=32)


@kernel("stencil.cu", twins=[Twin("HALO_TOO_SMALL", "OutOfBounds")])
def stencil(rng):
    values = integers(rng, 30, 37)
    expected = values
    for _ in range(3):
        p = np.pad(expected, 1, mode="edge")
        expected = 4 * expected + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return Launch([np.empty_like(values), values, 30, 37], {0: expected}, grid=(3, 2), block=256)


@kernel("cluster_histogram.cu", twins=[Twin("NO_RELEASE", "race")])
def cluster_histogram(rng):
    values = rng.integers(0, 256, 1000).astype(np.uint8)
    expected = np.bincount(values, minlength=256).astype(np.int32)
    return Launch([np.empty(256, np.int32), values, 1000], {0: expected}, grid=4, block=96, cluster=4)


@kernel("semaphores.cu", twins=[Twin("RELEASED_EARLY", "race")])
def semaphores(rng):
    values = integers(rng, 6)
    expected = np.array([(values * 3 ** np.arange(5, -1, -1)).sum()], np.int32)
    return Launch([np.empty(1, np.int32), values, 6], {0: expected}, grid=1, block=64)
