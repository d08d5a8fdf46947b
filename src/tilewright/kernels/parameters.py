"""The arguments that every kernel takes: the Python twin of cuda/parameters.cuh, and tensor maps."""

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tilewright.dtypes import DType
from tilewright.problem import MAX_BATCH_DIMS, OPERANDS, Problem

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


def _in_order(structure: type[ctypes.Structure]) -> str:
    """An expression that C++ takes only if its structure has these fields in this order, and nothing after them."""
    fields = ", ".join(f".{name} = {{}}" for name, *_ in structure._fields_)
    return f"sizeof({structure.__name__}{{{fields}}}) == {ctypes.sizeof(structure)}"


SAME_PARAMETERS = (
    f"{_in_order(MatrixParameters)} && {_in_order(GemmParameters)}",
    "parameters.py and parameters.cuh must agree",
)
"""The assertion about the CUDA twins."""


L2_PROMOTION_BYTES = 128
"""What L2 fetches at least for a copy by one of our tensor maps."""


class TensorMapSpec(NamedTuple):
    """A tensor map as `cuTensorMapEncodeTiled` takes it, except the address, which is `operand`'s pointer.

    Dimensions run innermost first; `strides` are in bytes and leave out the innermost; `swizzle` is the span in bytes
    (0, 32, 64, 128).
    """

    operand: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

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
    that itself (programmatic dependent launch).
    """

    grid: int
    block: int
    cluster: int
    smem_bytes: int
    dependent: bool = False


class KernelArguments(NamedTuple):
    """The arguments that a launch passes: the tensor maps in order, then one `GemmParameters`.

    group_m, prefetch: what a Config says of the order of tiles and of L2, on which no compiled code depends.
    """

    tensor_maps: tuple[TensorMapSpec, ...]
    problem: Problem
    group_m: int = 1
    prefetch: int = 0

    def parameters(self, pointers: Mapping[str, int], alpha: float, beta: float) -> GemmParameters:
        """The parameter structure of one launch."""
        parameters = gemm_parameters(self)
        for name, pointer in pointers.items():
            getattr(parameters, name).pointer = pointer
        parameters.alpha, parameters.beta = alpha, beta
        return parameters


def gemm_parameters(arguments: KernelArguments) -> GemmParameters:
    """The parameters of a launch with null pointers, alpha 1 and beta 0."""
    problem, group_m, prefetch = arguments.problem, arguments.group_m, arguments.prefetch
    parameters = GemmParameters(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        batch_count=problem.batch_count,
        alpha=1.0,
        group_m=group_m,
        prefetch=prefetch,
    )
    parameters.batch_shape[:] = problem.batch + (1,) * (MAX_BATCH_DIMS - len(problem.batch))
    words = _Words.from_buffer(parameters)  # a third of the time of setting the structures' fields
    for name, matrix in problem.operands():
        strides: list[ctypes.c_int64 | int] = [matrix.row_stride, matrix.column_stride, *matrix.batch_strides]
        first = _FIRST_STRIDES[name]
        words[first : first + len(strides)] = strides
    return parameters


_Words = ctypes.c_int64 * (ctypes.sizeof(GemmParameters) // 8)

_FIRST_STRIDES = {
    name: (getattr(GemmParameters, name).offset + MatrixParameters.row_stride.offset) // 8 for name in OPERANDS
}
"""The start of each operand's strides, in words of 8 bytes; batch strides follow those of rows and columns."""
