"""NumPy: arrays in host memory."""

from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.arrays.library import Library, imported, strides_in_elements
from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeError
from tilewright.operand import HOST, Operand, Signature


class NumpySubclasses(Library):
    """Subclasses of NumPy's array; their attributes may be anything."""

    def __init__(self) -> None:
        self._dtypes: dict[np.dtype[Any], DType] = {}  # parsing one takes longer than the rest of `adopt`

    def has(self, array: Any) -> bool:
        """Whether the object is an array or of a subclass."""
        return isinstance(array, np.ndarray)

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand of an array; refuses masked and byte-swapped ones."""
        return self.adopt_at(array.ctypes.data, array, argument)

    def adopt_at(self, pointer: int, array: Any, argument: str) -> Operand:
        """The same of an array whose address is known."""
        if isinstance(array, imported("numpy.ma", "MaskedArray")):  # np.ma would import it
            raise ArgumentTypeError(
                f"{argument} is a masked array, which tilewright does not multiply: fill the mask first"
            )
        kind = array.dtype
        if not kind.isnative:
            raise ArgumentTypeError(
                f"{argument}.dtype={kind} is byte-swapped: convert it with .astype(dtype.newbyteorder('='))"
            )
        dtype = self._dtypes.get(kind)
        if dtype is None:
            dtype = self._dtypes[kind] = dtypes.parse(kind, f"{argument}.dtype")
        strides = strides_in_elements(array.shape, array.strides, dtype, argument)
        return Operand(pointer, array.shape, strides, dtype, HOST, array.flags.writeable, array)


class NumpyLibrary(NumpySubclasses):
    """NumPy, without subclasses of its array."""

    def has(self, array: Any) -> bool:
        """Whether the object is an array, and not of a subclass."""
        return type(array) is np.ndarray

    def describe(self, array: Any, argument: str) -> tuple[Signature, int]:
        """Signature and address of an array."""
        return (array.dtype, array.shape, array.strides, HOST, array.flags.writeable), array.ctypes.data


NUMPY, NUMPY_SUBCLASSES = NumpyLibrary(), NumpySubclasses()
