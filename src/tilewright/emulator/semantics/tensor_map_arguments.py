"""The arguments that a host gives for a tensor map."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.tensor_map import element_type_of
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rounding import natural


def numbers_given(name: str, values: object) -> tuple[int, ...]:
    """The numbers of a sequence; raises ArgumentTypeError for what is none, ArgumentValueError for negative ones."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise ArgumentTypeError(f"{name} is {values!r} and must be a sequence of integers, innermost first")
    return tuple(natural(f"{name}[{index}]", value) for index, value in enumerate(values))


def fills_nan(l2_promotion: int, oob_fill: str) -> bool:
    """Whether loads fill in NaN out of bounds; raises ValueError for arguments that no tensor map has."""
    if l2_promotion not in (0, 64, 128, 256):
        raise ArgumentValueError(f"l2_promotion is {l2_promotion} and must be 0, 64, 128 or 256 bytes")
    if oob_fill not in ("zeros", "nan"):
        raise ArgumentValueError(f"oob_fill is {oob_fill!r} and must be 'zeros' or 'nan'")
    return oob_fill == "nan"


def element_type_given(dtype: npt.DTypeLike) -> str:
    """The element type of a NumPy dtype or of a name in PTX; raises ArgumentTypeError for anything else."""
    try:
        return element_type_of(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"dtype is {dtype!r} and must be a NumPy dtype or a type of PTX: {error}") from None
