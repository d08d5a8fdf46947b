"""Operands in memory that shows every stray access: NaN around and between the elements of any strided view."""

from dataclasses import dataclass, replace

import numpy as np

from tilewright import dtypes
from tilewright.operand import byte_range
from tilewright.problem import WRITTEN

GUARD = 256
"""Bytes of poison before and behind the elements."""

POISON = 0xFF
"""Fills buffers; repeated it is a NaN in every dtype, which an element read by mistake spreads."""

ALIGNMENT = 16


@dataclass(frozen=True)
class View:
    """How an operand's elements lie: strides in elements (zero and negative ones too).

    `skew` is how many elements the address of element 0 is behind a multiple of 16 bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    skew: int = 0

    @property
    def nbytes(self):
        """Bytes of one element."""
        return dtypes.parse(self.dtype, "dtype").nbytes

    @property
    def byte_strides(self):
        """Strides as NumPy counts them."""
        return tuple(stride * self.nbytes for stride in self.strides)

    @property
    def transposed(self):
        """The same memory with the last two dimensions exchanged; missing ones are put in front first."""
        missing = (0,) * max(0, 2 - len(self.shape))
        shape, strides = (*(1 for _ in missing), *self.shape), missing + self.strides
        swap = lambda values: (*values[:-2], values[-1], values[-2])  # noqa: E731
        return replace(self, shape=swap(shape), strides=swap(strides))


class Buffer:
    """The bytes that hold one view, poisoned: `array` is the view, `start` the offset of its element 0."""

    def __init__(self, view: View):
        self.view = view
        self.dtype = dtypes.parse(view.dtype, "dtype").numpy_dtype
        low, high = byte_range(0, view.shape, view.strides, view.nbytes)
        self.start = GUARD + -(low // ALIGNMENT) * ALIGNMENT + view.skew * view.nbytes
        size = self.start + high + GUARD
        raw = np.full(size + ALIGNMENT, POISON, np.uint8)
        self.bytes = raw[-raw.ctypes.data % ALIGNMENT :][:size]
        self.array = np.ndarray(view.shape, self.dtype, self.bytes, self.start, view.byte_strides)

    def outside(self):
        """Which of the bytes belong to no element."""
        mask = np.ones(len(self.bytes), bool)
        one_byte = (*self.view.shape, self.view.nbytes), (*self.view.byte_strides, 1)
        np.ndarray(one_byte[0], bool, mask, self.start, one_byte[1])[...] = False
        return mask


def require_no_stray_writes(buffers, before):
    """Raise an AssertionError if bytes have changed since `before` that belong to no result; both by operand."""
    for name, buffer in buffers.items():
        stray = stray_writes(buffer, before[name], is_out=name in WRITTEN)
        assert not stray.size, (
            f"{stray.size} bytes of {name}'s memory changed that do not belong to out, the first at {stray[0]}"
        )


def stray_writes(buffer: Buffer, before: "np.ndarray", *, is_out: bool):
    """Offsets from element 0 of the bytes that changed since `before` and had no right to."""
    changed = buffer.bytes != before
    if is_out:
        changed &= buffer.outside()
    return np.flatnonzero(changed) - buffer.start
