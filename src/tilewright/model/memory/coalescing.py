"""Coalescing: the sectors and lines of GMEM that a warp's addresses touch.

GMEM comes in sectors of 32 bytes, four of which make a line of the caches. An access brings every sector that a lane
touches, whole and once. So the cost of an access is its number of sectors, wherever in them its bytes lie. Source: CUDA
C++ Best Practices Guide, "Coalesced Access to Global Memory"; the emulator counts by the same function, and its counts
were compared with an H200's counters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import Indices, warp_addresses

LINE_BYTES = 128
"""A line of L1 and of L2: what one tag stands for."""


@dataclass(frozen=True, slots=True)
class Coalescing:
    """What one access of a warp asks of GMEM.

    lanes: those with an address. useful_bytes: different bytes that lanes want. sectors: the numbers of those touched,
    in order; sector s is bytes 32 s to 32 s + 31. ideal_sectors: what as many contiguous bytes would touch.
    """

    lanes: int
    useful_bytes: int
    sectors: tuple[int, ...]
    ideal_sectors: int

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the lines touched, in order; each needs a look at the tags."""
        return tuple(sorted({sector * SECTOR_BYTES // LINE_BYTES for sector in self.sectors}))

    @property
    def moved_bytes(self) -> int:
        """Bytes that come and go, in whole sectors."""
        return len(self.sectors) * SECTOR_BYTES

    @property
    def efficiency(self) -> float:
        """The share of the moved bytes that a lane wants."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "lanes": self.lanes,
            "sectors": len(self.sectors),
            "lines": len(self.lines),
            "ideal_sectors": self.ideal_sectors,
            "useful_bytes": self.useful_bytes,
            "moved_bytes": self.moved_bytes,
            "efficiency": self.efficiency,
            "sectors_of_lines": {
                line: [sector % 4 for sector in self.sectors if sector // 4 == line] for line in self.lines
            },
        }


def coalescing(addresses: Sequence[int | None] | Indices, width: int = 4) -> Coalescing:
    """What one access of `width` bytes by a warp asks of GMEM; addresses and errors are those of `warp_addresses`."""
    places = warp_addresses(addresses, width)
    used = places[places >= 0]
    sectors = np.unique(used // SECTOR_BYTES)  # no access of up to 16 aligned bytes touches two
    useful = np.unique(used).size * width
    ideal = -(-useful // SECTOR_BYTES)
    return Coalescing(used.size, useful, tuple(map(int, sectors)), ideal)


def pieces_touched(offsets: Indices, width: int, unit: int) -> Indices:
    """The number of `unit`-byte pieces that are touched, for each row of offsets (-1 for none).

    Accesses wider than that, of whole tensor maps, begin at multiples of it.
    """
    each = max(1, width // unit)
    pieces = np.repeat(offsets // unit, each, axis=1) + np.tile(np.arange(each), offsets.shape[1])
    ordered = np.sort(np.where(np.repeat(offsets < 0, each, axis=1), -1, pieces), axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    result: Indices = new.sum(axis=1)
    return result
