"""Tensor maps: the descriptions that the driver makes, and the 128 opaque bytes that kernels get.

Source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; PTX ISA, "Tensors".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.elements import element_dtype
from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS
from tilewright.errors import ArgumentValueError, UnsupportedError
from tilewright.rounding import ceil_div, round_up

ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32")
"""The driver's element types, named as in PTX; its variants that flush subnormals are not among them."""
TENSOR_MAP_BYTES = 128
USED_BYTES = 64
"""The first bytes of a tensor map, which hold all of it: CuTe DSL copies no others of those that it changes."""
_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "int64": "s64"}
_MAGIC = 0x7E501  # begins an encoded tensor map
_WIDTHS = (20, 48, 3, 4, 3, 1, *[33] * 5, *[40] * 4, *[11] * 5, *[4] * 5, 1, 32)
"""The bits of the fields of an encoded tensor map. Each has room for more than is allowed, to which the rest is cut."""
_SWIZZLE_UNIT = 32


@dataclass(frozen=True)
class _Tensor:
    """A tensor in global memory; dimensions run from the innermost, which is contiguous, to the outermost.

    address: the address of the first element.
    element_type: one of ELEMENT_TYPES.
    shape: elements per dimension.
    strides: bytes from one index to the next in dimensions 1 and up (so one fewer than the rank).
    """

    address: int
    element_type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of an element: 1, 2, 4 or 8."""
        return element_dtype(self.element_type).itemsize

    @cached_property
    def as_stored(self) -> Self:
        """The tensor that stores and reductions are clipped to: rows end with a whole piece of 16 bytes.

        This was observed on an H200; the manual does not say it. If a row is not a multiple of 16 bytes, the tile's
        next bytes are stored after it.
        """
        per_piece = 16 // self.element_bytes
        return replace(self, shape=(round_up(self.shape[0], per_piece), *self.shape[1:]))


@dataclass(frozen=True)
class TensorMap(_Tensor):
    """A tensor in global memory and the box of it that one TMA instruction moves.

    Members that it does not describe are those of a tensor.

    box: elements per dimension that are traversed.
    swizzle: span in bytes, one of SWIZZLE_SPANS.
    element_strides: a stride per dimension: of the box's elements, one in this many is moved; dimension 0 ignores it.
    Empty: all elements are moved.
    oob_nan: whether loads fill in NaN instead of zeros out of bounds.

    Raises ValueError where cuTensorMapEncodeTiled would refuse.
    """

    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    oob_nan: bool = False

    def __post_init__(self) -> None:
        _require_tensor(self, 1, box=self.box)
        for d, side in enumerate(self.box):
            require(1 <= side <= 256, f"box[{d}]", side, "must be in 1..256")
        _require_row(self, "box[0]", self.box[0])

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


@dataclass(frozen=True)
class Im2colMap(_Tensor):
    """Images in global memory and the pixels of them that one TMA instruction moves, with a part of their channels.

    Dimensions run from the innermost: channels, which are contiguous, width, then height and depth if there are any,
    and images. Other members are those of TensorMap.

    lower, upper: pixels from the first and from the last pixel of an image to the corners of the bounding box, along
    width, height and depth; the filter's corner moves in this box.
    channels, pixels: how many are moved.
    element_strides: the filter's corner moves by this many pixels; the entries of channels and images count as 1.

    Raises ValueError where cuTensorMapEncodeIm2col would refuse.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    oob_nan: bool = False

    def __post_init__(self) -> None:
        _require_tensor(self, 3)
        spatial = len(self.shape) - 2
        most = 1 << _CORNER_BITS[spatial] - 1
        for name, corner in (("lower_corner", self.lower), ("upper_corner", self.upper)):
            require(
                len(corner) == spatial, name, corner, f"must have one entry for each dimension of an image, {spatial}"
            )
            for d, offset in enumerate(corner):
                require(-most <= offset < most, f"{name}[{d}]", offset, f"must be in {-most}..{most - 1}")
        for d, extent in enumerate(self.box):
            require(extent > 0, f"upper_corner[{d}]", self.upper[d], "must leave a bounding box that holds pixels")
        require(1 <= self.channels <= 256, "channels_per_pixel", self.channels, "must be in 1..256")
        require(1 <= self.pixels <= 1024, "pixels_per_column", self.pixels, "must be in 1..1024")
        _require_row(self, "channels_per_pixel", self.channels)

    @cached_property
    def box(self) -> tuple[int, ...]:
        """Pixels of the bounding box, along width, height and depth."""
        corners = zip(self.shape[1:-1], self.lower, self.upper, strict=True)
        return tuple(extent + upper - lower for extent, lower, upper in corners)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The step from one place of the filter's corner to the next, along width, height and depth."""
        return self.element_strides[1:-1] if self.element_strides else (1,) * len(self.box)

    @property
    def tile(self) -> tuple[int, int]:
        """Channels and pixels that are moved."""
        return self.channels, self.pixels

    @property
    def tile_bytes(self) -> int:
        """Bytes of the whole tile, in or out of bounds: what a load adds to complete_tx."""
        return self.channels * self.pixels * self.element_bytes

    @property
    def shared_bytes(self) -> int:
        """The bytes of the tile in shared memory, from the first pixel to the end of the last."""
        return self.pixels * max(self.channels * self.element_bytes, self.swizzle)

    @property
    def most_offset(self) -> int:
        """The largest offset of an instruction (PTX ISA, "im2col mode")."""
        return (1 << _CORNER_BITS[len(self.box)]) - 1


