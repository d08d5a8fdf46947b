"""The element types, in one table: width, kind, accumulators, and names in CUDA, PTX, TMA and every array library."""

from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tilewright.errors import ArgumentTypeError

if TYPE_CHECKING:  # the command line and NVRTC's processes read this table, too, and start without NumPy
    import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. There is one object of each, which is compared and hashed by identity.

    name: what users write.
    bits, nbytes: the width of an element.
    kind: whether it is a floating-point number or an integer.
    epsilon: the spacing of numbers at 1 (unit roundoff times two).
    accumulators: names of the types in which tensor cores or CUDA cores add its products, the usual one first.
    cuda: the type's name in our headers.
    ptx: its name in PTX instructions.
    tma: its name in `CUtensorMapDataType`, after `CU_TENSOR_MAP_DATA_TYPE_`.
    numpy, torch: its names in these libraries.
    """

    name: str
    bits: int
    kind: Literal["float", "integer"]
    epsilon: float
    accumulators: tuple[str, ...]
    cuda: str
    ptx: str
    tma: str
    numpy: str
    torch: str
    nbytes: int = field(init=False)  # no property: a plan asks some 40 times

    def __post_init__(self) -> None:
        object.__setattr__(self, "nbytes", self.bits // 8)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return by_name, (self.name,)  # a copy, even one in another process, is the table's own object

    @property
    def numpy_dtype(self) -> "np.dtype[Any]":
        """The NumPy dtype; bf16 comes from ml_dtypes."""
        return _numpy_dtype(self.numpy)


@cache
def _numpy_dtype(name: str) -> "np.dtype[Any]":
    import ml_dtypes  # NumPy has no bf16 of its own
    import numpy as np

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return dtype


bf16 = DType("bf16", 16, "float", 2.0**-7, ("fp32",), "bf16", "bf16", "BFLOAT16", "bfloat16", "torch.bfloat16")
fp16 = DType("fp16", 16, "float", 2.0**-10, ("fp32", "fp16"), "fp16", "f16", "FLOAT16", "float16", "torch.float16")
fp32 = DType("fp32", 32, "float", 2.0**-23, ("fp32",), "float", "f32", "FLOAT32", "float32", "torch.float32")

SUPPORTED = (bf16, fp16, fp32)
NAMES = ", ".join(d.name for d in SUPPORTED)

_BY_NAME = {alias: d for d in SUPPORTED for alias in (d.name, d.numpy, d.torch)}


def by_name(name: object) -> DType | None:
    """The DType of a name or of any library's dtype object (`"bf16"`, `torch.bfloat16`, `np.float16`), or None."""
    if isinstance(name, DType):
        return name
    try:
        return _found(name)
    except TypeError:  # an unhashable object does not name a dtype
        return None


@lru_cache(maxsize=256)
def _found(name: object) -> DType | None:
    import numpy as np

    found = _BY_NAME.get(str(name))
    if found is None and isinstance(name, type | np.dtype):  # NumPy makes dtypes of many other things too
        try:
            kind = np.dtype(name)
        except (TypeError, ValueError):
            return None
        found = _BY_NAME.get(kind.name) if kind.isnative else None
    return found


def parse(name: object, argument: str) -> DType:
    """The DType named by `argument`, or a TypeError that lists what is supported."""
    found = by_name(name)
    if found is None:
        remedy = f"use {NAMES} (an array of another: convert it first)"
        if argument == "out.dtype":
            remedy = f"pass an out of {NAMES}"
        raise ArgumentTypeError(f"{argument}={name} is not a supported dtype: {remedy}")
    return found
