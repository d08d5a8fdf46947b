"""Multimem addresses: one address for several places of memory.

On a GPU the places belong to several devices. Here they lie in one memory, and the kernel runs on one device: the
others are what the host puts into their places before the launch.

Source: PTX ISA, "multimem.ld_reduce, multimem.st, multimem.red"; CUDA driver API, "Multicast Object Management".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.emulator.memory import GlobalMemory
from tilewright.errors import ArgumentValueError
from tilewright.rounding import round_up

_WINDOW = 0x4000_0000_0000
"""The first multimem address; no other memory has addresses from here to the next window."""
_ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Multicast:
    """Places that one range of multimem addresses stands for; nbytes: the size of each."""

    address: int
    places: tuple[int, ...]
    nbytes: int


class Multicasts:
    """The multimem addresses of a device."""

    def __init__(self, memory: GlobalMemory) -> None:
        self._memory = memory
        self.bound: list[Multicast] = []

    def bind(self, places: Sequence[int], nbytes: int) -> int:
        """The multimem address of ranges of global memory.

        Raises ValueError for ranges outside allocations, or of unequal alignment to 16 bytes.
        """
        if not places or any(place % 16 for place in places):
            raise ArgumentValueError(f"places is {list(places)} and must be addresses that are multiples of 16")
        for place in places:
            self._memory.slice(place, nbytes)
        last = self.bound[-1] if self.bound else Multicast(_WINDOW, (), 0)
        address = round_up(last.address + last.nbytes + 1, _ALIGNMENT)
        self.bound.append(Multicast(address, tuple(places), nbytes))
        return address