AnyMap: TypeAlias = TensorMap | Im2colMap
"""A tensor map of either mode."""
_CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""The bits of a corner's coordinates, and of offsets, by the dimensions of an image."""


def _require_tensor(tensor_map: AnyMap, least: int, **sides: Sequence[int]) -> None:
    """Raise ValueError for a tensor of fewer dimensions or other elements than a map may have."""
    shape, strides, steps = tensor_map.shape, tensor_map.strides, tensor_map.element_strides
    rank = len(shape)
    require(least <= rank <= 5, "shape", shape, f"must have {least} to 5 dimensions")
    if steps:
        sides["element_strides"] = steps
    for name, of_dimensions in sides.items():
        require(len(of_dimensions) == rank, name, of_dimensions, f"must have as many dimensions as shape, {rank}")
    require(
        len(strides) == rank - 1,
        "strides",
        strides,
        f"must have one entry for each dimension but the innermost, {rank - 1}",
    )
    kind, address = tensor_map.element_type, tensor_map.address
    require(kind in ELEMENT_TYPES, "element_type", kind, f"must be one of {', '.join(ELEMENT_TYPES)}")
    require(address > 0 and address % 16 == 0, "address", address, "must be positive and 16-byte aligned")
    for d, extent in enumerate(shape):
        require(1 <= extent <= 1 << 32, f"shape[{d}]", extent, "must be in 1..2**32")
    for d, stride in enumerate(strides):
        require(
            0 <= stride < 1 << 40 and stride % 16 == 0,
            f"strides[{d}]",
            stride,
            "must be a multiple of 16 bytes below 2**40: pad the leading dimension",
        )
    for d, step in enumerate(steps):
        require(1 <= step <= 8, f"element_strides[{d}]", step, "must be in 1..8")
    require(
        not tensor_map.oob_nan or "f" in kind,
        "oob_fill",
        "'nan'",
        f"needs floating-point elements, not {kind}: fill with zeros",
    )


def _require_row(tensor_map: AnyMap, name: str, elements: int) -> None:
    """Raise ValueError for a number of elements, or a swizzle, that rows of a tile may not have."""
    row, span = elements * tensor_map.element_bytes, tensor_map.swizzle
    require(row % 16 == 0, name, elements, f"must span a multiple of 16 bytes, not {row}")
    require(span in SWIZZLE_SPANS, "swizzle", span, f"must be one of {SWIZZLE_SPANS}")
    require(
        span == 0 or row <= span,
        name,
        elements,
        f"spans {row} bytes and must span at most the swizzle's {span}: load several boxes",
    )


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
    im2col: whether it is an Im2colMap, whose channels and pixels are in box, and whose corners are in `corners`, three
    coordinates each.
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
    im2col: int = 0
    corners: list[int] = field(default_factory=lambda: [0] * 6)

    @classmethod
    def unpack(cls, data: bytes) -> "RawTensorMap | None":
        """The fields of 128 bytes; None if they hold no map. Zeros are a map whose fields are still to be given."""
        bits, fields = int.from_bytes(data[:USED_BYTES], "little"), []
        if bits and bits & (1 << _WIDTHS[0]) - 1 != _MAGIC:
            return None
        for width in _WIDTHS:
            fields.append(bits & (1 << width) - 1)
            bits >>= width
        _, address, rank, element_type, swizzle, oob_nan, *numbers, im2col, corners = fields
        shape, strides, box, steps = ([*numbers[i:j]] for i, j in ((0, 5), (5, 9), (9, 14), (14, 19)))
        return cls(
            address, rank, element_type, _SWIZZLE_UNIT * swizzle, oob_nan, shape, strides, box, steps, im2col,
            _corners_of(corners, rank),
        )  # fmt: skip

    def pack(self) -> bytes:
        """The 128 bytes."""
        fields = (
            _MAGIC, self.address, self.rank, self.element_type, self.swizzle // _SWIZZLE_UNIT, self.oob_nan,
            *self.shape, *self.strides, *self.box, *self.steps, self.im2col, _packed_corners(self.corners, self.rank),
        )  # fmt: skip
        bits = shift = 0
        for value, width in zip(fields, _WIDTHS, strict=True):
            bits |= min(value, (1 << width) - 1) << shift
            shift += width
        return bits.to_bytes(TENSOR_MAP_BYTES, "little")


