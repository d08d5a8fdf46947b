"""What a launch did, in total and per source line: instructions, memory requests, tensor-core work, bytes moved by TMA.

While a kernel runs, every event is added to the `Counts` of the PTX instruction that caused it. At the end they are
summed per source line. PTX is not SASS: what ptxas merges, splits or drops is counted as the PTX says.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tilewright.emulator.lanes import WARP, Group, Indices
from tilewright.emulator.ptx import Instruction

SECTOR_BYTES = 32
PIECE_BYTES = 128
BANK_BYTES = 4
BANKS = 32

Chain: TypeAlias = tuple[str, ...]
"""A source line and the lines that it is inlined at, innermost first."""


@dataclass
class Counts:
    """What one instruction, source line or launch did.

    warp_instructions: executions per warp, by opcode with modifiers. tensor_instructions: of mma and wmma (per warp)
    and wgmma (per warpgroup), by kind, shape and the types of accumulator, A and B. tensor_flops: their floating-point
    or integer operations, two per multiply-add. tma_loaded_bytes: whole boxes, as mbarriers count them; a multicast
    load counts once per destination. tma_read_bytes: whole sectors that those loads bring from L2, once per load, for
    what is out of bounds too. multicast_saved_bytes: what else they would bring if each destination had its own load.
    tma_stored_bytes: whole sectors that stores write, within bounds. wgmma_read_bytes: what wgmma reads of A and B from
    shared memory. barrier_waits, mbarrier_waits: times that a warp waited at a CTA or cluster barrier, or at an
    mbarrier, satisfied ones included.

    Only with Device(count_memory=True): global_requests and shared_requests (warps that access), global_sectors
    (32-byte sectors touched), global_ideal_sectors (what as many bytes side by side would touch), shared_wavefronts
    (passes over the 32 banks) and shared_conflicts (wavefronts beyond those of the same access without bank conflicts).
    Keys say what accesses: "ld", "st" or "atom", in shared memory also "ldmatrix", "stmatrix" and "cp.async"; in global
    memory cp.async is an "ld". Wavefronts of cp.async.ca are those of its reads from L1 or of its writes, whichever are
    more: what an H200 takes, unless both have bank conflicts, when it takes more still.
    """

    warp_instructions: Counter[str] = field(default_factory=Counter)
    tensor_instructions: Counter[str] = field(default_factory=Counter)
    tensor_flops: int = 0
    global_requests: Counter[str] = field(default_factory=Counter)
    global_sectors: Counter[str] = field(default_factory=Counter)
    global_ideal_sectors: Counter[str] = field(default_factory=Counter)
    shared_requests: Counter[str] = field(default_factory=Counter)
    shared_wavefronts: Counter[str] = field(default_factory=Counter)
    shared_conflicts: Counter[str] = field(default_factory=Counter)
    tma_loaded_bytes: int = 0
    tma_read_bytes: int = 0
    multicast_saved_bytes: int = 0
    tma_stored_bytes: int = 0
    wgmma_read_bytes: int = 0
    barrier_waits: int = 0
    mbarrier_waits: int = 0

    @property
    def sectors_per_request(self) -> dict[str, float]:
        """Mean number of sectors of a global request, by what accesses; 4 is ideal for 4 bytes per lane."""
        return {kind: self.global_sectors[kind] / requests for kind, requests in self.global_requests.items()}

    def multiply(self, kind: str, shape: str, types: Sequence[str], executions: int) -> None:
        """Count tensor-core instructions. shape: as in PTX, such as "m16n8k16"; types: of accumulator, A and B."""
        self.tensor_instructions[".".join((kind, shape, *types))] += executions
        self.tensor_flops += 2 * prod(map(int, re.findall(r"\d+", shape))) * executions

    def load_by_tma(self, box_bytes: int, read_bytes: int, destinations: int) -> None:
        """Count bulk loads to so many CTAs each. Bytes: of the whole boxes, and what is read for them."""
        self.tma_loaded_bytes += box_bytes * destinations
        self.tma_read_bytes += read_bytes
        self.multicast_saved_bytes += read_bytes * (destinations - 1)

    def add(self, other: "Counts") -> None:
        """Add what another did."""
        for item in fields(Counts):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, item.name, mine + theirs)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = {item.name: getattr(self, item.name) for item in fields(Counts)}
        plain = {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}
        return {**plain, "sectors_per_request": self.sectors_per_request}


@dataclass
class Counters(Counts):
    """The totals of a launch, and their parts by source line.

    by_chain: counts by source line and where that is inlined. Lines are "file:line"; without line information in the
    PTX (-lineinfo) they are "PTX:line".
    """

    by_chain: dict[Chain, Counts] = field(default_factory=dict)

    @classmethod
    def summed(cls, by_site: Mapping[int, Counts], instructions: Sequence[Instruction]) -> "Counters":
        """From the counts of each instruction of an entry, by its index."""
        counters = cls()
        for site, counts in sorted(by_site.items()):
            instruction = instructions[site]
            chain = instruction.location.chain if instruction.location else (f"PTX:{instruction.ptx_line}",)
            counters.by_chain.setdefault(chain, Counts()).add(counts)
            counters.add(counts)
        return counters

    @cached_property
    def by_line(self) -> dict[str, Counts]:
        """Counts by the innermost source line: what stands on that line itself."""
        return _grouped((chain[:1], counts) for chain, counts in self.by_chain.items())

    @cached_property
    def by_line_inclusive(self) -> dict[str, Counts]:
        """Counts by source line, including what was inlined into it."""
        return _grouped(self.by_chain.items())


def _grouped(parts: Iterable[tuple[Chain, Counts]]) -> dict[str, Counts]:
    """Sums over lines; a part belongs once to each line of its chain. Sorted by file and line."""
    lines: dict[str, Counts] = {}
    for chain, counts in parts:
        for line in dict.fromkeys(chain):
            lines.setdefault(line, Counts()).add(counts)
    return {line: lines[line] for line in sorted(lines, key=_file_and_line)}


def _file_and_line(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number)


class MemoryCounter:
    """Adds the requests, sectors and wavefronts of accesses to the counts of their instructions."""

    def __init__(self, by_site: Mapping[int, Counts]) -> None:
        self._by_site = by_site

    def access(
        self, site: int, kind: str, space: str, width: int, group: Group, where: Indices, chosen: Indices | None
    ) -> None:
        """Count one instruction: byte offsets `where` of `width` bytes, of the chosen lanes of a group."""
        if space == "local":
            return
        by_warp = _by_warp(group, where, chosen)
        by_warp = by_warp[(by_warp >= 0).any(axis=1)]
        if not by_warp.size:
            return
        counts = self._by_site[site]
        if space == "global":
            counts.global_requests[kind] += len(by_warp)
            counts.global_sectors[kind] += int(_distinct(by_warp, width, SECTOR_BYTES).sum())
            nbytes = np.count_nonzero(by_warp >= 0, axis=1) * width
            counts.global_ideal_sectors[kind] += int((-(-nbytes // SECTOR_BYTES)).sum())
        else:
            counts.shared_requests[kind] += len(by_warp)
            self._add_wavefronts(counts, kind, *shared_wavefronts(by_warp, width, kind == "ld"))

    def copy_through_l1(
        self, site: int, width: int, group: Group, source: Indices, reading: Indices | None, destination: Indices
    ) -> None:
        """Count the writes of cp.async.ca, for which the reading lanes read L1's banks at `source`.

        A wavefront takes each word of the source to one lane only (seen on an H200).
        """
        lanes = WARP // max(1, width // BANK_BYTES)
        written, read = _by_warp(group, destination, None), _by_warp(group, source, reading)
        counts = self._by_site[site]
        counts.shared_requests["cp.async"] += len(written)
        written, read = written.reshape(-1, lanes), read.reshape(-1, lanes)
        passes = np.maximum(_most_words_in_a_bank(written, width), _most_words_in_a_bank(read, width, broadcast=False))
        self._add_wavefronts(counts, "cp.async", int(passes.sum()), int((written >= 0).any(axis=1).sum()))

    def matrix(self, site: int, kind: str, rows: Indices, count: int) -> None:
        """Count ldmatrix or stmatrix: byte offsets (W, 32, C) of 16-byte rows, 8 for each of `count` matrices."""
        by_warp = rows.swapaxes(1, 2).reshape(-1, WARP)[:, : 8 * count]
        counts = self._by_site[site]
        counts.shared_requests[kind] += len(by_warp)
        passes = by_warp.reshape(-1, 8)
        self._add_wavefronts(counts, kind, int(_most_words_in_a_bank(passes, 16).sum()), len(passes))

    def _add_wavefronts(self, counts: Counts, kind: str, wavefronts: int, ideal: int) -> None:
        counts.shared_wavefronts[kind] += wavefronts
        counts.shared_conflicts[kind] += wavefronts - ideal


def whole_sectors(starts: Indices, nbytes: int | Indices) -> int:
    """Bytes of the sectors that TMA moves for ranges of so many bytes at these addresses.

    It does so in pieces of 128 bytes (seen on an H200): a sector between two of them is moved with each.
    """
    pieces, rest = np.divmod(nbytes, PIECE_BYTES)
    begun = starts % SECTOR_BYTES
    sectors = pieces * -(-(begun + PIECE_BYTES) // SECTOR_BYTES) + np.where(rest, -(-(begun + rest) // SECTOR_BYTES), 0)
    return SECTOR_BYTES * int(sectors.sum())


def _by_warp(group: Group, where: Indices, chosen: Indices | None) -> Indices:
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
    """Passes of accesses of `width` bytes at offsets (warps, 32), -1 for none; and how many without bank conflicts.

    A pass serves each bank once, all lanes that read the same word together. 8-byte accesses go in halves of a warp and
    16-byte ones in quarters, as a pass moves at most 128 bytes. Twice as many lanes of a load go together where all
    lanes of the warp that differ in bit 0 of their number, or all that differ in bit 1, have the same address
    (documented by NVIDIA for compute capability 7.x).
    """
    parts = max(1, width // BANK_BYTES)
    if parts == 1 or not loads:
        return _passes(by_warp, width, parts)
    paired = _pairs_coincide(by_warp)
    alone, together = _passes(by_warp[~paired], width, parts), _passes(by_warp[paired], width, parts // 2)
    return alone[0] + together[0], alone[1] + together[1]


def _passes(by_warp: Indices, width: int, parts: int) -> tuple[int, int]:
    """Wavefronts, and how many of the parts of a warp have an access at all."""
    lanes = by_warp.reshape(-1, WARP // parts)
    return int(_most_words_in_a_bank(lanes, width).sum()), int((lanes >= 0).any(axis=1).sum())


def _pairs_coincide(by_warp: Indices) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each warp whether lanes n and n ^ 1, or n and n ^ 2, have the same address wherever both are active."""
    coincide = np.zeros(len(by_warp), np.bool_)
    lanes = np.arange(WARP)
    for bit in (1, 2):
        other = by_warp[:, lanes ^ bit]
        coincide |= ((by_warp == other) | (by_warp < 0) | (other < 0)).all(axis=1)
    return coincide


def _most_words_in_a_bank(offsets: Indices, width: int, broadcast: bool = True) -> Indices:
    """For each row of offsets the largest number of words in one bank; with broadcast, a word of many lanes is one."""
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
    """For each row of offsets (-1 for none) the number of `unit`-byte pieces that are touched."""
    pieces = np.where(offsets < 0, -1, offsets // unit)
    if width > unit:
        raise ValueError(f"an access of {width} bytes is wider than {unit}")
    ordered = np.sort(pieces, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Indices = new.sum(axis=1)
    return result
