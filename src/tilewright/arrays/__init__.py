"""Arrays of any library (NumPy, torch, CuPy, JAX, DLPack, `__cuda_array_interface__`) as Operands, without copying.

Each library is a module; `library.py` lists what it must provide. Libraries are never imported here: one is used once
the caller has imported it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.arrays.cuda_interface import CUDA_INTERFACE
from tilewright.arrays.cupy import CUPY
from tilewright.arrays.dlpack import DLPACK
from tilewright.arrays.jax import JAX
from tilewright.arrays.library import Library, refuse_null
from tilewright.arrays.numpy import NUMPY, NUMPY_SUBCLASSES
from tilewright.arrays.torch import TORCH
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.operand import Operand, Signature

_BY_TYPE: dict[type, Library] = {}
_DESCRIBED: dict[type, Callable[[Any, str], tuple[Signature, int]]] = {}
"""The `describe` functions of the types met so far, bound once, since they run for each array of each call.

An array that only has an interface is asked anew each time.
"""


def library_of(array: Any, argument: str) -> Library:
    """The library of an array, or an ArgumentTypeError that names `argument`."""
    return _BY_TYPE.get(type(array)) or _found(array, argument)


def _found(array: Any, argument: str) -> Library:
    for library in (NUMPY, TORCH, NUMPY_SUBCLASSES, CUPY, JAX):
        if library.has(array):
            _BY_TYPE[type(array)] = library
            _DESCRIBED[type(array)] = library.describe
            return library
    if not isinstance(array, type):  # a class has the attributes of its arrays
        for interface in (CUDA_INTERFACE, DLPACK):
            if interface.has(array):
                return interface
    if isinstance(array, int | float | np.generic):
        lack, remedy = "is a number", "an array of it, which numpy.array(number, dtype) makes"
    else:
        lack = "exports no array interface"
        remedy = "a NumPy, torch, CuPy or JAX array, or anything with __dlpack__ or __cuda_array_interface__"
    raise ArgumentTypeError(f"{argument} is a {type(array).__name__}, which {lack}: pass {remedy}")


def adopt(array: Any, argument: str, pointer: int | None = None) -> Operand:
    """The Operand of an array, or an ArgumentTypeError or ArgumentValueError that names `argument`.

    pointer: the array's address, if `describe` has read it.
    """
    library = library_of(array, argument)
    operand = library.adopt(array, argument) if pointer is None else library.adopt_at(pointer, array, argument)
    refuse_null(operand.pointer, operand.shape, argument)
    if operand.pointer % operand.dtype.nbytes:
        raise ArgumentValueError(
            f"{argument} has address {operand.pointer:#x}, which is not a multiple of its {operand.dtype.nbytes}-byte "
            f"elements: copy it first"
        )
    return operand


def describe(array: Any, argument: str) -> tuple[Signature, int]:
    """Signature and address of an array, read with the least work that its library allows; errors name `argument`."""
    signature, pointer = (_DESCRIBED.get(type(array)) or _found(array, argument).describe)(array, argument)
    if not pointer:
        refuse_null(pointer, signature[1], argument)
    return signature, pointer


def is_torch(array: Any) -> bool:
    """Whether `array` is a torch tensor."""
    return TORCH.has(array)


__all__ = ["Library", "adopt", "describe", "is_torch", "library_of"]
