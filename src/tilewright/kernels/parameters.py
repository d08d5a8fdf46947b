"""The arguments that every kernel takes: the Python twin of cuda/parameters.cuh, and tensor maps."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from tilewright.dtypes import DType
from tilewright.problem import MAX_BATCH_DIMS, OPERANDS, Problem, operand_names
from tilewright.rounding import round_up

if TYPE_CHECKING:  # planning does without it
    from tilewright.model.tensor_map import TensorMapModel


class MatrixParameters(ctypes.Structure):
    """Pointer and strides (in elements) of one operand."""

    _fields_ = (
        ("pointer", ctypes.c_uint64),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("batch_strides", ctypes.c_int64 * MAX_BATCH_DIMS),
    )


class GemmParameters(ctypes.Structure):
    """The arguments of a launch; pointers and scalars change from call to call, the rest does not."""

    _fields_ = (
        *((name, MatrixParameters) for name in OPERANDS),
        ("m", ctypes.c_int32),
        ("n", ctypes.c_int32),
        ("k", ctypes.c_int32),
        ("batch_count", ctypes.c_int32),
        ("batch_shape", ctypes.c_int32 * MAX_BATCH_DIMS),
        ("alpha", ctypes.c_float),
        ("beta", ctypes.c_float),
        ("group_m", ctypes.c_int32),
        ("prefetch", ctypes.c_int32),
    )


@cache
def parameters_type(operands: int) -> type[GemmParameters]:
    """GemmParameters, followed by those of so many operands and outputs of an expression: ExpressionParameters."""
    if not operands:
        return GemmParameters
    fields = {"_fields_": (("operands", MatrixParameters * operands),)}
    return type(f"ExpressionParameters{operands}", (GemmParameters,), fields)


def _in_order(structure: type[ctypes.Structure]) -> str:
    """An expression that C++ takes only if its structure has these fields in this order, and nothing after them."""
    fields = ", ".join(f".{name} = {{}}" for name, *_ in structure._fields_)
    return f"sizeof({structure.__name__}{{{fields}}}) == {ctypes.sizeof(structure)}"


SAME_PARAMETERS = (
    f"{_in_order(MatrixParameters)} && {_in_order(GemmParameters)}",
    "parameters.py and parameters.cuh must agree",
)
"""The assertion about the CUDA twins."""


def same_parameters(cuda: str, operands: int) -> tuple[str, str]:
    """The same of the parameters of an expression, whose CUDA type is named `cuda`."""
    size, own = ctypes.sizeof(parameters_type(operands)), ctypes.sizeof(GemmParameters)
    rule = f"sizeof({cuda}) == {size} && sizeof(GemmParameters) == {own}"
    return rule, SAME_PARAMETERS[1]


L2_PROMOTION_BYTES = 128
"""What L2 fetches at least for a copy by one of our tensor maps."""

TMA_ALIGNMENT = 16
"""The alignment of addresses and strides that TMA needs, in bytes."""


def unused_stride(inner: int, dtype: DType) -> int:
    """A valid stride in bytes for a dimension of extent 1, beside an inner dimension of so many elements."""
    return round_up(inner * dtype.nbytes, TMA_ALIGNMENT)


class TensorMapSpec(NamedTuple):
    """A tensor map as `cuTensorMapEncodeTiled` takes it, except the address, which is `operand`'s pointer.

    Dimensions run innermost first; `strides` are in bytes and leave out the innermost; `swizzle` is the span in bytes
    (0, 32, 64, 128). inner: whether the innermost dimension walks the operand's columns or its rows.
    """

    operand: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    inner: Literal["row", "column"]

    def resized(self, problem: Problem) -> "TensorMapSpec":
        """The map for a problem that differs in an extent alone, which is 2 or more in both."""
        rows, columns = problem.extents(self.operand)
        inner, outer = (columns, rows) if self.inner == "column" else (rows, columns)
        before, before_outer, batches = self.shape
        if inner == before and outer == before_outer:
            return self
        strides = self.strides
        if inner != before and batches == 1:
            strides = strides[0], unused_stride(inner, self.dtype)
        shape = inner, outer, batches
        return TensorMapSpec(self.operand, self.dtype, shape, strides, self.box, self.swizzle, self.inner)

    @property
    def model(self) -> "TensorMapModel":
        """The map with what follows from its fields."""
        from tilewright.model.tensor_map import TensorMapModel

        return TensorMapModel(
            self.dtype.tma, self.dtype.nbytes, self.shape, self.strides, self.box, self.swizzle, L2_PROMOTION_BYTES
        )


class LaunchShape(NamedTuple):
    """Grid, block and cluster sizes (one-dimensional) and the dynamic shared memory of a block in bytes.

    dependent: whether the grid may start before the one ahead of it in the stream has ended, since the kernel waits for
    that itself (programmatic dependent launch). keeps_l1: whether what an SM has in flight and reads again goes through
    L1, so that shared memory gets no more of the SM than CTAs have. spare_bytes: shared memory that a CTA has besides
    on a GPU and does not touch, so that others find no room beside it.
    """

    grid: int
    block: int
    cluster: int
    smem_bytes: int
    dependent: bool = False
    keeps_l1: bool = False
    spare_bytes: int = 0


class Arguments(Protocol):
    """The arguments that a launch passes: the tensor maps in order, then one structure of parameters."""

    @property
    def tensor_maps(self) -> tuple[TensorMapSpec, ...]:
        """What the kernel takes before its parameters."""

    def structure(self) -> GemmParameters:
        """The parameters with null pointers, alpha 1 and beta 0."""

    def places(self) -> tuple[int, ...]:
        """The places of the addresses in the parameters, in words of 8 bytes, in the order of a call's pointers."""


