"""Requests, sectors and wavefronts of memory accesses."""

import numpy as np

from tilewright.emulator.counts.counters import Counts, Sites
from tilewright.emulator.lanes import WARP, Group, Indices
from tilewright.emulator.machine.observer import Observer
from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import BANK_BYTES, most_words_in_a_bank, rows_in_use, shared_wavefronts
from tilewright.model.memory.coalescing import pieces_touched

_OF_IMAGES = ("tex", "suld", "sust", "sured")
"""Accesses whose images a GPU lays out in a way of its own."""


class MemoryCounter(Observer):
    """The counter of requests, sectors and wavefronts; it adds them to the counts of the instructions."""

    def __init__(self, sites: Sites) -> None:
        self._counts, self._instructions = sites.counts, sites.instructions
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
        elif copies and self._source is not None and "ca" in self._instructions[site].modifiers:
            self._copy_through_l1(site, width, group, *self._source, where)
            return
        by_warp = rows_of_warps(group, where, chosen)
        by_warp = by_warp[(by_warp >= 0).any(axis=1)]
        if not by_warp.size:
            return
        counts = self._counts[site]
        if space == "global":
            kind = "ld" if copies else kind
            counts.global_requests[kind] += len(by_warp)
            counts.global_sectors[kind] += int(pieces_touched(by_warp, width, SECTOR_BYTES).sum())
            nbytes = np.count_nonzero(by_warp >= 0, axis=1) * width
            counts.global_ideal_sectors[kind] += int((-(-nbytes // SECTOR_BYTES)).sum())
            return
        counts.shared_requests[kind] += len(by_warp)
        if kind in ("ldmatrix", "stmatrix"):  # one pass moves one matrix
            passes = by_warp.reshape(-1, 8)
            self._add_wavefronts(counts, kind, int(most_words_in_a_bank(passes, width).sum()), rows_in_use(passes))
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
        counts = self._counts[site]
        counts.shared_requests["cp.async"] += len(written)
        written, read = written.reshape(-1, lanes), read.reshape(-1, lanes)
        passes = np.maximum(most_words_in_a_bank(written, width), most_words_in_a_bank(read, width, broadcast=False))
        self._add_wavefronts(counts, "cp.async", int(passes.sum()), rows_in_use(written))

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
