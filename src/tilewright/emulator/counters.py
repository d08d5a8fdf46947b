"""What a launch did: instructions, memory requests, tensor-core operations, bytes moved by TMA."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tilewright.emulator.lanes import WARP, Group, Indices

SECTOR_BYTES = 32
BANK_BYTES = 4
BANKS = 32


@dataclass
class Counters:
    """Totals of one launch.

    warp_instructions: executions per warp, by opcode with modifiers. tensor_flops: floating-point (or integer)
    operations of mma and wgmma, two per multiply-add. tma_loaded_bytes: whole boxes, as mbarriers count them; a
    multicast load counts once per destination. tma_stored_bytes: what stores write, within bounds. barrier_waits: times
    that a warp waited at a CTA or cluster barrier or an mbarrier, satisfied ones included.

    Only with Device(count_memory=True): global_requests and shared_requests (warps that access), global_sectors
    (32-byte sectors touched) and shared_wavefronts (passes over the 32 banks), each with keys "ld" and "st".
    """

    warp_instructions: Counter[str] = field(default_factory=Counter)
    tensor_flops: int = 0
    tma_loaded_bytes: int = 0
    tma_stored_bytes: int = 0
    barrier_waits: int = 0
    global_requests: Counter[str] = field(default_factory=Counter)
    global_sectors: Counter[str] = field(default_factory=Counter)
    shared_requests: Counter[str] = field(default_factory=Counter)
    shared_wavefronts: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values}


class MemoryCounter:
    """Adds the requests, sectors and wavefronts of accesses to counters."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def access(self, kind: str, space: str, width: int, group: Group, where: Indices, chosen: Indices | None) -> None:
        """Count one instruction: byte offsets `where` of `width` bytes, of the chosen lanes of a group."""
        if space == "local":
            return
        offsets = np.full(group.size, -1, np.int64)
        offsets[slice(None) if chosen is None else chosen] = where
        warps = group.warps
        tiles = warps.spread(offsets)
        if warps.present is not None:
            tiles = np.where(warps.present, tiles, -1)
        by_warp = tiles.swapaxes(1, 2).reshape(-1, WARP)
        by_warp = by_warp[(by_warp >= 0).any(axis=1)]
        key = "ld" if kind == "ld" else "st"
        if space == "global":
            self._counters.global_requests[key] += len(by_warp)
            self._counters.global_sectors[key] += int(_distinct(by_warp, width, SECTOR_BYTES).sum())
        else:
            self._counters.shared_requests[key] += len(by_warp)
            self._counters.shared_wavefronts[key] += shared_wavefronts(by_warp, width)

    def matrix(self, kind: str, rows: Indices, count: int) -> None:
        """Count ldmatrix or stmatrix: byte offsets (W, 32, C) of 16-byte rows, 8 for each of `count` matrices."""
        by_warp = rows.swapaxes(1, 2).reshape(-1, WARP)[:, : 8 * count]
        self._counters.shared_requests[kind] += len(by_warp)
        phases = by_warp.reshape(-1, 8)
        self._counters.shared_wavefronts[kind] += int(_most_words_in_a_bank(phases, 16).sum())


def shared_wavefronts(by_warp: Indices, width: int) -> int:
    """Passes that shared memory needs for accesses of `width` bytes at offsets (warps, 32); -1 is no access.

    A pass serves each bank once; 8-byte accesses go in halves of a warp and 16-byte ones in quarters.
    """
    phases = max(1, width // BANK_BYTES)
    passes = _most_words_in_a_bank(by_warp.reshape(-1, WARP // phases), width)
    return int(passes.sum())


def _most_words_in_a_bank(offsets: Indices, width: int) -> Indices:
    """For each row of offsets the largest number of distinct words that fall into one bank."""
    words = (offsets[:, :, None] // BANK_BYTES + np.arange(max(1, width // BANK_BYTES))).reshape(len(offsets), -1)
    words = np.where(np.repeat(offsets < 0, max(1, width // BANK_BYTES), axis=1), -1, words)
    words = np.sort(words, axis=1)
    new = words >= 0
    new[:, 1:] &= words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(len(offsets))[:, None], words.shape)
    counts = np.bincount((row * BANKS + words % BANKS)[new], minlength=len(offsets) * BANKS)
    result: Indices = counts.reshape(-1, BANKS).max(axis=1, initial=0)
    return result


def _distinct(offsets: Indices, width: int, unit: int) -> Indices:
    """For each row of offsets (-1 for none) the number of `unit`-byte pieces that are touched."""
    pieces = np.where(offsets < 0, -1, offsets // unit)
    if width > unit:
        raise ValueError(f"an access of {width} bytes is wider than {unit}")
    ordered = np.sort(pieces, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Indices = new.sum(axis=1)
    return result
