"""The interface of an array library."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import ArgumentValueError
from tilewright.operand import Operand, Signature


def imported(module: str, name: str) -> Any:
    """What an imported module has by this name, such as a class; else (), also while another thread imports it.

    isinstance(array, ()) is False.
    """
    return getattr(sys.modules.get(module), name, ())


class Library:
    """An array library: it turns its arrays into Operands and makes new arrays.

    The methods here suit a library with arrays only in host memory; each may be overridden.
    """

    def has(self, array: Any) -> bool:
        """Whether the array belongs to this library."""
        raise NotImplementedError

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand of an array, or an error that names `argument`."""
        raise NotImplementedError

    def adopt_at(self, pointer: int, array: Any, argument: str) -> Operand:
        """The Operand of an array whose address is known, for libraries that are slow to tell it."""
        return self.adopt(array, argument)

    def describe(self, array: Any, argument: str) -> tuple[Signature, int]:
        """Signature and address of an array; errors name `argument`. The array may be one that was never adopted."""
        operand = self.adopt(array, argument)
        return (operand.dtype, operand.shape, operand.strides, operand.device, operand.writable), operand.pointer

    def address(self, array: Any) -> int:
        """The address of a result that `allocator` made."""
        return self.describe(array, "out")[1]

    def stream_reader(self, device: int) -> Callable[[Any, int], int]:
        """A function of (array, device): the CUstream on which the library would launch now; 0 is the default one."""
        return default_stream

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """A context in which memory is allocated for `stream`, so it is not reused under work on it."""
        return nullcontext()

    def allocator(self, array: Any, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
        """A function that makes uninitialized row-major arrays of the library, on the device of `array`."""
        return host_allocator(shape, dtype)

    def written(self) -> Callable[[tuple[Any]], None] | None:
        """A function of a tuple of arrays, called after a kernel has written to them; usually None."""
        return None


def refuse_null(pointer: int, shape: tuple[int, ...], argument: str) -> None:
    """Raise an ArgumentValueError that names `argument` if an array with elements has no memory."""
    if not pointer and 0 not in shape:
        raise without_memory(argument)


def without_memory(argument: str) -> ArgumentValueError:
    """The error for an array with elements and without memory."""
    return ArgumentValueError(
        f"{argument} has no memory: its storage was freed, for example by resize_(0), as sharded training does, or it "
        f"never had any; restore it, or pass another array"
    )


def default_stream(array: Any, device: int) -> int:
    """The default stream, for any array."""
    return 0


def host_allocator(shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
    """A function that makes uninitialized NumPy arrays."""
    kind = dtype.numpy_dtype
    return lambda: np.empty(shape, kind)


def strides_in_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, argument: str
) -> tuple[int, ...]:
    """Strides in bytes as strides in elements, or an ArgumentValueError that names `argument`.

    Strides that no index multiplies, along extents of 0 or 1, may be anything.
    """
    nbytes = dtype.nbytes
    odd = [extent for extent, stride in zip(shape, strides, strict=True) if stride % nbytes and extent > 1]
    if odd and 0 not in shape:
        raise ArgumentValueError(
            f"{argument} has strides of {strides} bytes, which are not multiples of its {nbytes}-byte elements: "
            f"copy it first"
        )
    return tuple([stride // nbytes for stride in strides])
