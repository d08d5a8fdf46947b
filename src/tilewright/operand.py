"""Adopt any array (NumPy, torch, CuPy, JAX, DLPack, `__cuda_array_interface__`) as an Operand, without copying."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError

HOST = -1
"""The device number of arrays in host memory; GPUs count from 0."""

Signature: TypeAlias = tuple[object, tuple[int, ...], tuple[int, ...], int, bool]
"""What decides, besides alignment, which plan an array needs: dtype object, shape, strides, device, writability."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One array as the kernels see it.

    `strides` count elements; `pointer` is the address of element 0; `device` is `HOST` or a GPU's number;
    `owner` keeps the memory alive.
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
        """Largest power of two, at most 16, that divides the address."""
        return min(self.pointer & -self.pointer, 16) if self.pointer else 16

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
        dims = sorted((abs(s), extent) for s, extent in zip(self.strides, self.shape, strict=True) if extent > 1)
        reach = 0
        for stride, extent in dims:
            if stride <= reach:
                break
            reach += stride * (extent - 1)
        else:
            return False
        if any(stride == 0 for stride, _ in dims):
            return True
        offsets = np.zeros(1, np.int64)
        for stride, extent in dims:
            offsets = (offsets[:, None] + np.arange(extent) * stride).ravel()
        return len(np.unique(offsets)) != len(offsets)


