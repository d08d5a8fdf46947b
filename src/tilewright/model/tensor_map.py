"""The fields of a tensor map one by one, and what a copy of one box moves.

A tensor map describes a tensor in GMEM and a box of it, so that one thread can ask TMA for the box at some coordinates.
Source: CUDA driver API, `cuTensorMapEncodeTiled`, for the fields and their rules.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, NamedTuple

from tilewright.hardware import SECTOR_BYTES
from tilewright.rounding import ceil_div


class Field(NamedTuple):
    """A parameter of `cuTensorMapEncodeTiled`: its value, what it says, and the rule that it obeys."""

    name: str
    value: str
    meaning: str
    rule: str


@dataclass(frozen=True, slots=True)
class TensorMapModel:
    """A tensor map, dimensions innermost first.

    element, nbytes: the type of an element by its name in `CUtensorMapDataType`, and its bytes. shape: extents.
    strides: bytes from one index to the next, but for dimension 0. box: extents of what a copy takes. swizzle: bytes.
    l2_promotion: bytes that L2 fetches at least.
    """

    element: str
    nbytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    l2_promotion: int

    @property
    def box_bytes(self) -> int:
        """What a copy puts into SMEM, also of a box that reaches outside: what an mbarrier expects."""
        return prod(self.box) * self.nbytes

    @property
    def box_sectors(self) -> int:
        """Sectors of GMEM that a copy of a box inside the tensor reads, if the box begins on a sector."""
        return prod(self.box[1:]) * ceil_div(self.box[0] * self.nbytes, SECTOR_BYTES)

    @property
    def boxes(self) -> tuple[int, ...]:
        """How many boxes cover the tensor along each dimension."""
        return tuple(ceil_div(extent, box) for extent, box in zip(self.shape, self.box, strict=True))

    @property
    def fields(self) -> list[Field]:
        """Every parameter, in the order of `cuTensorMapEncodeTiled`."""
        rank = len(self.shape)
        pattern = f"{self.swizzle} bytes" if self.swizzle else "NONE"
        return [
            Field("tensorDataType", self.element, f"elements of {self.nbytes} bytes", "a type of CUtensorMapDataType"),
            Field("tensorRank", str(rank), "dimensions, the batch included", "1 to 5"),
            Field("globalAddress", "of the operand", "where element 0, 0... lies", "a multiple of 16"),
            Field("globalDim", _listed(self.shape), "elements along each dimension, innermost first", "1 to 2^32"),
            Field(
                "globalStrides", _listed(self.strides), "bytes from one index of the dimensions 1 and up to the next",
                "multiples of 16, below 2^40; dimension 0 has none, its elements are neighbors",
            ),
            Field(
                "boxDim", _listed(self.box), "elements that one copy takes along each dimension",
                "1 to 256; the inner bytes are a multiple of 16, and at most the swizzle's span",
            ),
            Field("elementStrides", _listed((1,) * rank), "1 takes every element, 2 every other one", "1 to 8"),
            Field("interleave", "NONE", "elements of GMEM lie as the strides say", "16B and 32B are for images"),
            Field(
                "swizzle", pattern, "how 16-byte chunks trade places in SMEM, so that columns have no bank conflicts",
                "none, 32, 64 or 128 bytes; SMEM is aligned to the pattern",
            ),
            Field(
                "l2Promotion", f"{self.l2_promotion} bytes", "what L2 fetches from GMEM at least",
                "none, 64, 128 or 256 bytes",
            ),
            Field("oobFill", "NONE", "what lies outside the tensor is loaded as 0", "or NaN, for floats"),
        ]  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = {"box_bytes": self.box_bytes, "box_sectors": self.box_sectors, "boxes": list(self.boxes)}
        return {**asdict(self), **derived, "fields": [field._asdict() for field in self.fields]}


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
