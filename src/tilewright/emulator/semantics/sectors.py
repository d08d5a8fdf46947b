"""The sectors in which global memory is moved."""

import numpy as np

from tilewright.emulator.lanes import Indices
from tilewright.hardware import SECTOR_BYTES

PIECE_BYTES = 128


def whole_sectors(starts: Indices, nbytes: int | Indices) -> int:
    """Bytes of the sectors that TMA moves for ranges of `nbytes` bytes at these addresses.

    TMA works in pieces of 128 bytes (seen on an H200): a sector shared by two of them is moved with each.
    """
    pieces, rest = np.divmod(nbytes, PIECE_BYTES)
    begun = starts % SECTOR_BYTES
    sectors = pieces * -(-(begun + PIECE_BYTES) // SECTOR_BYTES) + np.where(rest, -(-(begun + rest) // SECTOR_BYTES), 0)
    return SECTOR_BYTES * int(sectors.sum())
