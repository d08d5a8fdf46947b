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
    accumulators: names of the types in which tensor cores or CUDA cores add its products, the usual one first; none if
    it is a type of results alone.
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
        """The NumPy dtype; bf16 and the types of 8 bits come from ml_dtypes."""
        return _numpy_dtype(self.numpy)


@cache
def _numpy_dtype(name: str) -> "np.dtype[Any]":
    import ml_dtypes  # NumPy has no bf16 and no fp8 of its own
    import numpy as np

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, name))
    return dtype


bf16 = DType("bf16", 16, "float", 2.0**-7, ("fp32",), "bf16", "bf16", "BFLOAT16", "bfloat16", "torch.bfloat16")
fp16 = DType("fp16", 16, "float", 2.0**-10, ("fp32", "fp16"), "fp16", "f16", "FLOAT16", "float16", "torch.float16")
fp32 = DType("fp32", 32, "float", 2.0**-23, ("fp32",), "float", "f32", "FLOAT32", "float32", "torch.float32")
fp8_e4m3 = DType(
    "fp8_e4m3", 8, "float", 2.0**-3, ("fp32",), "fp8_e4m3", "e4m3", "UINT8", "float8_e4m3fn", "torch.float8_e4m3fn"
)
fp8_e5m2 = DType(
    "fp8_e5m2", 8, "float", 2.0**-2, ("fp32",), "fp8_e5m2", "e5m2", "UINT8", "float8_e5m2", "torch.float8_e5m2"
)
int8 = DType("int8", 8, "integer", 1.0, ("int32",), "int8", "s8", "UINT8", "int8", "torch.int8")
int32 = DType("int32", 32, "integer", 1.0, (), "int32_t", "s32", "INT32", "int32", "torch.int32")

FLOATS = (bf16, fp16, fp32)
"""The types whose products need no scales, and those of what an epilogue reads."""

FP8 = (fp8_e4m3, fp8_e5m2)
"""The types of 8 bits that hold floating-point numbers."""

SUPPORTED = (*FLOATS, *FP8, int8, int32)
NAMES = ", ".join(d.name for d in SUPPORTED)

PRODUCTS: dict[tuple[DType, DType], tuple[DType, ...]] = {
    **{(each, each): (each, *(other for other in FLOATS if other is not each), *FP8) for each in FLOATS},
    **{(a, b): (bf16, fp16, fp32, *FP8) for a in FP8 for b in FP8},
    (int8, int8): (int32, bf16, fp16, fp32),
}
"""The pairs of types that can be multiplied: for those of a and b, what out may be, the usual type first."""

TENSOR_PAIRS = PRODUCTS.keys() - {(fp32, fp32)}
"""Those that tensor cores multiply without loss."""


def results(a: DType, b: DType, *, scaled: bool) -> tuple[DType, ...]:
    """What out may be of the product of these types, the usual one first; whole numbers have no scales."""
    kinds = PRODUCTS.get((a, b), ())
    return tuple(kind for kind in kinds if kind.kind == "float") if scaled else kinds


_TAKEN: dict[str, tuple[DType, ...]] = {
    **dict.fromkeys(("a.dtype", "b.dtype"), (*FLOATS, *FP8, int8)),
    **dict.fromkeys(("c.dtype", "bias.dtype"), FLOATS),
    **dict.fromkeys(("scale_a.dtype", "scale_b.dtype", "scale_out.dtype"), (fp32,)),
    "zero_a.dtype": (int32,),
    **dict.fromkeys(("outputs['amax'].dtype", "outputs['column_sums'].dtype"), (fp32,)),
    "x.dtype": FLOATS,
    **dict.fromkeys(("out_dtype", "out.dtype"), (*FLOATS, *FP8, int32)),
}
"""What an array may be, where that is not everything."""

_BY_NAME = {alias: d for d in SUPPORTED for alias in (d.name, d.numpy, d.torch)} | {"fp8": fp8_e4m3}
"""Also by the names that NumPy and torch have; fp8 alone is the one with the finer steps, as in most models."""


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
        takes = _TAKEN.get(argument, FLOATS if argument.startswith(("operands[", "outputs[")) else SUPPORTED)
        names = ", ".join(each.name for each in takes)
        remedy = f"pass an out of {names}" if argument == "out.dtype" else f"use {names}"
        if argument.endswith(".dtype") and argument != "out.dtype":
            remedy += " (an array of another: convert it first)"
        raise ArgumentTypeError(f"{argument}={name} is not a supported dtype: {remedy}")
    return found
