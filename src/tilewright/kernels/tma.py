"""Operands as TMA addresses them: tensor maps, and the rules that `cuTensorMapEncodeTiled` puts on them."""

from itertools import pairwise
from math import prod
from typing import Literal, NamedTuple

from tilewright.dtypes import DType
from tilewright.kernels.parameters import TMA_ALIGNMENT, TensorMapSpec, unused_stride
from tilewright.kernels.refusal import Refusal
from tilewright.problem import Matrix
from tilewright.rounding import round_up

MAX_STRIDE = 2**40 - 1

STORE_BYTES = 16
"""The bytes that a TMA store writes at a time along the inner dimension, even past the end (seen on an H200)."""

SWIZZLES = (32, 64, 128)
"""Bytes in which TMA can swizzle, as a whole row of a box (PTX ISA, "Swizzling Modes")."""

SMEM_ALIGNMENT = 1024
"""The bytes of the largest swizzle atom; slots of shared memory start on multiples of it."""


def ring_bytes(stages: int, stage_bytes: int, staging_bytes: int = 0) -> int:
    """The shared memory of a ring: its stages, each with two mbarriers of 8 bytes, and the staging of results."""
    used = stages * (stage_bytes + 2 * 8) + staging_bytes
    return round_up(used, SMEM_ALIGNMENT)


def ring_stages(smem_bytes: int, stage_bytes: int, staging_bytes: int = 0) -> int:
    """The most stages of a ring in so many bytes of shared memory."""
    return (smem_bytes // SMEM_ALIGNMENT * SMEM_ALIGNMENT - staging_bytes) // (stage_bytes + 2 * 8)


def swizzle_bytes(row_bytes: int) -> int:
    """The swizzle span of boxes with such rows, or 0."""
    return row_bytes if row_bytes in SWIZZLES else 0


class TmaTensor(NamedTuple):
    """Batches of matrices as TMA walks them: extents (inner, outer, batches), strides (outer, batch) in bytes.

    inner: whether the inner extent counts the matrix's columns or its rows.
    """

    operand: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    inner: Literal["row", "column"]

    def map(self, box_inner: int, box_outer: int) -> TensorMapSpec:
        """The tensor map for boxes of one batch, swizzled if their inner extent is a swizzle span."""
        box = (box_inner, box_outer, 1)
        swizzle = swizzle_bytes(box_inner * self.dtype.nbytes)
        return TensorMapSpec(self.operand, self.dtype, self.shape, self.strides, box, swizzle, self.inner)


class TmaFactor(NamedTuple):
    """A factor of a product as TMA walks it: K-major, along k, or MN-major, along m or n."""

    tensor: TmaTensor
    mn_major: bool


def tensor(
    operand: str, matrix: Matrix, rows: int, columns: int, batch: tuple[int, ...], inner: Literal["row", "column"]
) -> TmaTensor | Refusal:
    """`matrix` as a tensor whose inner dimension has the column or the row stride; or the Refusal of TMA.

    Another layout of the operand would be taken, so these refusals are avoidable; one names all faults.

    Strides of dimensions of extent 1 do not count. All batches lie one stride apart, or are the same memory. Extents
    that pass `refusal.oversized` are below 2**31, the limit of coordinates.
    """
    faults = []
    if matrix.alignment < TMA_ALIGNMENT:
        faults.append(
            f"is aligned to {matrix.alignment} byte{'s' * (matrix.alignment > 1)} and TMA needs {TMA_ALIGNMENT}"
        )
    row_stride, column_stride = matrix.row_stride, matrix.column_stride
    if inner == "column":
        extent, stride, outer, outer_steps, outer_stride = columns, column_stride, "row", rows, row_stride
    else:
        extent, stride, outer, outer_steps, outer_stride = rows, row_stride, "column", columns, column_stride
    batch_stride = _uniform_stride(batch, matrix.batch_strides) if batch else 0
    if batch_stride is None:
        faults.append(f"has batch strides {matrix.batch_strides} over {batch} and TMA walks batches by one stride")
        batch_stride = 0
    steps = [(outer, outer_steps, outer_stride), ("batch", prod(batch) if batch_stride else 1, batch_stride)]
    if extent > 1 and stride != 1:
        faults.append(
            f"has row stride {row_stride} and column stride {column_stride}, and TMA needs one of them to be 1"
        )
        steps.pop(0)  # to change these strides changes the outer one
    strides = []
    for name, count, stride in steps:
        stride_bytes = unused_stride(extent, matrix.dtype) if count == 1 else stride * matrix.dtype.nbytes
        if stride_bytes % TMA_ALIGNMENT or not 0 < stride_bytes <= MAX_STRIDE:
            most = f" up to {MAX_STRIDE:,}" if stride_bytes > MAX_STRIDE else ""
            faults.append(
                f"has {name} stride {stride} ({stride_bytes} bytes) and TMA needs a positive multiple of "
                f"{TMA_ALIGNMENT} bytes{most}"
            )
        strides.append(stride_bytes)
    if faults:
        return Refusal(f"{operand} {', and it '.join(faults)}", operand)
    batch_steps = steps[-1][1]
    return TmaTensor(operand, matrix.dtype, (extent, outer_steps, batch_steps), tuple(strides), inner)


def factor(
    operand: str, matrix: Matrix, rows: int, columns: int, batch: tuple[int, ...], k: Literal["row", "column"]
) -> TmaFactor | Refusal:
    """A factor of a product with the summed dimension `k`; or the Refusal of TMA.

    The factor is K-major if both ways are possible.
    """
    mn: Literal["row", "column"]
    if k == "row":
        mn, k_extent, k_stride, mn_stride = "column", rows, matrix.row_stride, matrix.column_stride
    else:
        mn, k_extent, k_stride, mn_stride = "row", columns, matrix.column_stride, matrix.row_stride
    if k_stride == 1 or k_extent <= 1:
        k_major = tensor(operand, matrix, rows, columns, batch, k)
        if isinstance(k_major, TmaTensor):
            return TmaFactor(k_major, False)
    mn_major = tensor(operand, matrix, rows, columns, batch, mn)
    if isinstance(mn_major, TmaTensor):
        return TmaFactor(mn_major, True)
    refused = mn_major if mn_stride == 1 else tensor(operand, matrix, rows, columns, batch, k)
    assert isinstance(refused, Refusal)
    return refused


def _uniform_stride(extents: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The one stride that walks all of `extents` in order; 0 if all are broadcast; None if there is none."""
    steps = [(extent, stride) for extent, stride in zip(extents, strides, strict=True) if extent > 1]
    for (_, outer), (extent, inner) in pairwise(steps):
        if outer != extent * inner:
            return None
    return steps[-1][1] if steps else 0
