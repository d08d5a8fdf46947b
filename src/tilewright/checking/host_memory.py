"""The caller's arrays as the memory of a launch, and back: NumPy arrays, and torch tensors on the CPU."""

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from tilewright.backends.protocol import merge_ranges
from tilewright.checking.arguments import Arguments, Buffer, HostMap, Item, Pointer, Structure, TensorMapOf
from tilewright.checking.runs import Results
from tilewright.checking.structures import Struct, filled, places_of
from tilewright.emulator.semantics.elements import NARROW, element_dtype
from tilewright.emulator.semantics.tensor_map import TensorMap as EncodedMap
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.operand import byte_range
from tilewright.reference import Array
from tilewright.rounding import integers, natural

KernelArgument: TypeAlias = "Array | TensorMap | Struct | int | float | bytes | np.generic | ctypes.Structure | None"
"""What a parameter of a kernel takes; a torch tensor on the CPU counts as an array."""

ALIGNMENT = 16
"""The widest access of a thread in bytes; host allocations begin at multiples of it, as those of a device do."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorMap:
    """A kernel argument: the TMA descriptor of an array, by the rules of cuTensorMapEncodeTiled.

    array: a NumPy array or a torch tensor on the CPU, of 1 to 5 dimensions; the last one has a stride of one element.
    box, element_strides: elements along each dimension, in the order of the array's dimensions.
    swizzle: span in bytes, 0, 32, 64 or 128.
    oob_fill: the value that loads put where the box leaves the array.
    dtype: the elements' type by its PTX name, such as "tf32"; by default the array's.
    """

    array: Any
    box: Sequence[int]
    swizzle: int = 0
    element_strides: Sequence[int] | None = None
    oob_fill: Literal["zeros", "nan"] = "zeros"
    dtype: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HostBuffer:
    """The memory of overlapping arrays of the caller.

    contents: one of the arrays if it spans all of it, else bytes.
    skew: the address modulo ALIGNMENT, which the device keeps: compilers choose the width of accesses by it.
    """

    contents: Array
    writable: bool
    skew: int

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays span."""
        return self.contents.nbytes

    def array(self, rng: np.random.Generator) -> Array:
        """The contents of the caller's memory."""
        return self.contents


@dataclass(frozen=True, slots=True)
class ByValue:
    """A kernel argument: the bytes of a parameter, in which addresses of host memory stand for those on the device.

    maps: the TMA descriptors among them by their offsets, with such addresses too.
    """

    data: bytes
    maps: Mapping[int, EncodedMap] = field(default_factory=dict)


def arguments_of(
    given: Sequence[Any], labels: Sequence[str] | None = None, memory: Mapping[str, Array] | None = None
) -> Arguments:
    """The caller's arguments, and the memory that their arrays span.

    labels: their names in messages and reports, each once.
    memory: further arrays by name, to which parameters passed by value may point.

    Raises:
        ArgumentTypeError, ArgumentValueError: naming the argument that is none of KernelArgument.
    """
    labels = [f"arguments[{number}]" for number in range(len(given))] if labels is None else list(labels)
    structs = {
        label: dict(places_of(label, argument))
        for label, argument in zip(labels, given, strict=True)
        if isinstance(argument, Struct)
    }
    values = dict(zip(labels, given, strict=True))
    values |= {name: place.value for places in structs.values() for name, place in places.items()}
    host = _HostMemory.of(dict(memory or {}) | dict(_arrays_in(values)))
    items: list[Item] = []
    for label, argument in zip(labels, given, strict=True):
        if isinstance(argument, Struct):
            parts = {name: (place, host.item(name, place.value)) for name, place in structs[label].items()}
            items.append(filled(label, argument, parts))
        else:
            items.append(host.item(label, argument))
    used = {name for item in items for name in _buffers_of(item)}
    return Arguments({name: host.buffer(name) for name in host.regions if name in used}, items, labels)


