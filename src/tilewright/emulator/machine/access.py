"""Loads, stores and atomics of all lanes of a group, in any space, with every address checked."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.errors import Misaligned, OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, Indices, Mask, Topology, lanes_of
from tilewright.emulator.machine.observer import Observers
from tilewright.emulator.machine.words import Words
from tilewright.emulator.memory import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    POISON,
    RANK_SHIFT,
    SHARED_START,
    SHARED_WINDOW,
    FlatMemory,
    GlobalMemory,
)
from tilewright.emulator.semantics.reductions import combine
from tilewright.emulator.semantics.scalars import Values, flush
from tilewright.rounding import round_up

_OFFSET_MASK = np.uint32((1 << RANK_SHIFT) - 1)
_WINDOW_SHIFT = np.uint64(44)  # all windows are multiples of 2**44
_WINDOWS = {"global": GLOBAL_BASE, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


class Access:
    """The memories as the CTAs that run together see them.

    shared_limit: end of a CTA's shared memory as it addresses it.
    local_bytes: local memory of one thread.
    unwritten: (lanes that take part, parts of equal size), what of a load of shared memory nothing has written; an
    observer says so while it is told of the access.
    missing: the same of the last load as a whole, (group, parts); None for nothing.
    """

    def __init__(
        self, memory: GlobalMemory, topology: Topology, shared_limit: int, words: Words, tell: Observers
    ) -> None:
        self.memory, self.topology, self.shared_limit = memory, topology, shared_limit
        self._words, self._tell, self._entry = words, tell, words.entry
        self.local_bytes = self._entry.local_bytes
        self.unwritten: Mask | None = None
        self.missing: Mask | None = None
        self.shared = FlatMemory(np.full(topology.ctas * topology.shared_stride, POISON, np.uint8))
        self.local = FlatMemory(np.full(round_up(topology.lanes * self.local_bytes, 16), POISON, np.uint8))

    def load(
        self, site: int, group: Group, space: str, address: Array, dtype: npt.DTypeLike, count: int, active: Active
    ) -> list[Array]:
        """`count` consecutive elements per lane; zeros in inactive lanes."""
        width, self.missing = np.dtype(dtype).itemsize * count, None

        def gather(memory: FlatMemory, where: Indices, _: Indices | None) -> list[Array]:
            return memory.gather(where, dtype, count)

        results = self._each_space(site, group, space, address, width, active, gather, "ld")
        if len(results) == 1 and results[0][0] is None:
            everything: list[Array] = results[0][1]
            return everything
        merged: list[Array] = [np.zeros(group.size, dtype) for _ in range(count)]
        for chosen, values in results:
            for target, value in zip(merged, values, strict=True):
                target[chosen] = value
        return merged

    def store(self, site: int, group: Group, space: str, address: Array, values: list[Array], active: Active) -> None:
        """Consecutive elements of every active lane."""
        width = values[0].dtype.itemsize * len(values)

        def scatter(memory: FlatMemory, where: Indices, chosen: Indices | None) -> None:
            stored = [_select(value, chosen) for value in values]
            memory.scatter(where, stored)
            if memory is not self.local:
                self._tell.stored(site, group, memory, where, stored, chosen)

        self._each_space(site, group, space, address, width, active, scatter, "st")

    def atomic(
        self,
        site: int,
        group: Group,
        space: str,
        address: Array,
        form: tuple[str, str],
        values: Sequence[Values],
        compare: Values | None,
        active: Active,
    ) -> list[Array]:
        """Read-modify-write of consecutive elements of each active lane, one lane after the other where they repeat.

        form: operation and PTX type. Returns the values found, and zeros in inactive lanes.
        """
        size = values[0].dtype.itemsize
        found = [np.zeros(group.size, value.dtype) for value in values]

        def update(memory: FlatMemory, where: Indices, chosen: Indices | None) -> None:
            lanes = np.arange(group.size) if chosen is None else chosen
            where = lanes_of(where, lanes.size)
            expected = None if compare is None else _select(lanes_of(compare, group.size), chosen)
            flushes = form == ("add", "f32") and memory is self.memory  # but not in shared memory: PTX ISA, "atom"
            for index, value in enumerate(values):
                operands = _select(lanes_of(value, group.size), chosen)
                found[index][lanes] = modify(memory, where + index * size, form, operands, expected, flushes)

        self._each_space(site, group, space, address, size * len(values), active, update, "atom")
        return found

    def locate(
        self, site: int, group: Group, space: str, address: Array, width: int, chosen: Indices | None = None
    ) -> tuple[FlatMemory, Indices]:
        """The flat memory and the checked byte offsets of accesses of `width` bytes; the space is not generic."""
        address = np.asarray(address)
        if width & (width - 1) == 0 and int(np.bitwise_or.reduce(address, axis=None)) & (width - 1):
            wrong, lane = _first(address % address.dtype.type(width) != 0, address, group, chosen)
            raise Misaligned(
                f"{self._words.describe(site)} accesses {width} bytes at {space} address {wrong:#x}, "
                f"which is not a multiple of {width}",
                address=wrong,
                lane=lane,
            )
        if space in ("global", "param"):
            where = (address - np.uint64(GLOBAL_BASE)).view(np.int64)
            outside = self.memory.first_outside(where, width)
            if outside is not None:
                raise OutOfBounds(
                    f"{self._words.describe(site)} accesses {width} bytes at global address "
                    f"{GLOBAL_BASE + outside:#x}, outside every allocation: {self.memory.describe(outside)}",
                    address=GLOBAL_BASE + outside,
                    lane=_first(where == outside, address, group, chosen)[1],
                )
            return self.memory, where
        if space == "local":
            self._check_range(site, space, address, width, (0, self.local_bytes), group, chosen)
            return self.local, address.astype(np.int64) + _select(group.indices, chosen) * self.local_bytes
        base = _select(group.shared_base, chosen)
        offset = address
        if space == "cluster":
            offset = address & _OFFSET_MASK
            rank = (address >> np.uint32(RANK_SHIFT)).astype(np.int64)
            if rank.any():
                base = np.where(rank > 0, self._base_of_rank(site, _select(group.cta, chosen), rank), base)
        self._check_range(site, "shared", offset, width, (SHARED_START, self.shared_limit), group, chosen)
        return self.shared, base + offset

    def map_to_cta(self, address: Values, rank: Values) -> Values:
        """mapa: the address, generic or of shared memory, of the same variable in the CTA with this rank."""
        rank_bits = (rank.astype(address.dtype) + address.dtype.type(1)) << address.dtype.type(RANK_SHIFT)
        cleared = address & ~address.dtype.type(0xFF << RANK_SHIFT)
        return cleared | rank_bits

    def rank_of(self, address: Values, group: Group) -> Array:
        """getctarank."""
        rank = (address >> address.dtype.type(RANK_SHIFT)).astype(np.int64) & 0xFF
        return np.where(rank > 0, rank - 1, group.cta % self.topology.cluster_size).astype(np.uint32)

    def cta_and_offset(
        self, site: int, group: Group, space: str, address: Array, width: int = 8
    ) -> tuple[Indices, Indices]:
        """The CTA slot and the offset in its shared memory that each lane's address means, for an object of 8 bytes."""
        if space == "generic":
            self._require_window(site, "shared", address)
            space, address = "cluster", address.astype(np.uint32)
        _, where = self.locate(site, group, space, address, width)
        where = lanes_of(where, group.size)
        cta = where // self.topology.shared_stride
        return cta, where - cta * self.topology.shared_stride

    def _each_space(
        self,
        site: int,
        group: Group,
        space: str,
        address: Array,
        width: int,
        active: Active,
        act: Callable[[FlatMemory, Indices, Indices | None], Any],
        kind: str,
    ) -> list[tuple[Indices | None, Any]]:
        """Report an access to observers and apply `act` to the active lanes' offsets, once per memory."""
        results = []
        for named, memory, where, chosen in self.parts(site, group, space, address, width, active):
            if named != "param":  # the hardware reads parameters as constants
                self._tell.accessed(site, kind, named, group, where, width, chosen)
                if self.unwritten is not None:
                    self._miss(group.size, chosen, self.unwritten)
            results.append((chosen, act(memory, where, chosen)))
        return results

    def _miss(self, size: int, chosen: Indices | None, unwritten: Mask) -> None:
        """Note what a load of some lanes of a group finds unwritten."""
        self.unwritten = None
        self.missing = np.zeros((size, unwritten.shape[1]), np.bool_)
        self.missing[slice(None) if chosen is None else chosen] = unwritten

    def parts(
        self, site: int, group: Group, space: str, address: Array, width: int, active: Active
    ) -> Iterator[tuple[str, FlatMemory, Indices, Indices | None]]:
        """The spaces that the active lanes address: memories, offsets, and lanes (None for all)."""
        chosen = _chosen(active, group.size)
        if chosen is not None:
            if not chosen.size:
                return
            address = lanes_of(address, group.size)[chosen]
        if space != "generic":
            yield space, *self.locate(site, group, space, address, width, chosen), chosen
            return
        lanes = np.arange(group.size) if chosen is None else chosen
        address = lanes_of(address, lanes.size)
        window = address >> _WINDOW_SHIFT
        known = np.zeros(lanes.shape, np.bool_)
        for name, base in _WINDOWS.items():
            here = window == np.uint64(base >> 44)
            if here.any():
                known |= here
                of_window = address[here] if name == "global" else address[here].astype(np.uint32)
                named = "cluster" if name == "shared" else name
                yield named, *self.locate(site, group, named, of_window, width, lanes[here]), lanes[here]
        if not known.all():
            wrong, lane = _first(~known, address, group, chosen)
            raise OutOfBounds(
                f"{self._words.describe(site)} accesses {width} bytes at generic address {wrong:#x}, which lies in no "
                f"memory: {self.memory.describe(wrong - GLOBAL_BASE)}",
                address=wrong,
                lane=lane,
            )

    def _require_window(self, site: int, name: str, address: Array) -> None:
        if (address >> _WINDOW_SHIFT != np.uint64(_WINDOWS[name] >> 44)).any():
            raise OutOfBounds(f"{self._words.describe(site)} needs an address of {name} memory")

    def _base_of_rank(self, site: int, cta: Indices, rank: Indices) -> Indices:
        size = self.topology.cluster_size
        if int(rank.max()) > size:
            raise OutOfBounds(
                f"{self._words.describe(site)} addresses the shared memory of CTA rank {int(rank.max()) - 1} in a "
                f"cluster of {size}"
            )
        return (cta // size * size + rank - 1) * self.topology.shared_stride

    def _check_range(
        self,
        site: int,
        space: str,
        address: Array,
        width: int,
        limits: tuple[int, int],
        group: Group,
        chosen: Indices | None,
    ) -> None:
        start, end = limits
        if int(address.min()) < start or int(address.max()) + width > end:
            flat = address.astype(np.int64)
            wrong, lane = _first((flat < start) | (flat + width > end), address, group, chosen)
            remedy = self._remedy() if space == "shared" else ""
            raise OutOfBounds(
                f"{self._words.describe(site)} accesses {width} bytes at {space} address {wrong:#x}, outside the "
                f"{end - start} bytes from {start:#x} that it has{remedy}",
                address=wrong,
                lane=lane,
            )

    def _remedy(self) -> str:
        """The remedy for an access past the end of shared memory."""
        entry = self._entry
        if any(variable.size == 0 for variable in entry.shared.values()):  # extern __shared__
            static = f", {entry.shared_bytes} of them static" if entry.shared_bytes else ""
            return f"{static}: launch it with as much dynamic shared memory as it needs, or keep its indices in bounds"
        if entry.shared_bytes:
            return ", all of them static: keep the index within the bounds of its array"
        return ": it declares no shared memory"


def of_parts(mask: Mask, count: int) -> Mask:
    """A mask of parts of equal size, (lanes, parts), as one of `count` such parts: true where it covers any of one."""
    parts = np.repeat(mask, max(count // mask.shape[1], 1), axis=1)
    return np.asarray(parts.reshape(len(mask), count, -1).any(axis=2))


def modify(
    memory: FlatMemory,
    where: Indices,
    form: tuple[str, str],
    operands: Array,
    expected: Array | None = None,
    flushes: bool = False,
) -> Array:
    """Read-modify-write at byte offsets, one after the other where they repeat; returns the values found.

    form: operation and PTX type.
    expected: the expected values of a compare-and-swap.
    flushes: whether subnormal numbers become zero.
    """
    cells, cell = memory.elements(operands.dtype), where // operands.dtype.itemsize
    found = np.empty(where.size, operands.dtype)
    for turn in _turns(cell):
        old, operand = cells[cell[turn]], operands[turn]
        if flushes:
            new = flush(combine(form, flush(old), flush(operand), None))
        else:
            new = combine(form, old, operand, None if expected is None else expected[turn])
        cells[cell[turn]] = new
        found[turn] = old
    return found


def _chosen(active: Active, size: int) -> Indices | None:
    """Indices of the active lanes, None for all of them."""
    if active is None:
        return None
    mask = lanes_of(active, size)
    return None if mask.all() else np.flatnonzero(mask)


def _first(wrong: Array, address: Array, group: Group, chosen: Indices | None) -> tuple[int, Indices]:
    """The first wrong address of the chosen lanes, and its lane, for an error."""
    place = int(np.argmax(wrong))
    lanes = group.indices if chosen is None else group.indices[chosen]
    return int(np.ravel(address)[place]), lanes[place : place + 1]


def _select(values: Values, chosen: Indices | None) -> Values:
    return values if chosen is None or np.ndim(values) == 0 else values[chosen]


def _turns(cell: Indices) -> list[Any]:
    """Split lanes into turns within which no cell repeats, keeping the order of lanes for each cell."""
    order = np.argsort(cell, kind="stable")
    ordered = cell[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if first.size == cell.size:
        return [slice(None)]
    turn = np.arange(cell.size) - np.repeat(first, np.diff(np.r_[first, cell.size]))
    by_turn = np.argsort(turn, kind="stable")
    return [order[part] for part in np.split(by_turn, np.flatnonzero(np.diff(turn[by_turn])) + 1)]
