"""Tensor maps: the descriptions that cuTensorMapEncodeTiled makes, and the 128 opaque bytes that kernels get.

Source: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, "Tensors".
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.elements import element_dtype
from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS
from tilewright.errors import ArgumentValueError, UnsupportedError
from tilewright.rounding import ceil_div, round_up

ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32")
"""The driver's element types, named as in PTX; its variants that flush subnormals are not among them."""
TENSOR_MAP_BYTES = 128
_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "int64": "s64"}
_MAGIC = 0x70_616D_726F_736E  # "nsormap" of an encoded tensor map
_LAYOUT = struct.Struct("<QQBBBB5Q4Q5H5B")


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box of it that one TMA instruction moves.

    Dimensions run from the innermost, which is contiguous, to the outermost.

    address: the address of the first element.
    element_type: one of ELEMENT_TYPES.
    shape: elements per dimension.
    strides: bytes from one index to the next in dimensions 1 and up (so one fewer than the rank).
    box: elements per dimension that are traversed.
    swizzle: span in bytes, one of SWIZZLE_SPANS.
    element_strides: a stride per dimension: of the box's elements, one in this many is moved; dimension 0 ignores it.
    Empty: all elements are moved.
    oob_nan: whether loads fill in NaN instead of zeros out of bounds.

    Raises ValueError where cuTensorMapEncodeTiled would refuse.
    """

    address: int
    element_type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    oob_nan: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        require(1 <= rank <= 5, "shape", self.shape, "must have 1 to 5 dimensions")
        require(len(self.box) == rank, "box", self.box, f"must have as many dimensions as shape, {rank}")
        require(
            len(self.element_strides) in (0, rank),
            "element_strides",
            self.element_strides,
            f"must have as many dimensions as shape, {rank}",
        )
        require(
            len(self.strides) == rank - 1,
            "strides",
            self.strides,
            f"must have one entry for each dimension but the innermost, {rank - 1}",
        )
        require(
            self.element_type in ELEMENT_TYPES,
            "element_type",
            self.element_type,
            f"must be one of {', '.join(ELEMENT_TYPES)}",
        )
        require(
            self.address > 0 and self.address % 16 == 0,
            "address",
            self.address,
            "must be positive and 16-byte aligned",
        )
        for d, extent in enumerate(self.shape):
            require(1 <= extent <= 1 << 32, f"shape[{d}]", extent, "must be in 1..2**32")
        for d, stride in enumerate(self.strides):
            require(
                0 <= stride < 1 << 40 and stride % 16 == 0,
                f"strides[{d}]",
                stride,
                "must be a multiple of 16 bytes below 2**40: pad the leading dimension",
            )
        for d, side in enumerate(self.box):
            require(1 <= side <= 256, f"box[{d}]", side, "must be in 1..256")
        for d, step in enumerate(self.element_strides):
            require(1 <= step <= 8, f"element_strides[{d}]", step, "must be in 1..8")
        row = self.box[0] * self.element_bytes
        require(row % 16 == 0, "box[0]", self.box[0], f"must span a multiple of 16 bytes, not {row}")
        require(self.swizzle in SWIZZLE_SPANS, "swizzle", self.swizzle, f"must be one of {SWIZZLE_SPANS}")
        require(
            self.swizzle == 0 or row <= self.swizzle,
            "box[0]",
            self.box[0],
            f"spans {row} bytes and must span at most the swizzle's {self.swizzle}: load several boxes",
        )
        require(
            not self.oob_nan or "f" in self.element_type,
            "oob_fill",
            "'nan'",
            f"needs floating-point elements, not {self.element_type}: fill with zeros",
        )

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of an element: 1, 2, 4 or 8."""
        return element_dtype(self.element_type).itemsize

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The step from one moved element to the next, per dimension."""
        return (1, *self.element_strides[1:]) if self.element_strides else (1,) * len(self.box)

    @cached_property
    def tile(self) -> tuple[int, ...]:
        """Elements of a box that are moved, per dimension."""
        return tuple(ceil_div(side, step) for side, step in zip(self.box, self.steps, strict=True))

    @property
    def tile_bytes(self) -> int:
        """Bytes of the whole tile, in or out of bounds: what a load adds to complete_tx."""
        return prod(self.tile) * self.element_bytes

    @property
    def shared_bytes(self) -> int:
        """The bytes of the tile in shared memory, from the first row to the end of the last.

        A row narrower than the swizzle's span is followed by a gap up to the span (seen on an H200).
        """
        return prod(self.tile[1:]) * max(self.box[0] * self.element_bytes, self.swizzle)

    @cached_property
    def as_stored(self) -> "TensorMap":
        """The tensor that stores are clipped to: rows end with a whole piece of 16 bytes.

        This was observed on an H200; the manual does not say it. If a row is not a multiple of 16 bytes, the tile's
        next bytes are stored after it.
        """
        per_piece = 16 // self.element_bytes
        return replace(self, shape=(round_up(self.shape[0], per_piece), *self.shape[1:]))


def element_type_of(dtype: npt.DTypeLike) -> str:
    """The element type of a tensor of this NumPy dtype, or of this PTX name; unsigned where the driver has no own type.

    Raises ValueError for an unknown name.
    """
    if dtype == "tf32":
        return "tf32"
    numpy_type = element_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    return _TYPES.get(numpy_type.name, f"u{8 * numpy_type.itemsize}")


def refuse_interleave(interleave: int, address: int, strides: Sequence[int], swizzle: int) -> None:
    """Raise for an interleaved layout: ValueError where cuTensorMapEncodeTiled would, else NotImplementedError.

    interleave: bytes. No public document says where such a tile's elements lie in shared memory.
    """
    require(interleave in (0, 16, 32), "interleave", interleave, "must be 0, 16 or 32 bytes")
    if not interleave:
        return
    rank = len(strides) + 1
    require(rank >= 3, "interleave", interleave, f"needs a tensor of 3 to 5 dimensions, not {rank}")
    if interleave == 32:
        require(address % 32 == 0, "address", address, "must be 32-byte aligned where interleave is 32")
        for d, stride in enumerate(strides):
            require(stride % 32 == 0, f"strides[{d}]", stride, "must be a multiple of 32 bytes where interleave is 32")
        require(swizzle == 32, "swizzle", swizzle, "must be 32 where interleave is 32")
    raise UnsupportedError(f"interleave is {interleave}: only 0, no interleaving, is emulated")


@dataclass(slots=True)
class RawTensorMap:
    """The fields of an encoded tensor map as they lie in its bytes, right or wrong; five entries for five dimensions.

    element_type: an index of ELEMENT_TYPES. steps: as in TensorMap. strides: four.
    """

    address: int
    rank: int
    element_type: int
    swizzle: int
    oob_nan: int
    shape: list[int]
    strides: list[int]
    box: list[int]
    steps: list[int]

    @classmethod
    def unpack(cls, data: bytes) -> "RawTensorMap | None":
        """The fields of 128 bytes; None if they hold no map. Zeros are a map whose fields are still to be given."""
        magic, address, rank, element_type, swizzle, oob_nan, *numbers = _LAYOUT.unpack_from(data)
        if magic != _MAGIC and any(data):
            return None
        parts = ([*numbers[first:last]] for first, last in ((0, 5), (5, 9), (9, 14), (14, 19)))
        return cls(address, rank, element_type, swizzle, oob_nan, *parts)

    def pack(self) -> bytes:
        """The 128 bytes."""
        packed = _LAYOUT.pack(
            _MAGIC, self.address, self.rank, self.element_type, self.swizzle, self.oob_nan, *self.shape, *self.strides,
            *self.box, *self.steps,
        )  # fmt: skip
        return packed.ljust(TENSOR_MAP_BYTES, b"\0")


def encode_tensor_map(tensor_map: TensorMap) -> bytes:
    """The 128 bytes that a kernel gets as its __grid_constant__ tensor map."""
    lists = (tensor_map.shape, tensor_map.strides, tensor_map.box, tensor_map.steps)
    padded = ([*numbers, *[0] * (size - len(numbers))] for numbers, size in zip(lists, (5, 4, 5, 5), strict=True))
    return RawTensorMap(
        tensor_map.address, len(tensor_map.shape), ELEMENT_TYPES.index(tensor_map.element_type), tensor_map.swizzle,
        tensor_map.oob_nan, *padded,
    ).pack()  # fmt: skip


@lru_cache(maxsize=1024)
def decode_tensor_map(data: bytes) -> TensorMap | None:
    """The inverse of encode_tensor_map; None for other bytes.

    Raises ValueError if only some of the bytes differ.
    """
    raw = RawTensorMap.unpack(data)
    if raw is None or not any(data):
        return None
    rank, kind = raw.rank, raw.element_type
    require(1 <= rank <= 5, "rank", rank, "must be 1 to 5")
    require(kind < len(ELEMENT_TYPES), "element type", kind, f"must be below {len(ELEMENT_TYPES)}")
    shape, box, steps = (tuple(numbers[:rank]) for numbers in (raw.shape, raw.box, raw.steps))
    strides = tuple(raw.strides[: rank - 1])
    return TensorMap(raw.address, ELEMENT_TYPES[kind], shape, strides, box, raw.swizzle, steps, bool(raw.oob_nan))


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Raise ValueError that names the argument, its value and the rule."""
    if not condition:
        raise ArgumentValueError(f"{name} is {value} and {rule}")
