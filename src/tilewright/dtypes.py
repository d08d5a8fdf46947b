"""The element types, in one table: width, names in every array library, and the units that multiply them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    `name` is what users write, `nbytes` its width, `cuda` the type's name in our headers, `epsilon` the spacing of
    numbers at 1 (unit roundoff times two).
    """

    name: str
    nbytes: int
    cuda: str
    numpy: str
    torch: str
    epsilon: float

    def __str__(self) -> str:
        return self.name

    @property
    def numpy_dtype(self) -> "np.dtype[Any]":
        """The NumPy dtype; bf16 comes from ml_dtypes."""
        return _numpy_dtype(self.numpy)


@cache
def _numpy_dtype(name: str) -> "np.dtype[Any]":
    import ml_dtypes  # NumPy has no bf16 of its own

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return dtype


bf16 = DType("bf16", 2, "bf16", "bfloat16", "torch.bfloat16", 2.0**-7)
fp16 = DType("fp16", 2, "fp16", "float16", "torch.float16", 2.0**-10)
fp32 = DType("fp32", 4, "float", "float32", "torch.float32", 2.0**-23)

SUPPORTED = (bf16, fp16, fp32)
NAMES = ", ".join(d.name for d in SUPPORTED)

_BY_NAME = {alias: d for d in SUPPORTED for alias in (d.name, d.numpy, d.torch)}


def by_name(name: object) -> DType | None:
    """The DType of a name or of any library's dtype object (`"bf16"`, `torch.bfloat16`, `np.float16`), or None."""
    if isinstance(name, DType):
        return name
    found = _BY_NAME.get(str(name))
    if found is None and not isinstance(name, str):
        try:
            found = _BY_NAME.get(np.dtype(name).name)  # type: ignore[call-overload]
        except TypeError:
            return None
    return found


def parse(name: object, argument: str) -> DType:
    """The DType named by `argument`, or a TypeError that lists what is supported."""
    found = by_name(name)
    if found is None:
        raise ArgumentTypeError(
            f"{argument}={name} is not a supported dtype: use {NAMES} (an array of another: convert it first)"
        )
    return found
