"""Flat memories that all lanes access at once, and the allocator of global memory.

Addresses: a generic address lies in one of three windows, below. Shared memory is addressed with 32 bits within a CTA;
an address of another CTA of the cluster (mapa) has that CTA's rank + 1 in the bits from RANK_SHIFT.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.lanes import Array, Indices, Mask
from tilewright.errors import ArgumentValueError, OutOfMemoryError
from tilewright.rounding import round_up

Bytes: TypeAlias = npt.NDArray[np.uint8]

LOCAL_WINDOW = 0x5000_0000_0000
SHARED_WINDOW = 0x6000_0000_0000
GLOBAL_BASE = 0x7000_0000_0000
RANK_SHIFT = 24
SHARED_START = 1024
"""First shared address of a CTA: as on the hardware, the first KiB belongs to the system."""
REDZONE = 256
"""Bytes around each global allocation that belong to no allocation."""
_NULL_BYTES = 1 << 20
"""The size of the range from address 0 that counts as an index from a null pointer."""
WHOSE = "is it a pointer of this device?"
"""The question about an address far from every allocation."""
_FAR = 1 << 32
"""The distance from an allocation, in bytes, from which an address no longer counts as a wrong index into it."""
POISON = 0xFF
"""The byte that fills fresh memory: NaN in every floating-point type."""

_WIDE: dict[int, npt.DTypeLike] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class FlatMemory:
    """Bytes, and views of them as wider elements. The size is a multiple of 16."""

    def __init__(self, data: Bytes) -> None:
        self.bytes = data
        self._views = {width: data.view(dtype) for width, dtype in _WIDE.items()}

    def gather(self, where: Indices, dtype: npt.DTypeLike, count: int) -> list[Array]:
        """Load `count` consecutive elements at each aligned byte offset; one array per element."""
        width = np.dtype(dtype).itemsize * count
        if width > 16:
            half = self.gather(where, dtype, count // 2)
            return half + self.gather(where + width // 2, dtype, count // 2)
        words = self._views[width].take(where >> (width.bit_length() - 1))
        if count == 1:
            return [words.view(dtype)]
        elements = np.asarray(words)[..., None].view(dtype)
        return [elements[..., index] for index in range(count)]

    def scatter(self, where: Indices, values: list[Array]) -> None:
        """Store consecutive elements at each aligned byte offset; where offsets repeat the last lane wins."""
        if np.ndim(where) == 0:
            where, values = np.atleast_1d(where), [np.atleast_1d(value)[-1:] for value in values]
        dtype, count = values[0].dtype, len(values)
        width = dtype.itemsize * count
        if width > 16:
            self.scatter(where, values[: count // 2])
            self.scatter(where + width // 2, values[count // 2 :])
            return
        words = values[0]
        if count > 1:
            packed = np.empty((np.size(where), count), dtype)
            for index, value in enumerate(values):
                packed[:, index] = value
            words = packed.view(_WIDE[width])[:, 0]
        view = self._views[width]
        view[where >> (width.bit_length() - 1)] = words if words.dtype == view.dtype else words.view(view.dtype)

    def differs(self, where: Indices, values: list[Array]) -> Mask:
        """The places that now hold something other than what was stored there."""
        bits = np.dtype(f"u{values[0].dtype.itemsize}")
        found = self.gather(where, bits, len(values))
        pairs = [there != np.asarray(value).view(bits) for there, value in zip(found, values, strict=True)]
        return np.asarray(np.logical_or.reduce(pairs))

    def elements(self, dtype: npt.DTypeLike) -> Array:
        """The whole memory as one array of a dtype of 1 to 16 bytes."""
        return self._views[np.dtype(dtype).itemsize].view(dtype)


def first_difference(found: bytes, expected: bytes) -> int:
    """The first position where two byte strings of equal length differ."""
    return int(np.argmax(np.frombuffer(found, np.uint8) != np.frombuffer(expected, np.uint8)))


@dataclass(frozen=True, order=True, slots=True)
class Allocation:
    """A live range of global memory, as offsets from GLOBAL_BASE.

    internal: whether the emulator made it, for example for parameters, and not the user.
    """

    start: int
    size: int
    internal: bool = False

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + self.size


class GlobalMemory(FlatMemory):
    """The global memory: one arena, whose pages the operating system commits on first use."""

    def __init__(self, capacity: int) -> None:
        super().__init__(np.empty(round_up(capacity, 16), np.uint8))
        self.allocations: list[Allocation] = []
        self._last = Allocation(0, 0)

    def allocate(self, size: int, align: int, internal: bool = False, skew: int = 0) -> int:
        """The address of fresh poisoned bytes, `skew` bytes past a multiple of `align`.

        What is internal lies at the other end of the arena, where no wrong index into the user's memory leads, and
        nothing takes the place of what the user has freed. Raises OutOfMemoryError if the arena is full.
        """
        start = self._last_room(size, align) if internal else self._first_room(size, align, skew)
        if not REDZONE <= start <= self.bytes.size - size - REDZONE:
            raise OutOfMemoryError(
                f"{size} bytes do not fit in the emulated global memory of {self.bytes.size} bytes: "
                "give the Device, or the EmulatedBackend, a larger memory_bytes"
            )
        insort(self.allocations, Allocation(start, size, internal))
        self.bytes[start : start + size] = POISON
        return GLOBAL_BASE + start

    def _first_room(self, size: int, align: int, skew: int) -> int:
        start = round_up(REDZONE, align) + skew
        for allocation in self.allocations:
            if start + size + REDZONE <= allocation.start:
                break
            start = round_up(allocation.end + REDZONE, align) + skew
        return start

    def _last_room(self, size: int, align: int) -> int:
        end = self.bytes.size - REDZONE
        for allocation in reversed(self.allocations):
            if allocation.end + REDZONE <= (end - size) // align * align:
                break
            end = allocation.start - REDZONE
        return (end - size) // align * align

    def free(self, address: int) -> None:
        """End an allocation. Raises ValueError if none starts at the address."""
        self.allocations.remove(self._starting_at(address))
        self._last = Allocation(0, 0)

    def _starting_at(self, address: int) -> Allocation:
        allocation = self.containing(address - GLOBAL_BASE)
        if allocation is None or allocation.start != address - GLOBAL_BASE:
            raise ArgumentValueError(f"address {address:#x} is not the start of a live allocation")
        return allocation

    def containing(self, offset: int) -> Allocation | None:
        """The live allocation that holds the byte at this offset."""
        index = bisect_right(self.allocations, offset, key=lambda allocation: allocation.start) - 1
        if index < 0 or offset >= self.allocations[index].end:
            return None
        return self.allocations[index]

    def first_outside(self, where: Indices, width: int) -> int | None:
        """The first offset whose `width` bytes are not all in one live allocation; None if there is none."""
        low, high = int(where.min()), int(where.max()) + width
        last = self._last
        if last.start <= low and high <= last.end:
            return None
        owner = self.containing(low)
        if owner is not None and high <= owner.end:
            self._last = owner
            return None
        if not self.allocations:
            return low
        starts = np.array([allocation.start for allocation in self.allocations])
        ends = np.array([allocation.end for allocation in self.allocations])
        flat = np.atleast_1d(where)
        owners = np.searchsorted(starts, flat, "right") - 1
        outside = (owners < 0) | (flat + width > ends[owners])
        return int(flat[outside.argmax()]) if outside.any() else None

    def encloses(self, first: int, last: int) -> bool:
        """Whether two addresses lie in one live allocation."""
        owner = self.containing(first - GLOBAL_BASE)
        return owner is not None and last - GLOBAL_BASE < owner.end

    def describe(self, offset: int) -> str:
        """The position of an offset relative to the user's nearest allocation, in words."""
        if 0 <= GLOBAL_BASE + offset < _NULL_BYTES:
            return f"it is a null pointer{f' and {GLOBAL_BASE + offset} bytes' if GLOBAL_BASE + offset else ''}"
        allocations = [item for item in self.allocations if not item.internal]
        if not allocations:
            return f"there is no live allocation: {WHOSE}"
        nearest = min(allocations, key=lambda item: max(item.start - offset, offset - item.end + 1))
        if max(nearest.start - offset, offset - nearest.end) > _FAR:
            return f"it is far from every allocation, so no index into one: {WHOSE}"
        if offset < nearest.start:
            relation = f"{_bytes(nearest.start - offset)} before"
        elif offset >= nearest.end:
            relation = f"{_bytes(offset - nearest.end)} past the end of"
        else:
            relation = f"{_bytes(nearest.end - offset)} before the end of"
        return f"it is {relation} the allocation of {_bytes(nearest.size)} at {GLOBAL_BASE + nearest.start:#x}"

    def slice(self, address: int, size: int) -> Bytes:
        """The bytes at an address, as a view. Raises ValueError if they are not in one live allocation."""
        offset = address - GLOBAL_BASE
        allocation = self.containing(offset)
        if allocation is None or offset + size > allocation.end:
            raise ArgumentValueError(
                f"address {address:#x} is out of bounds for {_bytes(size)}: {self.describe(offset)}"
            )
        return self.bytes[offset : offset + size]


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"
