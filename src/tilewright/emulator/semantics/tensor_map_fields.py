"""The fields of a tensor map that tensormap.replace names. Source: PTX ISA, "tensormap.replace"."""

from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS
from tilewright.emulator.semantics.tensor_map import (
    ELEMENT_TYPES,
    RawTensorMap,
    require,
)

_ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz")
"""The numbers that stand for element types, which are not those of the driver's enum."""
_DIMENSIONS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
_NUMBERS = {"elemtype": len(_ELEMENT_TYPES), "interleave_layout": 3, "swizzle_mode": 4, "fill_mode": 2}


def require_field(field: str, dimension: int, value: int | None) -> None:
    """Raise ValueError for a dimension or a constant that a field does not have, or that is not emulated."""
    if field in _DIMENSIONS:
        require(0 <= dimension < _DIMENSIONS[field], "ord", dimension, f"must be below {_DIMENSIONS[field]}")
    if field in _NUMBERS and value is not None:
        require(0 <= value < _NUMBERS[field], field, value, f"must be below {_NUMBERS[field]}")
        require(field != "interleave_layout" or value == 0, field, value, "only 0, no interleaving, is emulated")
        ftz = field == "elemtype" and "ftz" in _ELEMENT_TYPES[value]
        require(not ftz, field, value, "element types that flush subnormals are not emulated")


def with_field(data: bytes, field: str, dimension: int, value: int) -> bytes:
    """The bytes of a tensor map with another value of a field; of zeros, which hold no map yet, it makes one.

    dimension: from the innermost, 0; that of global_stride 0 is the first that has a stride.

    Raises ValueError for bytes that are neither, and for a rank that no tensor has.
    """
    raw = RawTensorMap.unpack(data)
    require(raw is not None, "the tensor map", "missing", "must be there before a field is replaced")
    assert raw is not None
    require(not raw.im2col, "the tensor map", "one of im2col mode", "must be of tiled mode, as .tile says")
    if field == "global_address":
        raw.address = value
    elif field == "rank":
        require(value < 5, "rank", value, "must be at most 4, one less than the number of dimensions")
        raw.rank = value + 1
    elif field in _DIMENSIONS:
        numbers = {
            "box_dim": raw.box, "global_dim": raw.shape, "global_stride": raw.strides, "element_stride": raw.steps,
        }[field]  # fmt: skip
        most = (1 << {"box_dim": 16, "element_stride": 8}.get(field, 64)) - 1
        numbers[dimension] = min(value, most)  # too much for either, and refused where the map is used
    elif field == "elemtype":
        raw.element_type = ELEMENT_TYPES.index(_ELEMENT_TYPES[value])
    elif field == "swizzle_mode":
        raw.swizzle = SWIZZLE_SPANS[value]
    elif field == "fill_mode":
        raw.oob_nan = value
    return raw.pack()