def _packed_corners(corners: Sequence[int], rank: int) -> int:
    """Six coordinates as 32 bits, those of each dimension of an image in as many bits as it has."""
    width, packed = _CORNER_BITS.get(rank - 2, 0), 0
    for number, corner in enumerate((*corners[: rank - 2], *corners[3 : rank + 1]) if width else ()):
        packed |= (corner & (1 << width) - 1) << width * number
    return packed


def _corners_of(packed: int, rank: int) -> list[int]:
    """The inverse of _packed_corners."""
    width, count = _CORNER_BITS.get(rank - 2, 0), rank - 2
    corners = [0] * 6
    for number in range(2 * count if width else 0):
        corner = packed >> width * number & (1 << width) - 1
        corners[number % count + 3 * (number // count)] = corner - (corner >> width - 1 << width)
    return corners


def encode_tensor_map(tensor_map: AnyMap) -> bytes:
    """The 128 bytes that a kernel gets as its __grid_constant__ tensor map."""
    is_im2col = isinstance(tensor_map, Im2colMap)
    box = tensor_map.tile if is_im2col else tensor_map.box
    steps = (1, *tensor_map.steps, 1) if is_im2col else tensor_map.steps
    raw = RawTensorMap(
        tensor_map.address, len(tensor_map.shape), ELEMENT_TYPES.index(tensor_map.element_type), tensor_map.swizzle,
        tensor_map.oob_nan, _padded(tensor_map.shape, 5), _padded(tensor_map.strides, 4), _padded(box, 5),
        _padded(steps, 5),
    )  # fmt: skip
    if isinstance(tensor_map, Im2colMap):
        raw.im2col, raw.corners = 1, _padded(tensor_map.lower, 3) + _padded(tensor_map.upper, 3)
    return raw.pack()


def _padded(numbers: Sequence[int], size: int) -> list[int]:
    return [*numbers, *[0] * (size - len(numbers))]


@lru_cache(maxsize=1024)
def decode_tensor_map(data: bytes) -> AnyMap | None:
    """The inverse of encode_tensor_map; None for other bytes.

    Raises ValueError if only some of the bytes differ.
    """
    raw = RawTensorMap.unpack(data)
    if raw is None or not any(data[:USED_BYTES]):
        return None
    rank, kind = raw.rank, raw.element_type
    require(1 <= rank <= 5, "rank", rank, "must be 1 to 5")
    require(kind < len(ELEMENT_TYPES), "element type", kind, f"must be below {len(ELEMENT_TYPES)}")
    shape, box, steps = (tuple(numbers[:rank]) for numbers in (raw.shape, raw.box, raw.steps))
    strides = tuple(raw.strides[: rank - 1])
    if raw.im2col:
        lower, upper = (tuple(raw.corners[first : first + max(rank - 2, 0)]) for first in (0, 3))
        return Im2colMap(
            raw.address, ELEMENT_TYPES[kind], shape, strides, lower, upper, raw.box[0], raw.box[1], raw.swizzle, steps,
            bool(raw.oob_nan),
        )  # fmt: skip
    return TensorMap(raw.address, ELEMENT_TYPES[kind], shape, strides, box, raw.swizzle, steps, bool(raw.oob_nan))


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Raise ValueError that names the argument, its value and the rule."""
    if not condition:
        raise ArgumentValueError(f"{name} is {value} and {rule}")
