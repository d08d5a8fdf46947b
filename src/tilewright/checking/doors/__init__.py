"""The front doors of `tilewright.check`: kernels of each compiler, as launches in the emulator.

Each compiler is a module; `door.py` lists what it must provide. No compiler is imported here unless the caller's kernel
comes from it.
"""

from tilewright.checking.doors.cuda import CUDA
from tilewright.checking.doors.cuda_core import CUDA_CORE
from tilewright.checking.doors.cupy import CUPY
from tilewright.checking.doors.cute import CUTE
from tilewright.checking.doors.door import Call, Door
from tilewright.checking.doors.ptx import PTX
from tilewright.checking.doors.triton import TRITON

DOORS: tuple[Door, ...] = (CUDA, TRITON, CUTE, CUPY, CUDA_CORE)


def door_of(kernel: object) -> Door:
    """The door that takes a kernel; that of PTX if no other does."""
    return next((door for door in DOORS if door.has(kernel)), PTX)


__all__ = ["Call", "Door", "door_of"]