def _arrays_in(values: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """The arrays among values, and those of tensor maps."""
    for label, value in values.items():
        array = host_array(value.array if isinstance(value, TensorMap) else value, label)
        if array is not None:
            yield label, array
        elif isinstance(value, TensorMap):
            raise ArgumentTypeError(
                f"{label} is a TensorMap of a {type(value.array).__name__}: pass one of a NumPy array"
            )


@dataclass(frozen=True, slots=True)
class _HostMemory:
    """The caller's arrays by their labels, and the memory that they span.

    regions: the half-open ranges of addresses, each of one array or of several that overlap; by the label of one.
    places: of each array that has elements, the region and the offset.
    """

    arrays: Mapping[str, Array]
    regions: Mapping[str, tuple[int, int]]
    places: Mapping[str, Pointer]

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "_HostMemory":
        """The memory of these arrays."""
        spans = {label: span_of(array) for label, array in arrays.items()}
        regions: dict[str, tuple[int, int]] = {}
        places: dict[str, Pointer] = {}
        for low, high in merge_ranges(spans.values()):
            inside = [label for label, span in spans.items() if low <= span[0] < span[1] <= high]
            regions[inside[0]] = low, high
            places |= {label: Pointer(inside[0], arrays[label].ctypes.data - low) for label in inside}
        return cls(arrays, regions, places)

    def item(self, label: str, argument: Any) -> Item:
        """The argument of that label."""
        if isinstance(argument, TensorMap):
            return _tensor_map(label, argument, self.arrays[label], self.places.get(label))
        if isinstance(argument, ByValue):
            return self._translated(argument)
        if label in self.arrays:
            return self.places.get(label) or Pointer(None)  # an empty array has no address
        return _item(label, argument)

    def _translated(self, argument: ByValue) -> Structure:
        """The parameter of these bytes; what lies in a region is an address there."""
        data, maps = argument.data, argument.maps
        parts: dict[int, Pointer | TensorMapOf | HostMap] = {}
        for offset in range(0, len(data) - 7, 8):
            word = maps[offset].address if offset in maps else int.from_bytes(data[offset : offset + 8], "little")
            for name, (low, high) in self.regions.items():
                if low <= word < high:
                    pointer = Pointer(name, word - low)
                    parts[offset] = HostMap(maps[offset], pointer) if offset in maps else pointer
        return Structure(data, parts)

    def buffer(self, name: str) -> Buffer:
        """The memory of a region."""
        return _buffer(
            *self.regions[name], [self.arrays[label] for label, at in self.places.items() if at.buffer == name]
        )


def _buffers_of(item: Item) -> Iterator[str]:
    """The names of the buffers that an argument points to."""
    for part in item.parts.values() if isinstance(item, Structure) else [item]:
        if isinstance(part, Pointer | TensorMapOf | HostMap) and part.buffer is not None:
            yield part.buffer


def host_array(argument: Any, label: str) -> Array | None:
    """A NumPy array, or a torch tensor on the CPU as one that shares its memory; None for anything else.

    Raises:
        ArgumentTypeError: for arrays of objects, and for tensors elsewhere than on the CPU.
    """
    if isinstance(argument, np.ndarray):
        if argument.dtype.hasobject:
            raise ArgumentTypeError(f"{label} is an array of {argument.dtype}: pass one of numbers or structures")
        return argument
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(argument, torch.Tensor):
        return _of_torch(argument, label)
    if hasattr(argument, "__cuda_array_interface__"):
        raise _on_gpu(label, type(argument).__name__, "cupy.asnumpy() copies a CuPy array")
    return None


def _of_torch(tensor: Any, label: str) -> Array:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise _on_gpu(label, f"tensor on {tensor.device}", ".cpu() copies it")
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        raise ArgumentTypeError(f"{label} is a tensor that is not plain memory: make it so with .to_dense().clone()")
    name = str(tensor.dtype).removeprefix("torch.")
    if name in NARROW.values():
        bits = tensor.detach().view({1: torch.uint8, 2: torch.int16}[tensor.itemsize])
        array: Array = bits.numpy().view(element_dtype(name))
        return array
    try:
        plain: Array = tensor.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(f"{label} is a tensor of {tensor.dtype}, which NumPy does not hold: {error}") from error
    return plain


def _on_gpu(label: str, what: str, remedy: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{label} is a {what}: pass a NumPy array or a tensor on the CPU, since the emulator works there ({remedy})"
    )


def _item(label: str, argument: Any) -> Item:
    if argument is None:
        return Pointer(None)
    if isinstance(argument, ctypes.Structure):
        return bytes(argument)
    if isinstance(argument, int | float | bytes | np.generic):
        return argument
    raise ArgumentTypeError(
        f"{label} is a {type(argument).__name__}: pass a NumPy array, a torch tensor on the CPU, a number, a NumPy "
        f"scalar, bytes, a TensorMap, a Struct, a ctypes.Structure, or None for a null pointer"
    )


def _tensor_map(label: str, wanted: TensorMap, array: Array, place: Pointer | None) -> TensorMapOf:
    if place is None or place.buffer is None or not array.ndim or array.strides[-1] != array.itemsize:
        raise ArgumentValueError(
            f"{label} is a TensorMap of an array with shape {array.shape} and strides of {array.strides} bytes: "
            f"it must have elements, the last dimension's next to each other; pass a contiguous array"
        )
    if wanted.oob_fill not in ("zeros", "nan"):
        raise ArgumentValueError(f"{label}: oob_fill={wanted.oob_fill!r} must be 'zeros' or 'nan'")
    return TensorMapOf(
        label,
        place.buffer,
        wanted.dtype or array.dtype,
        array.shape,
        array.strides,
        _sizes(f"{label}: box", wanted.box),
        natural(f"{label}: swizzle", wanted.swizzle),
        place.offset,
        None if wanted.element_strides is None else _sizes(f"{label}: element_strides", wanted.element_strides),
        wanted.oob_fill == "nan",
    )


def _sizes(name: str, value: object) -> tuple[int, ...]:
    sizes = integers(value)
    if not sizes:
        raise ArgumentValueError(f"{name}={value!r} must be integers, one for each dimension of the array")
    return sizes


def span_of(array: Array) -> tuple[int, int]:
    """The half-open range of addresses of an array's elements."""
    low, high = byte_range(array.ctypes.data, array.shape, array.strides, 1)
    return (low, high - 1 + array.itemsize) if high > low else (low, low)


def _buffer(low: int, high: int, arrays: Sequence[Array]) -> HostBuffer:
    writable = any(array.flags.writeable for array in arrays)
    for array in arrays:
        if array.flags.c_contiguous and array.nbytes == high - low and (array.flags.writeable or not writable):
            return HostBuffer(array, writable, low % ALIGNMENT)
    memory = (ctypes.c_uint8 * (high - low)).from_address(low)
    return HostBuffer(np.ctypeslib.as_array(memory), writable, low % ALIGNMENT)


def write_back(arguments: Arguments, results: Results) -> None:
    """Copy the results of a run into the caller's arrays, where arguments are of them."""
    changed = {}
    for name, result in results.items():
        buffer = arguments.buffers[name]
        if not isinstance(buffer, HostBuffer):
            continue
        if result.tobytes() != buffer.contents.tobytes():
            changed[name] = (buffer, result)
    for name, (buffer, _) in changed.items():
        if not buffer.writable:
            raise ArgumentValueError(f"{name} is read-only and the kernel writes to it: pass a writable array")
    for buffer, result in changed.values():
        buffer.contents[...] = result
