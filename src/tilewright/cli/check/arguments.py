"""The kernel arguments that `--arg` describes, one option for each parameter, in order.

    5   -3   0x10   1.5           a number, as large as its parameter (1.5 is an f32 or f64)
    bf16:1.5   u8:255             a number of a type
    f32[64,32]                    the address of an array, uninitialized (poison), as an output is
    f32[64,32]:random             of an array with values: random, zeros, ones, arange, poison, a number, or FILE.npy
    out=f32[64,32]:zeros          the same with a name
    ptr:out   ptr:out+256         the address of an array that another argument names, and bytes on
    ptr:null                      no address
    tensormap(a=bf16[64,128]:random, box=[64,64], swizzle=128)
    tensormap(out, box=[64,64])   a TMA descriptor of a new or named array; shape and box are row-major
    bytes:0a000000ff              a structure's bytes

Element types have their names in PTX: f16 bf16 f32 tf32 f64 e4m3 e5m2, s8 to s64 and u8 to u64.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from tilewright.checking.arguments import Arguments, Item, Pointer, TensorMapOf
from tilewright.emulator.ptx.lexical import split_list
from tilewright.emulator.semantics.elements import element_dtype
from tilewright.errors import ArgumentValueError
from tilewright.reference import Array

_ARRAY = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?(?P<type>\w+)\s*\[(?P<shape>[^\]]*)\](?::(?P<fill>.+))?")
_TYPED = re.compile(r"(?P<type>\w+):(?P<value>.+)")
_POINTER = re.compile(r"ptr:(?P<name>\w+)(?:\s*\+\s*(?P<offset>\d+))?")
_TENSOR_MAP = re.compile(r"tensormap\s*\((?P<inside>.*)\)")
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)")

FILLS = ("random", "zeros", "ones", "arange", "poison")
POISON = 0xFF
"""The byte that fills an array without values: NaN in every floating-point type, like the emulator's fresh memory."""


