"""`tilewright.check`: PTX of any compiler, launched in the emulator on NumPy arrays, with every rule checked."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from tilewright.backends.protocol import merge_ranges
from tilewright.checking.arguments import Arguments, Buffer, Item, Pointer, TensorMapOf
from tilewright.checking.asynchrony import asynchronies
from tilewright.checking.launch import Launch, Source
from tilewright.checking.result import CheckResult
from tilewright.checking.runs import Results
from tilewright.checking.wording import PYTHON
from tilewright.emulator.checks.reporting.waivers import Ignored, waivers_of
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.operand import byte_range
from tilewright.reference import Array
from tilewright.rounding import integers, natural

KernelArgument: TypeAlias = "Array | TensorMap | int | float | bytes | np.generic | None"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMap:
    """A kernel argument: the TMA descriptor of a NumPy array, by the rules of cuTensorMapEncodeTiled.

    array: 1 to 5 dimensions; the last one has a stride of one element.
    box, element_strides: elements along each dimension, in the order of the array's dimensions.
    swizzle: span in bytes, 0, 32, 64 or 128.
    oob_fill: the value that loads put where the box leaves the array.
    """

    array: Array
    box: Sequence[int]
    swizzle: int = 0
    element_strides: Sequence[int] | None = None
    oob_fill: Literal["zeros", "nan"] = "zeros"


def check(
    kernel: str | bytes | Path,
    *arguments: KernelArgument,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    cluster: int | Sequence[int] = 1,
    shared_bytes: int = 0,
    entry: str | None = None,
    schedules: int = 2,
    ignore: Ignored = (),
) -> CheckResult:
    """Launch a kernel in the emulator under several orders of asynchronous completion, and report broken rules.

        out = np.empty(256, np.float32)
        result = tw.check(Path("scale.ptx"), out, 2.5, grid=1, block=256)
        assert result.verified, result.reports

    kernel: PTX text, or the path of a file with it.
    arguments: one for each parameter of the kernel. A NumPy array is passed by address, of whatever dtype, shape and
    strides; afterwards it holds the output of the first run that ended. Arrays that overlap do so on the device too, so
    `a[16:]` beside `a` points into it. Accesses outside the arrays are reported. None is a null pointer; numbers take
    the type of their parameter; a structure is bytes or a NumPy scalar; a TMA descriptor is a `TensorMap`.
    grid, cluster: CTAs; block: threads; each a number or up to three, x first.
    shared_bytes: dynamic shared memory of each CTA.
    entry: the kernel's name or a part of it, if the module has several.
    schedules: random orders, besides eager and lazy completion.
    ignore: waivers of reports, KIND, KIND@FILE or KIND@FILE:LINE, such as "race@sum.cu:9"; one or several, or the Path
    of a file with one a line. The result's `waived` lists those that covered anything.

    A launch that takes longer than TILEWRIGHT_EMULATOR_SECONDS ends early: the result's `error` says so.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that do not fit the kernel, and for an array that is
            read-only and written to.
        EmulatorError: for PTX that is wrong or not emulated, and launches that no GPU takes.
    """
    orders = asynchronies(natural("schedules", schedules))
    waivers = waivers_of(ignore, PYTHON.of_value("ignore"))
    if entry is not None and not isinstance(entry, str):
        raise ArgumentTypeError(f"entry={entry!r} is not a name: give the kernel's, or a part of it")
    source = _source(kernel)
    launch = Launch(
        source,
        source.load(entry, PYTHON),
        _arguments(arguments),
        _extents("grid", grid),
        _extents("block", block),
        _extents("cluster", cluster),
        natural("shared_bytes", shared_bytes),
        PYTHON,
    )
    result, results = launch.check(orders, waivers=waivers)
    if result.interrupted:
        raise KeyboardInterrupt(result.error)
    _write_back(launch.arguments, results or {})
    return result


@dataclass(frozen=True, slots=True, eq=False)
class HostBuffer:
    """The memory of overlapping arrays of the caller; contents: one of the arrays if it spans all of it, else bytes."""

    contents: Array
    writable: bool

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays span."""
        return self.contents.nbytes

    def array(self, rng: np.random.Generator) -> Array:
        """The contents of the caller's memory."""
        return self.contents


