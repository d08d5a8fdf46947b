"""The Operand: one array as the kernels see it, from any library."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.dtypes import DType, parse
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rounding import round_up

HOST = -1
"""The device number of arrays in host memory; GPUs count from 0."""

Signature: TypeAlias = tuple[object, tuple[int, ...], tuple[int, ...], int, bool]
"""The properties that decide, with alignment, which plan an array needs: dtype, shape, strides, device, writability."""


class Operand(NamedTuple):
    """One array as the kernels see it.

    `strides` count elements; `pointer` is the address of element 0; `device` is `HOST` or a GPU's number; `owner` keeps
    the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: int
    writable: bool
    owner: Any

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 16, that divides the address."""
        bits = self.pointer | 16
        return bits & -bits

    @property
    def place(self) -> str:
        """Where its memory is, for people."""
        return "the CPU" if self.device == HOST else f"GPU {self.device}"

    def broadcast(self, shape: tuple[int, ...]) -> "Operand | None":
        """As seen with `shape`: missing dimensions in front and extents of 1 get stride 0; None if it does not fit."""
        if self.shape == shape:
            return self
        missing = len(shape) - len(self.shape)
        if missing < 0 or any(x not in (1, y) for x, y in zip(self.shape, shape[missing:], strict=True)):
            return None
        kept = (
            stride if extent == wanted else 0
            for extent, stride, wanted in zip(self.shape, self.strides, shape[missing:], strict=True)
        )
        return self._replace(shape=shape, strides=(0,) * missing + tuple(kept))

    def byte_range(self) -> tuple[int, int]:
        """First and one-past-last address that the elements occupy; empty arrays have an empty range."""
        return byte_range(self.pointer, self.shape, self.strides, self.dtype.nbytes)

    def overlaps(self, other: "Operand") -> bool:
        """Whether the two share an element's memory (exactly: interleaved views do not overlap)."""
        (low, high), (other_low, other_high) = self.byte_range(), other.byte_range()
        if self.device != other.device or high <= other_low or other_high <= low:
            return False
        # Addresses only: NumPy solves the overlap problem without touching the memory.
        return bool(np.shares_memory(np.asarray(_Addresses(self)), np.asarray(_Addresses(other))))

    def overlaps_itself(self) -> bool:
        """Whether two indices name the same memory, as in broadcast views."""
        if 0 in self.shape:
            return False
        dims = sorted([(abs(s), extent) for s, extent in zip(self.strides, self.shape, strict=True) if extent > 1])
        reach = 0
        for stride, extent in dims:
            if stride <= reach:
                break
            reach += stride * (extent - 1)
        else:
            return False
        places = 1 + sum(stride * (extent - 1) for stride, extent in dims)
        if any(stride == 0 for stride, _ in dims) or prod(self.shape) > places:
            return True
        offsets = np.zeros(1, np.int64)
        for stride, extent in dims:
            offsets = (offsets[:, None] + np.arange(extent) * stride).ravel()
        return len(np.unique(offsets)) != len(offsets)


def byte_range(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> tuple[int, int]:
    """The half-open range of addresses of a strided array (strides in elements)."""
    low = high = 0
    for extent, stride in zip(shape, strides):  # noqa: B905 (without `strict` it takes a third less)
        if extent == 0:
            return pointer, pointer
        if stride > 0:
            high += (extent - 1) * stride
        else:
            low += (extent - 1) * stride
    return pointer + low * nbytes, pointer + (high + 1) * nbytes


def values_of(operand: Operand) -> "np.ndarray[Any, Any]":
    """The elements of an operand in host memory, where they are; read-only."""
    array = np.asarray(_Addresses(operand))
    return array.view(operand.dtype.numpy_dtype)


class _Addresses:
    """A view by which NumPy knows the places of an operand's elements."""

    def __init__(self, operand: Operand):
        self.__array_interface__ = {
            "data": (operand.pointer, True),
            "shape": operand.shape,
            "strides": tuple(s * operand.dtype.nbytes for s in operand.strides),
            "typestr": f"|V{operand.dtype.nbytes}",
            "version": 3,
        }


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


APART = 1 << 64
"""Between the addresses of operands that are only imagined, so that none overlap."""

_MOST_BYTES = 1 << 63
"""More than any array has, and no more than half of what lies between two imagined ones."""


@dataclass(frozen=True, slots=True)
class Spec:
    """An array without memory: a shape, an element type and strides in elements. `tilewright.spec` makes it."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]

    def operand(self, place: int, device: int = HOST) -> Operand:
        """An Operand at an imagined address of its own; place: a small number that no other one has."""
        return Operand((place + 1) * APART, self.shape, self.strides, self.dtype, device, True, None)


def spec(shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Spec:
    """An array without memory, for questions about products that nobody has allocated.

    shape: extents. dtype: a name such as "bf16", or any library's dtype. strides: in elements, as torch counts them; by
    default those of a packed row-major array. Raises an ArgumentTypeError or an ArgumentValueError.
    """
    extents = _numbers("shape", shape)
    if any(extent < 0 for extent in extents):
        raise ArgumentValueError(f"shape={extents} has a negative extent: give natural numbers")
    steps = contiguous_strides(extents) if strides is None else _numbers("strides", strides)
    if len(steps) != len(extents):
        raise ArgumentValueError(
            f"strides={steps} are {len(steps)} and shape={extents} has {len(extents)}: give one each"
        )
    element = parse(dtype, "dtype")
    low, high = byte_range(0, extents, steps, element.nbytes)
    if high - low > _MOST_BYTES:
        raise ArgumentValueError(
            f"shape={extents} with strides of {steps} elements of {element} spans {high - low} bytes, and addresses "
            f"reach {_MOST_BYTES}: give smaller extents"
        )
    return Spec(extents, element, steps)


def result(shape: tuple[int, ...], dtype: DType, device: int) -> Operand:
    """A packed operand that has no memory yet: it ends at address 0, before all others."""
    strides = contiguous_strides(shape)
    _, size = byte_range(0, shape, strides, dtype.nbytes)
    return Operand(-round_up(size, 16), shape, strides, dtype, device, True, None)


def _numbers(name: str, values: Sequence[int]) -> tuple[int, ...]:
    """A tuple of ints, of whatever counts as one."""
    try:
        return tuple(map(index, values))
    except TypeError:
        raise ArgumentTypeError(
            f"{name}={values!r} is no sequence of whole numbers: write a tuple, (4096, 128)"
        ) from None