@dataclass(frozen=True, slots=True)
class WrittenBuffer:
    """An array in device memory; fill: one of FILLS, a number or the path of an .npy file."""

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    fill: str
    skew: ClassVar[int] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * self.dtype.itemsize

    def array(self, rng: np.random.Generator) -> Array:
        """The initial values. Random floats are normally distributed; random integers differ from 0 by at most 8."""
        if self.fill == "poison":
            return np.full(self.nbytes, POISON, np.uint8).view(self.dtype).reshape(self.shape)
        if self.fill == "random":
            if self.dtype.kind in "iu":
                return rng.integers(-8 if self.dtype.kind == "i" else 0, 9, self.shape).astype(self.dtype)
            return rng.standard_normal(self.shape, np.float32).astype(self.dtype)
        if self.fill == "arange":
            return np.arange(prod(self.shape)).astype(self.dtype).reshape(self.shape)
        if self.fill.endswith(".npy"):
            return self._loaded()
        value = {"zeros": 0, "ones": 1}.get(self.fill)
        return np.full(self.shape, _number(self.fill, self.dtype) if value is None else value, self.dtype)

    def _loaded(self) -> Array:
        try:
            array: Array = np.load(self.fill, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ArgumentValueError(f"{self.fill} cannot be loaded: {error}") from error
        if array.shape != self.shape or array.dtype.itemsize != self.dtype.itemsize:
            raise ArgumentValueError(
                f"{self.fill} holds {array.dtype}{list(array.shape)}, not {self.dtype}{list(self.shape)}; "
                f"write its type and shape"
            )
        return np.ascontiguousarray(array).view(self.dtype)


Buffers = dict[str, WrittenBuffer]


@dataclass(frozen=True, slots=True)
class _WrittenTensorMap:
    """A tensor map of a whole buffer, which a later option may declare; box: elements, outermost dimension first."""

    buffer: str
    box: tuple[int, ...]
    swizzle: int

    def of(self, buffers: Mapping[str, WrittenBuffer]) -> TensorMapOf:
        """The map of that buffer."""
        buffer = buffers[self.buffer]
        strides = tuple(prod(buffer.shape[axis + 1 :]) * buffer.dtype.itemsize for axis in range(len(buffer.shape)))
        label = f"the tensor map of {self.buffer}"
        return TensorMapOf(label, self.buffer, buffer.dtype, buffer.shape, strides, self.box, self.swizzle)


def parse_arguments(texts: Sequence[str]) -> Arguments:
    """The arguments that the options describe.

    Raises:
        ArgumentValueError: naming the option's text, its fault, and how to write it.
    """
    buffers: Buffers = {}
    labels = [f"--arg {text!r}" for text in texts]
    written = []
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        try:
            written.append(_parse(text.strip(), f"arg{number}", buffers))
        except ValueError as error:
            raise ArgumentValueError(f"{label}: {error}") from error
    items: list[Item] = []
    for label, item in zip(labels, written, strict=True):
        if isinstance(item, Pointer | _WrittenTensorMap) and item.buffer not in {None, *buffers}:
            known = ", ".join(buffers) or "none"
            raise ArgumentValueError(f"{label}: no array is named {item.buffer!r}: there are {known}; name one of them")
        items.append(item.of(buffers) if isinstance(item, _WrittenTensorMap) else item)
    return Arguments(dict(buffers), items, labels)


def _parse(text: str, name: str, buffers: Buffers) -> Item | _WrittenTensorMap:
    if match := _TENSOR_MAP.fullmatch(text):
        return _parse_tensor_map(match["inside"], name, buffers)
    if match := _ARRAY.fullmatch(text):
        return Pointer(_declare(match, name, buffers))
    if match := _POINTER.fullmatch(text):
        return Pointer(None if match["name"] == "null" else match["name"], int(match["offset"] or 0))
    if text.startswith("bytes:"):
        try:
            return bytes.fromhex(digits := text.removeprefix("bytes:"))
        except ValueError:
            raise ArgumentValueError(
                f"{digits} is not hexadecimal: write two digits a byte, such as bytes:0a00"
            ) from None
    if match := _TYPED.fullmatch(text):
        return _number(match["value"], element_dtype(match["type"]))
    if _INTEGER.fullmatch(text):
        return int(text, 0)
    try:
        return float(text)
    except ValueError:
        raise ArgumentValueError("write 5, f32:1.5, f32[64,32]:random, ptr:NAME, tensormap(...) or bytes:HEX") from None


def _declare(match: re.Match[str], name: str, buffers: Buffers) -> str:
    """Add the buffer of a match of _ARRAY; returns the buffer's name."""
    name, fill = match["name"] or name, (match["fill"] or "poison").strip()
    dtype = element_dtype(match["type"])
    if name in buffers or name == "null":
        raise ArgumentValueError(f"the name {name!r} is taken: give the array another")
    if fill not in FILLS and not fill.endswith(".npy"):
        _number(fill, dtype)
    buffers[name] = WrittenBuffer(dtype, _extents(match["shape"]), fill)
    return name


def _parse_tensor_map(inside: str, name: str, buffers: Buffers) -> _WrittenTensorMap:
    tensor, *options = split_list(inside) or [""]
    known = dict(option.replace(" ", "").partition("=")[::2] for option in options)
    if set(known) - {"box", "swizzle"} or not re.fullmatch(r"\[.*\]", known.get("box", "")):
        raise ArgumentValueError("write tensormap(ARRAY, box=[64,64], swizzle=128), where swizzle may be left out")
    if not known.get("swizzle", "0").isdecimal():
        raise ArgumentValueError(f"swizzle={known['swizzle']} must be 0, 32, 64 or 128")
    match = _ARRAY.fullmatch(tensor)
    buffer = _declare(match, name, buffers) if match else tensor
    return _WrittenTensorMap(buffer, _extents(known["box"][1:-1]), int(known.get("swizzle", "0")))


def _extents(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentValueError(f"[{text}] must be positive numbers with commas between them, such as [64,32]")
    return tuple(map(int, parts))


def _number(text: str, dtype: "np.dtype[Any]") -> "np.generic[Any]":
    """A scalar of a type."""
    if dtype.kind not in "iu":
        try:
            value: float = float(text)
        except ValueError:
            raise ArgumentValueError(
                f"{text!r} is not a number, nor one of {', '.join(FILLS)} or an .npy file"
            ) from None
        return _scalar(value, dtype)
    if not _INTEGER.fullmatch(text):
        raise ArgumentValueError(f"{text!r} is not an integer, nor one of {', '.join(FILLS)} or an .npy file")
    value, limits = int(text, 0), np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ArgumentValueError(
            f"{value} does not fit {dtype}, which holds {limits.min} to {limits.max}: write one of these"
        )
    return _scalar(value, dtype)


def _scalar(value: float, dtype: "np.dtype[Any]") -> "np.generic[Any]":
    scalar: np.generic[Any] = dtype.type(value)
    return scalar
