"""Requests, sectors and wavefronts of memory accesses."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.emulator.counts.counters import Counts
from tilewright.emulator.lanes import WARP, Group, Indices
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.ptx.syntax import Entry
from tilewright.hardware import SECTOR_BYTES

BANK_BYTES = 4
BANKS = 32
_ROW_BYTES = BANKS * BANK_BYTES
_FEW = 64
"""Rows from which it pays to look for patterns among them."""
_FAR = 1 << 62
_KEYS = np.random.default_rng(0).integers(1, 1 << 40, WARP)
"""Factors that make a number of a row's offsets: equal rows have equal numbers, and others hardly ever do."""
_OF_IMAGES = ("tex", "suld", "sust", "sured")
"""Accesses whose images a GPU lays out in a way of its own."""


class MemoryCounter(Observer):
    """The counter of requests, sectors and wavefronts; it adds them to the counts of the instructions."""

    def __init__(self, by_site: Mapping[int, Counts], entry: Entry) -> None:
        self._by_site, self._entry = by_site, entry
        self._source: tuple[Indices, Indices | None] | None = None  # of the current cp.async

    def accessed(
        self, site: int, kind: str, space: str, group: Group, where: Indices, width: int, chosen: Indices | None
    ) -> None:
        """Count one access of a group."""
        if space == "local" or kind in _OF_IMAGES:
            return
        copies = kind == "cp.async"
        if copies and space == "global":
            self._source = where, chosen
        elif copies and self._source is not None and "ca" in self._entry.instructions[site].modifiers:
            self._copy_through_l1(site, width, group, *self._source, where)
            return
        by_warp = rows_of_warps(group, where, chosen)
        by_warp = by_warp[(by_warp >= 0).any(axis=1)]
        if not by_warp.size:
            return
        counts = self._by_site[site]
        if space == "global":
            kind = "ld" if copies else kind
            counts.global_requests[kind] += len(by_warp)
            counts.global_sectors[kind] += int(_distinct(by_warp, width, SECTOR_BYTES).sum())
            nbytes = np.count_nonzero(by_warp >= 0, axis=1) * width
            counts.global_ideal_sectors[kind] += int((-(-nbytes // SECTOR_BYTES)).sum())
            return
        counts.shared_requests[kind] += len(by_warp)
        if kind in ("ldmatrix", "stmatrix"):  # one pass moves one matrix
            passes = by_warp.reshape(-1, 8)
            self._add_wavefronts(counts, kind, int(_most_words_in_a_bank(passes, width).sum()), _used(passes))
        else:
            self._add_wavefronts(counts, kind, *shared_wavefronts(by_warp, width, kind == "ld"))

    def _copy_through_l1(
        self, site: int, width: int, group: Group, source: Indices, reading: Indices | None, destination: Indices
    ) -> None:
        """Count the writes of cp.async.ca; its reading lanes read L1's banks at `source`.

        A wavefront takes each word of the source to one lane only (seen on an H200).
        """
        lanes = WARP // max(1, width // BANK_BYTES)
        written, read = rows_of_warps(group, destination, None), rows_of_warps(group, source, reading)
        counts = self._by_site[site]
        counts.shared_requests["cp.async"] += len(written)
        written, read = written.reshape(-1, lanes), read.reshape(-1, lanes)
        passes = np.maximum(_most_words_in_a_bank(written, width), _most_words_in_a_bank(read, width, broadcast=False))
        self._add_wavefronts(counts, "cp.async", int(passes.sum()), _used(written))

    def _add_wavefronts(self, counts: Counts, kind: str, wavefronts: int, ideal: int) -> None:
        counts.shared_wavefronts[kind] += wavefronts
        counts.shared_conflicts[kind] += wavefronts - ideal


def rows_of_warps(group: Group, where: Indices, chosen: Indices | None) -> Indices:
    """Byte offsets of the chosen lanes of a group as (warps, 32), -1 for none."""
    offsets = np.full(group.size, -1, np.int64)
    offsets[slice(None) if chosen is None else chosen] = where
    warps = group.warps
    tiles = warps.spread(offsets)
    if warps.present is not None:
        tiles = np.where(warps.present, tiles, -1)
    rows: Indices = tiles.swapaxes(1, 2).reshape(-1, WARP)
    return rows


def shared_wavefronts(by_warp: Indices, width: int, loads: bool) -> tuple[int, int]:
    """Passes of accesses of `width` bytes at offsets (warps, 32), -1 for none; and the number without bank conflicts.

    A pass serves each bank once; all lanes that read the same word are served together. 8-byte accesses go in halves of
    a warp and 16-byte ones in quarters, since a pass moves at most 128 bytes. A pass of a load serves twice as many
    lanes if all lanes of the warp that differ in bit 0 of their number, or all that differ in bit 1, have the same
    address (documented by NVIDIA for compute capability 7.x).
    """
    parts = max(1, width // BANK_BYTES)
    if parts == 1 or not loads:
        return _passes(by_warp, width, parts)
    paired = _pairs_coincide(by_warp)
    alone, together = _passes(by_warp[~paired], width, parts), _passes(by_warp[paired], width, parts // 2)
    return alone[0] + together[0], alone[1] + together[1]


def _passes(by_warp: Indices, width: int, parts: int) -> tuple[int, int]:
    """The wavefronts, and the number of parts of a warp that have an access at all."""
    lanes = by_warp.reshape(-1, WARP // parts)
    return int(_most_words_in_a_bank(lanes, width).sum()), _used(lanes)


def _used(rows: Indices) -> int:
    """The number of rows that have an access at all."""
    return int((rows >= 0).any(axis=1).sum())


def _pairs_coincide(by_warp: Indices) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each warp, whether lanes n and n ^ 1, or n and n ^ 2, have the same address wherever both are active."""
    coincide = np.zeros(len(by_warp), np.bool_)
    lanes = np.arange(WARP)
    for bit in (1, 2):
        other = by_warp[:, lanes ^ bit]
        coincide |= ((by_warp == other) | (by_warp < 0) | (other < 0)).all(axis=1)
    return coincide


def _most_words_in_a_bank(offsets: Indices, width: int, broadcast: bool = True) -> Indices:
    """The largest number of words in one bank, for each row; with broadcast, a word of many lanes counts once.

    Most warps access memory alike, up to a shift by whole rows of banks: each pattern is counted once.
    """
    if len(offsets) < _FEW:
        return _most_words(offsets, width, broadcast)
    lowest = np.where(offsets < 0, _FAR, offsets).min(axis=1, keepdims=True) // _ROW_BYTES * _ROW_BYTES
    patterns = np.where(offsets < 0, -1, offsets - lowest)
    _, first, inverse = np.unique(patterns @ _KEYS[: offsets.shape[1]], return_index=True, return_inverse=True)
    if 2 * first.size > len(offsets) or (patterns != patterns[first][inverse]).any():
        return _most_words(offsets, width, broadcast)
    return _most_words(patterns[first], width, broadcast)[inverse]


def _most_words(offsets: Indices, width: int, broadcast: bool) -> Indices:
    each = max(1, width // BANK_BYTES)
    words = np.repeat(offsets // BANK_BYTES, each, axis=1) + np.tile(np.arange(each), offsets.shape[1])
    words = np.sort(np.where(np.repeat(offsets < 0, each, axis=1), -1, words), axis=1)
    counted = words >= 0
    if broadcast:
        counted[:, 1:] &= words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(len(offsets))[:, None], words.shape)
    counts = np.bincount((row * BANKS + words % BANKS)[counted], minlength=len(offsets) * BANKS)
    result: Indices = counts.reshape(-1, BANKS).max(axis=1, initial=0)
    return result


def _distinct(offsets: Indices, width: int, unit: int) -> Indices:
    """The number of `unit`-byte pieces that are touched, for each row of aligned offsets (-1 for none)."""
    each = max(1, width // unit)  # more than one for tensormap.cp_fenceproxy
    pieces = np.repeat(offsets // unit, each, axis=1) + np.tile(np.arange(each), offsets.shape[1])
    ordered = np.sort(np.where(np.repeat(offsets < 0, each, axis=1), -1, pieces), axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Indices = new.sum(axis=1)
    return result