def byte_range(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> tuple[int, int]:
    """The half-open range of addresses of a strided array (strides in elements)."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride > 0:
            high += (extent - 1) * stride
        else:
            low += (extent - 1) * stride
    return pointer + low * nbytes, pointer + (high + 1) * nbytes


class _Addresses:
    """Shows NumPy where an operand's elements lie; nobody reads through it."""

    def __init__(self, operand: Operand):
        self.__array_interface__ = {
            "data": (operand.pointer, True),
            "shape": operand.shape,
            "strides": tuple(s * operand.dtype.nbytes for s in operand.strides),
            "typestr": f"|V{operand.dtype.nbytes}",
            "version": 3,
        }


def is_torch(array: Any) -> bool:
    """Whether `array` is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def describe(array: Any, argument: str) -> tuple[Signature, int]:
    """Signature and address of an array, read with the least work that its library allows; errors name `argument`."""
    if is_torch(array):
        return _describe_torch(array, argument)
    if type(array) is np.ndarray:
        return (array.dtype, array.shape, array.strides, HOST, array.flags.writeable), array.ctypes.data
    operand = adopt(array, argument)
    return (operand.dtype, operand.shape, operand.strides, operand.device, operand.writable), operand.pointer


def _describe_torch(tensor: Any, argument: str) -> tuple[Signature, int]:
    if tensor.requires_grad or tensor.is_neg():
        adopt(tensor, argument)  # raises, unless gradients are off
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device(), True), tensor.data_ptr()


def adopt(array: Any, argument: str) -> Operand:
    """The Operand of an array, or a TypeError/ValueError that names `argument`."""
    operand = _adopted(array, argument)
    if operand.pointer % operand.dtype.nbytes:
        raise ArgumentValueError(
            f"{argument} has address {operand.pointer:#x}, which is no multiple of its {operand.dtype.nbytes}-byte "
            f"elements: copy it first"
        )
    return operand


def _adopted(array: Any, argument: str) -> Operand:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _from_torch(torch, array, argument)
    if isinstance(array, np.ndarray):
        return _from_numpy(array, argument)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_cuda_array_interface(array, argument)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, argument)
    raise ArgumentTypeError(
        f"{argument} is a {type(array).__name__}, which exports no array interface: pass a NumPy, torch, CuPy or JAX "
        f"array, or anything with __dlpack__ or __cuda_array_interface__"
    )


def _from_torch(torch: Any, tensor: Any, argument: str) -> Operand:
    if tensor.layout != torch.strided:
        raise ArgumentTypeError(
            f"{argument} has layout {tensor.layout}: tilewright takes strided tensors; call .to_dense() first"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise UnsupportedError(
            f"{argument} requires grad and tilewright has no autograd yet: pass {argument}.detach(), "
            f"or call under torch.no_grad()"
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise ArgumentValueError(
            f"{argument} is on device {tensor.device}: tilewright runs on CUDA GPUs and on the CPU"
        )
    if tensor.is_neg() or tensor.is_conj():
        raise ArgumentValueError(
            f"{argument} is a lazily negated or conjugated view, whose memory holds other values: call .resolve_neg() "
            f"or .resolve_conj() first"
        )
    dtype = dtypes.parse(tensor.dtype, f"{argument}.dtype")
    device = tensor.get_device()
    return Operand(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), dtype, device, True, tensor)


def _from_numpy(array: "np.ndarray[Any, Any]", argument: str) -> Operand:
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{argument} is a masked array, which tilewright does not multiply: fill the mask first"
        )
    if not array.dtype.isnative:
        raise ArgumentTypeError(
            f"{argument}.dtype={array.dtype} is byte-swapped: convert it with .astype(dtype.newbyteorder('='))"
        )
    dtype = dtypes.parse(array.dtype, f"{argument}.dtype")
    strides = _in_elements(array.strides, dtype, argument)
    return Operand(array.ctypes.data, array.shape, strides, dtype, HOST, array.flags.writeable, array)


def _from_cuda_array_interface(array: Any, argument: str) -> Operand:
    interface = array.__cuda_array_interface__
    pointer, read_only = interface["data"]
    shape = tuple(interface["shape"])
    # Type strings know no bf16 ("<V2"): the array's own dtype does.
    named = np.dtype(interface["typestr"])
    if not named.isnative:
        raise ArgumentTypeError(f"{argument}.dtype={named} is byte-swapped: convert it first")
    dtype = dtypes.parse(getattr(array, "dtype", named), f"{argument}.dtype")
    if interface.get("strides") is None:
        strides = contiguous_strides(shape)
    else:
        strides = _in_elements(tuple(interface["strides"]), dtype, argument)
    if interface.get("mask") is not None:
        raise ArgumentTypeError(
            f"{argument} is a masked array, which tilewright does not multiply: fill the mask first"
        )
    device = getattr(getattr(array, "device", None), "id", None)
    return Operand(
        pointer,
        shape,
        strides,
        dtype,
        _device_of(pointer, argument) if device is None else int(device),
        not read_only,
        array,
    )


_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost


def _from_dlpack(array: Any, argument: str) -> Operand:
    from cuda.core.utils import StridedMemoryView  # imported late: most callers never need it

    on_gpu = array.__dlpack_device__()[0] not in _DLPACK_HOST
    try:
        # On a GPU the array's library makes the legacy default stream wait for it: that is where we launch.
        view = StridedMemoryView.from_dlpack(array, stream_ptr=1 if on_gpu else -1)
    except (BufferError, NotImplementedError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"{argument} could not be shared through DLPack ({error}): pass a strided array"
        ) from error
    dtype = dtypes.parse(view.dtype, f"{argument}.dtype")
    shape = tuple(view.shape)
    strides = contiguous_strides(shape) if view.strides is None else tuple(view.strides)
    device = int(view.device_id) if view.is_device_accessible else HOST
    return Operand(int(view.ptr), shape, strides, dtype, device, not view.readonly, (array, view))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def _in_elements(strides: tuple[int, ...], dtype: DType, argument: str) -> tuple[int, ...]:
    if any(stride % dtype.nbytes for stride in strides):
        raise ArgumentValueError(
            f"{argument} has strides of {strides} bytes, which are no multiples of its {dtype.nbytes}-byte elements: "
            f"copy it first"
        )
    return tuple(stride // dtype.nbytes for stride in strides)


def _device_of(pointer: int, argument: str) -> int:
    from cuda.bindings import driver

    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, ordinal = driver.cuPointerGetAttribute(attribute, pointer)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ArgumentValueError(
            f"{argument} has address {pointer:#x}, which the CUDA driver does not know: is it freed?"
        )
    return int(ordinal)


def torch_stream() -> Callable[[int], int]:
    """What tells torch's current stream on a device, as a CUstream handle."""
    torch = sys.modules["torch"]
    # Torch's own raw query costs a tenth of building a Stream object; it is what Triton and inductor use.
    raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


def stream_reader(owner: Any, device: int) -> Callable[[Any, int], int]:
    """A function of (array, device) that says which stream the array's library would launch on now.

    The stream is a CUstream handle; 0 is the default stream.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if device == HOST:
        return lambda array, device: 0
    if torch is not None and isinstance(owner, torch.Tensor):
        of_device = torch_stream()
        return lambda array, device: of_device(device)
    if cupy is not None and isinstance(owner, cupy.ndarray):
        return lambda array, device: int(cupy.cuda.get_current_stream(device).ptr)
    return _stream_of_interface


def _stream_of_interface(array: Any, device: int) -> int:
    interface = getattr(array, "__cuda_array_interface__", None)
    stream = interface.get("stream") if interface else None
    return int(stream) if stream else 0


def written(array: Any) -> Callable[[tuple[Any]], None] | None:
    """What must be told, after a kernel wrote to an array like this, for its library's bookkeeping; usually nothing.

    torch counts a tensor's versions, so that autograd notices when what it saved was overwritten. The function takes
    the array in a tuple.
    """
    if not is_torch(array):
        return None
    torch = sys.modules["torch"]
    try:
        increment: Callable[[tuple[Any]], None] = torch._C._increment_version
        increment((torch.empty(0),))  # the public function is a slow wrapper of this
        return increment
    except (AttributeError, TypeError):
        return lambda only: torch.autograd.graph.increment_version(only[0])


def on_stream(array: Any, stream: int, device: int) -> AbstractContextManager[Any]:
    """A context in which the array's library allocates for `stream`, so that memory is not reused under its work."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if device == HOST:
        return nullcontext()
    if torch is not None and isinstance(array, torch.Tensor):
        context: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))
        return context
    return nullcontext() if cupy is None else cupy.cuda.ExternalStream(stream, device)


def addresser(array: Any) -> Callable[[Any], int]:
    """What reads the address of arrays of this array's library."""
    if is_torch(array):
        return methodcaller("data_ptr")
    return lambda array: describe(array, "out")[1]


def allocator(array: Any, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
    """A function that makes uninitialised row-major arrays of the library and on the device of `array`."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(array, torch.Tensor):
        torch_dtype = getattr(torch, dtype.torch.removeprefix("torch."))
        # One element seen as the whole shape: empty_like takes half the time of naming shape, dtype and device.
        template = torch.empty((), dtype=torch_dtype, device=array.device).expand(shape)
        return partial(torch.empty_like, template, memory_format=torch.contiguous_format)
    if device == HOST:
        return partial(np.empty, shape, dtype.numpy_dtype)
    if cupy is not None:

        def empty() -> Any:
            with cupy.cuda.Device(device):
                return cupy.empty(shape, dtype.numpy_dtype)

        return empty
    library = type(array).__name__  # not the array: plans outlive it

    def refuse() -> Any:
        raise ArgumentTypeError(
            f"a is a {library} on GPU {device}, for which tilewright cannot allocate the result: pass "
            f"out=, or install CuPy"
        )

    return refuse