def parameters_of(arguments: Arguments, pointers: Sequence[int], alpha: float, beta: float) -> GemmParameters:
    """The parameters of one launch."""
    parameters = arguments.structure()
    words = words_of(parameters)
    for word, pointer in zip(arguments.places(), pointers, strict=True):
        words[word] = pointer
    parameters.alpha, parameters.beta = alpha, beta
    return parameters


class KernelArguments(NamedTuple):
    """The Arguments of a kernel that solves a Problem; pointers are in the order of `operand_names`.

    group_m, prefetch: what a Config says of the order of tiles and of L2, on which no compiled code depends.
    like: the parameters of a problem that differs from this one in m or n alone, if they were made before.
    """

    tensor_maps: tuple[TensorMapSpec, ...]
    problem: Problem
    group_m: int = 1
    prefetch: int = 0
    like: GemmParameters | None = None

    def structure(self) -> GemmParameters:
        """The parameters of a launch with null pointers, alpha 1 and beta 0."""
        if self.like is None:
            return gemm_parameters(self)
        parameters = type(self.like).from_buffer_copy(self.like)
        parameters.m, parameters.n = self.problem.m, self.problem.n
        return parameters

    def resized(self, problem: Problem) -> "KernelArguments":
        """The arguments for a problem that differs in m or n, 2 or more in both, and in strides of scales."""
        is_alike = problem.epilogue is self.problem.epilogue  # otherwise scales may lie elsewhere
        like = (self.like or gemm_parameters(self)) if is_alike else None
        maps = tuple([spec.resized(problem) for spec in self.tensor_maps])
        return KernelArguments(maps, problem, self.group_m, self.prefetch, like)

    def places(self) -> tuple[int, ...]:
        """Those of the operands, and of what an expression has."""
        return pointer_words(len(operand_names(self.problem.epilogue.expression)))


def gemm_parameters(arguments: KernelArguments) -> GemmParameters:
    """The parameters of a launch with null pointers, alpha 1 and beta 0."""
    problem, group_m, prefetch = arguments.problem, arguments.group_m, arguments.prefetch
    names = operand_names(problem.epilogue.expression)
    parameters = parameters_type(len(names) - len(OPERANDS))(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        batch_count=problem.batch_count,
        alpha=1.0,
        group_m=group_m,
        prefetch=prefetch,
    )
    parameters.batch_shape[:] = problem.batch + (1,) * (MAX_BATCH_DIMS - len(problem.batch))
    words = words_of(parameters)  # a third of the time of setting the structures' fields
    firsts = dict(zip(names, pointer_words(len(names)), strict=True))
    for name, matrix in problem.operands():
        strides: list[ctypes.c_int64 | int] = [matrix.row_stride, matrix.column_stride, *matrix.batch_strides]
        first = firsts[name] + 1
        words[first : first + len(strides)] = strides
    return parameters


def words_of(parameters: GemmParameters) -> "ctypes.Array[ctypes.c_int64]":
    """The same memory as words of 8 bytes."""
    return (ctypes.c_int64 * (ctypes.sizeof(parameters) // 8)).from_buffer(parameters)


@cache
def pointer_words(count: int) -> tuple[int, ...]:
    """The places of the addresses of `count` operands in the parameters, in words of 8 bytes; strides follow each."""
    first, size = ctypes.sizeof(GemmParameters), ctypes.sizeof(MatrixParameters)
    own = [getattr(GemmParameters, name).offset for name in OPERANDS]
    return tuple(offset // 8 for offset in (*own, *(first + size * i for i in range(count - len(OPERANDS)))))