def _source(kernel: object) -> Source:
    if isinstance(kernel, bytes):
        kernel = kernel.decode(errors="replace")
    if isinstance(kernel, Path) or (isinstance(kernel, str) and kernel.strip() and "\n" not in kernel):
        return Source.read(Path(kernel))
    if not isinstance(kernel, str):
        raise ArgumentTypeError(f"kernel is a {type(kernel).__name__}: pass PTX text, or the path of a file with it")
    return Source("kernel", kernel.rstrip("\0"))


def _extents(name: str, value: object) -> tuple[int, ...]:
    extents = integers(value)
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise ArgumentValueError(f"{name}={value!r} must be one to three integers from 1 on: give n, or (x, y, z)")
    return extents


def _arguments(given: Sequence[Any]) -> Arguments:
    """The caller's arguments, and the memory that their arrays span."""
    labels = [f"arguments[{number}]" for number in range(len(given))]
    arrays = {
        label: argument.array if isinstance(argument, TensorMap) else argument
        for label, argument in zip(labels, given, strict=True)
        if isinstance(argument, TensorMap | np.ndarray)
    }
    for label, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
            raise ArgumentTypeError(f"{label} is {kind}: pass a NumPy array of numbers or structures")
    spans = {label: _span(array) for label, array in arrays.items()}
    buffers: dict[str, Buffer] = {}
    places: dict[str, Pointer] = {}
    for low, high in merge_ranges(spans.values()):
        inside = {label: arrays[label] for label, span in spans.items() if low <= span[0] < span[1] <= high}
        name = next(iter(inside))
        buffers[name] = _buffer(low, high, list(inside.values()))
        places |= {label: Pointer(name, array.ctypes.data - low) for label, array in inside.items()}
    items = [_item(label, argument, places.get(label)) for label, argument in zip(labels, given, strict=True)]
    return Arguments(buffers, items, labels)


def _item(label: str, argument: Any, place: Pointer | None) -> Item:
    if isinstance(argument, TensorMap):
        return _tensor_map(label, argument, place)
    if isinstance(argument, np.ndarray) or argument is None:
        return place or Pointer(None)  # an empty array has no address
    if isinstance(argument, int | float | bytes | np.generic):
        return argument
    raise ArgumentTypeError(
        f"{label} is a {type(argument).__name__}: pass a NumPy array (of a tensor on the CPU, .numpy() shares its "
        f"memory), a number, a NumPy scalar, bytes, a TensorMap, or None for a null pointer"
    )


def _tensor_map(label: str, wanted: TensorMap, place: Pointer | None) -> TensorMapOf:
    array = wanted.array
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
        array.dtype,
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


def _span(array: Array) -> tuple[int, int]:
    """The half-open range of addresses of an array's elements."""
    low, high = byte_range(array.ctypes.data, array.shape, array.strides, 1)
    return (low, high - 1 + array.itemsize) if high > low else (low, low)


def _buffer(low: int, high: int, arrays: Sequence[Array]) -> HostBuffer:
    writable = any(array.flags.writeable for array in arrays)
    for array in arrays:
        if array.flags.c_contiguous and array.nbytes == high - low and (array.flags.writeable or not writable):
            return HostBuffer(array, writable)
    memory = (ctypes.c_uint8 * (high - low)).from_address(low)
    return HostBuffer(np.ctypeslib.as_array(memory), writable)


def _write_back(arguments: Arguments, results: Results) -> None:
    """Copy the results of a run into the caller's arrays."""
    changed = {}
    for name, result in results.items():
        buffer = arguments.buffers[name]
        assert isinstance(buffer, HostBuffer)
        if result.tobytes() != buffer.contents.tobytes():
            changed[name] = (buffer, result)
    for name, (buffer, _) in changed.items():
        if not buffer.writable:
            raise ArgumentValueError(f"{name} is read-only and the kernel writes to it: pass a writable array")
    for buffer, result in changed.values():
        buffer.contents[...] = result
