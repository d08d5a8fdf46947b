"""DLPack's description of an array, read and changed in place. Source: dlpack.h of DLPack 1.0."""

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tilewright.emulator.semantics.elements import element_dtype
from tilewright.errors import ArgumentTypeError
from tilewright.reference import Array

ON_GPU, ON_HOST = 2, (1, 3)
"""kDLCUDA; kDLCPU and kDLCUDAHost"""
KINDS = {0: "int", 1: "uint", 2: "float", 6: "bool", 5: "complex"}
"""NumPy's names of DLDataTypeCode."""
NARROW = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}
"""Code and bits of the types that ml_dtypes adds to NumPy, which does not export them."""


class DLTensor(ctypes.Structure):
    """DLTensor, with which DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def tensor_of(capsule: Any) -> DLTensor:
    """The description in a capsule, whether or not it has been consumed."""
    address = _pointer_of(capsule, _name_of(capsule))
    assert address is not None
    return DLTensor.from_address(address)


def memory_of(capsule: Any, label: str) -> Array:
    """The array that a capsule describes, sharing its memory.

    Raises an ArgumentTypeError for memory on a GPU, and for unknown elements.
    """
    tensor = tensor_of(capsule)
    if tensor.device_type not in ON_HOST:
        raise ArgumentTypeError(f"{label} is a tensor on a GPU: pass one on the CPU, since the emulator works there")
    shape = tuple(tensor.shape[: tensor.ndim])
    nbytes = tensor.bits * tensor.lanes // 8
    narrow = [name for name, kind in NARROW.items() if kind == (tensor.code, tensor.bits)]
    if narrow and tensor.lanes == 1:
        dtype = element_dtype(narrow[0])
    elif tensor.code in KINDS and tensor.lanes == 1 and tensor.bits >= 8:
        dtype = np.dtype(KINDS[tensor.code] + (str(tensor.bits) if tensor.code != 6 else ""))
    elif nbytes and tensor.bits % 8 == 0:
        dtype = np.dtype(f"V{nbytes}")
    else:
        raise ArgumentTypeError(f"{label} has elements of {tensor.bits} bits: pass the bytes that hold them")
    strides = (
        tensor.strides[: tensor.ndim] if tensor.strides else [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    )
    if not prod(shape):
        return np.empty(shape, dtype)
    reach = [(extent - 1) * stride * nbytes for extent, stride in zip(shape, strides, strict=True)]
    low, high = (sum(bound(part, 0) for part in reach) for bound in (min, max))
    assert tensor.data is not None
    memory = (ctypes.c_uint8 * (high - low + nbytes)).from_address(tensor.data + tensor.byte_offset + low)
    return np.ndarray(shape, dtype, memory, -low, [stride * nbytes for stride in strides])


class Exported:
    """A NumPy array for DLPack, also one of elements that NumPy does not export."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        """The capsule."""
        kind = NARROW.get(self._array.dtype.name)
        if kind is None:
            return self._array.__dlpack__()
        capsule = self._array.view(f"u{self._array.itemsize}").__dlpack__()
        tensor = tensor_of(capsule)
        tensor.code, tensor.bits = kind
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host."""
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device


@contextmanager
def as_if_on_gpu(capsules: Iterable[Any]) -> Iterator[None]:
    """Within this context, the capsules say that their memory is on a GPU."""
    before = [(tensor, tensor.device_type) for tensor in map(tensor_of, capsules)]
    try:
        for tensor, _ in before:
            tensor.device_type = ON_GPU
        yield
    finally:
        for tensor, device in before:
            tensor.device_type = device
