"""Arrays of any library that has `__cuda_array_interface__`."""

import operator
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.arrays.library import Library, default_stream, host_allocator, strides_in_elements
from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnavailableError
from tilewright.operand import HOST, Operand, contiguous_strides


class GpuLibrary(Library):
    """A library whose arrays may be on a GPU, but which cannot make arrays: CuPy makes them if it is there."""

    def stream_reader(self, device: int) -> Callable[[Any, int], int]:
        """The stream that an array's interface names."""
        return default_stream if device == HOST else _stream_of_interface

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """A context in which CuPy's allocator serves the stream."""
        cupy = sys.modules.get("cupy")
        if device == HOST or cupy is None:
            return nullcontext()
        context: AbstractContextManager[Any] = cupy.cuda.ExternalStream(stream, device)
        return context

    def allocator(self, array: Any, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
        """A function that makes NumPy arrays, or on a GPU CuPy arrays; raises an error that names a missing package."""
        if device == HOST:
            return host_allocator(shape, dtype)
        cupy = sys.modules.get("cupy")
        library = type(array).__name__  # only the name: plans outlive the array

        def empty() -> Any:
            if cupy is None:
                raise ArgumentTypeError(
                    f"a is a {library} on GPU {device}, for which tilewright cannot allocate the result: pass "
                    f"out=, or install CuPy"
                )
            with cupy.cuda.Device(device):
                return cupy.empty(shape, dtype.numpy_dtype)

        return empty


class CudaInterface(GpuLibrary):
    """Any library whose arrays have `__cuda_array_interface__`."""

    def has(self, array: Any) -> bool:
        """Whether the array has the interface."""
        return hasattr(array, "__cuda_array_interface__")

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand that the interface describes; refuses masked and byte-swapped arrays."""
        try:
            interface = array.__cuda_array_interface__
            address, read_only = interface["data"]
            pointer = operator.index(address)
            shape = tuple(map(operator.index, interface["shape"]))
            given, masked = interface.get("strides"), interface.get("mask") is not None
            strides = None if given is None else tuple(map(operator.index, given))
            typestr = str(interface["typestr"])
            # Type strings know no bf16 ("<V2") and no fp8 ("<V1", "<f1"): the array's own dtype does.
            kind = array.dtype if hasattr(array, "dtype") else np.dtype(typestr)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _malformed(argument, repr(error)) from error
        if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
            raise _malformed(argument, f"its shape is {shape}, and its strides are {strides}")
        if typestr.startswith(">"):
            raise ArgumentTypeError(f"{argument}.dtype={typestr} is byte-swapped: convert it first")
        dtype = dtypes.parse(kind, f"{argument}.dtype")
        steps = contiguous_strides(shape) if strides is None else strides_in_elements(shape, strides, dtype, argument)
        if masked:
            raise ArgumentTypeError(
                f"{argument} is a masked array, which tilewright does not multiply: fill the mask first"
            )
        device = getattr(getattr(array, "device", None), "id", None)
        number = _device_of(pointer, argument) if device is None else int(device)
        return Operand(pointer, shape, steps, dtype, number, not read_only, array)


def _malformed(argument: str, why: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{argument}.__cuda_array_interface__ is malformed ({why}): pass an array whose interface has data, shape and "
        "typestr as numbers, tuples of them, and a type string"
    )


def _device_of(pointer: int, argument: str) -> int:
    from cuda.bindings import driver

    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    try:
        status, ordinal = driver.cuPointerGetAttribute(attribute, pointer)
    except RuntimeError:  # there is no driver
        raise UnavailableError(
            f"{argument} is in the memory of a GPU, and no driver is usable here (`tilewright doctor` says why): pass "
            f"an array in host memory"
        ) from None
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ArgumentValueError(
            f"{argument} has address {pointer:#x}, which the CUDA driver does not know: pass an array that is not freed"
        )
    return int(ordinal)


def _stream_of_interface(array: Any, device: int) -> int:
    interface = getattr(array, "__cuda_array_interface__", None)
    stream = interface.get("stream") if interface else None
    return int(stream) if stream else 0


CUDA_INTERFACE = CudaInterface()
