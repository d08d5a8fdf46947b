"""Element types by name, as NumPy holds them, for buffers, tensor maps and arguments."""

from functools import cache
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError

_NUMPY_NAMES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "tf32": "float32",
    **{f"{kind}{bits}": f"{'u' * (kind == 'u')}int{bits}" for kind in "usi" for bits in (8, 16, 32, 64)},
}  # fmt: skip
NARROW = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
"""Types that NumPy lacks: their names in ml_dtypes, and in torch."""

ELEMENT_NAMES = (
    "f16",
    "bf16",
    "f32",
    "tf32",
    "f64",
    "e4m3",
    "e5m2",
    "s8",
    "u8",
    "s16",
    "u16",
    "s32",
    "u32",
    "s64",
    "u64",
)
"""The names of PTX; i8 to i64 are the same as s8 to s64, and NumPy's own names are accepted too."""


@cache
def element_dtype(name: str) -> "np.dtype[Any]":
    """The NumPy dtype of elements named as in PTX or as in NumPy; bf16 and 8-bit floats come from ml_dtypes.

    Raises:
        ValueError: for an unknown name, with the known names.
    """
    numpy_name = (_NUMPY_NAMES | NARROW).get(name, name)
    if numpy_name in NARROW.values():
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, numpy_name))
        return narrow
    if numpy_name not in _NUMPY_NAMES.values():
        raise ArgumentValueError(f"{name!r} is not an element type: use one of {', '.join(ELEMENT_NAMES)}")
    return np.dtype(numpy_name)
