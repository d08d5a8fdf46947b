"""Asynchronous operations in one form, as observers see them.

An operation has one part for each lane that issues it; arrays have an entry for each part.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.lanes import Group, Indices, Mask
from tilewright.emulator.semantics.swizzle import CHUNK
from tilewright.emulator.semantics.tiles import Rows


@dataclass(frozen=True, slots=True, eq=False)
class SharedRegion:
    """The shared memory that the parts access, of one or more CTAs.

    ctas: (parts, places), slots of CTAs. offsets: (parts,), shared addresses of `nbytes` consecutive bytes. chunks: the
    16-byte chunks of a part by its index, numbered from shared address 0; where they are given, the bytes may not be
    consecutive, and offsets and nbytes say nothing. alike: (parts,), keys; parts with the same key access the same
    offsets, each of its own CTA. taken: which of the chunks of a part the operation needs, None if all; a TMA store
    drops what lies outside its tensor.
    """

    ctas: Indices
    offsets: Indices
    nbytes: int
    chunks: Callable[[int], Indices] | None = None
    alike: Sequence[Hashable] | None = None
    taken: Callable[[int], Mask | None] | None = None

    def chunks_of(self, part: int) -> Indices:
        """The 16-byte chunks of a CTA's shared memory that a part accesses."""
        if self.chunks is not None:
            return self.chunks(part)
        first = int(self.offsets[part])
        return np.arange(first // CHUNK.itemsize, (first + self.nbytes) // CHUNK.itemsize)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalRegion:
    """The global memory that the parts access.

    rows_of: the rows that a part accesses, given its index; None for nothing.
    bounds: addresses of the first and the last byte of all parts, if known without asking for the rows.
    """

    rows_of: Callable[[int], Rows | None]
    bounds: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """An end by commit groups: a wait of the issuing lane reports it.

    name: "cp.async", "bulk" or "wgmma".
    numbers: (parts,), the groups, counted by each lane.
    """

    name: str
    numbers: Indices


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """An end by mbarriers: the slots of their CTAs, (parts, places), and their shared addresses, (parts,)."""

    ctas: Indices
    offsets: Indices


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRegisters:
    """The registers of a wgmma, by their numbers in Program.watched: accumulators, and fragments of A."""

    group: Group
    accumulators: slice | tuple[int, ...]
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An asynchronous operation that one instruction issues.

    site: the instruction.
    kind: "cp.async", "bulk" (copies and reductions), "send" (st.async, red.async) or "wgmma".
    lanes: (parts,), the issuing lanes; for a wgmma the first lane of each warpgroup.
    ends: the queue or signal that reports its end.
    registers: those of a wgmma.
    """

    site: int
    kind: str
    lanes: Indices
    ends: Queue | Signal
    reads: SharedRegion | GlobalRegion | None = None
    writes: SharedRegion | GlobalRegion | None = None
    registers: WatchedRegisters | None = None
