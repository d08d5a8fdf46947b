"""From the operands of a call of `quantize` to its Quantization: shapes, memory orders, checks."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright import dtypes
from tilewright.dtypes import FLOATS, DType, fp32, int8
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.kernels.quantize import BLOCK, CODES, MATRICES, Quantization
from tilewright.operand import HOST, Operand, values_of
from tilewright.planner.scaling import LEAST_SCALE
from tilewright.problem import MAX_BATCH_DIMS, QUANTIZED, Matrix, merged_batch
from tilewright.rounding import ceil_div, round_up

BLOCKS = ("tensor", "row", "1x128", "128x128")
"""What has a scale of its own."""

ALIGNED_SCALES = 4
"""Columns of the scales of 1 x 128 blocks begin on multiples of this many: 16 bytes, as TMA wants it."""


class Options(NamedTuple):
    """How x is quantized, as `tilewright.quantize` takes it."""

    dtype: DType
    block: str
    power_of_two: bool
    saturate: bool
    transposed: bool

    @classmethod
    def of(cls, dtype: object, block: object, power_of_two: object, saturate: object, transposed: object) -> "Options":
        """The options, checked: a TypeError or ValueError names what is wrong."""
        flags = {"power_of_two": power_of_two, "saturate": saturate, "transposed": transposed}
        for name, value in flags.items():
            if type(value) is not bool:
                raise ArgumentTypeError(f"{name}={value!r} is not a bool: pass True or False")
        kind = dtypes.by_name(dtype)
        if kind is None or kind not in CODES:
            names = ", ".join(code.name for code in CODES)
            raise ArgumentTypeError(f"dtype={dtype} is not a type that quantize makes: use one of {names}")
        if not isinstance(block, str) or block not in BLOCKS:
            raise ArgumentValueError(f"block={block!r} is unknown: use one of {', '.join(map(repr, BLOCKS))}")
        if kind is int8 and not saturate:
            raise ArgumentValueError(
                "saturate=False keeps Inf and NaN, for which int8 has no codes: leave saturate out, or take fp8"
            )
        return cls(kind, block, power_of_two is True, saturate is True, transposed is True)

    @property
    def by_line(self) -> bool:
        """Whether rows have scales of their own, so that x.T has others."""
        return self.block in ("row", "1x128")

    @property
    def whole(self) -> bool:
        """Whether a scale is for whole rows, or all of x."""
        return self.block in ("tensor", "row")

    def scale_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the scales of an array of this shape."""
        *batch, m, k = shape
        if self.block == "tensor":
            return ()
        return (*batch, m if self.by_line else ceil_div(m, BLOCK), 1 if self.whole else ceil_div(k, BLOCK))


class Form(NamedTuple):
    """An array of the result: its shape and dtype, and the shape in which it is allocated, row-major.

    view: makes the array of what was allocated; None if that is the array.
    """

    shape: tuple[int, ...]
    dtype: DType
    allocated: tuple[int, ...]
    view: Callable[[Any], Any] | None = None


def forms(options: Options, shape: tuple[int, ...]) -> list[Form]:
    """The arrays of the result for an x of this shape, as in QUANTIZED; that of a scale of both appears once."""
    *batch, m, k = shape
    found = []
    for each in (shape, (*batch, k, m))[: 1 + options.transposed]:
        found.append(Form(each, options.dtype, each))
        if len(found) == 1 or options.by_line:
            found.append(_form_of_scales(options, each))
    return found


def _form_of_scales(options: Options, shape: tuple[int, ...]) -> Form:
    scales = options.scale_shape(shape)
    if options.block != "1x128" or 0 in scales:
        return Form(scales, fp32, scales)
    # Neighboring rows are neighbors in memory, over all batches, as kernels of products read them.
    lines = prod(scales[:-1])
    padded = (scales[-1], round_up(lines, ALIGNED_SCALES))
    return Form(scales, fp32, padded, lambda array: array[:, :lines].swapaxes(0, 1).reshape(scales))


class Operands(NamedTuple):
    """The operands of a call; the scale if it is given, and in outs those of QUANTIZED that are named, else None."""

    x: Operand
    scale: Operand | None
    outs: Sequence[Operand | None]


def check_inputs(x: Operand, scale: Operand | None, options: Options) -> None:
    """Raise a TypeError or ValueError for an x, or a scale, that does not fit the options."""
    if x.dtype not in FLOATS:
        names = ", ".join(kind.name for kind in FLOATS)
        raise ArgumentTypeError(f"x is {x.dtype}, which is not quantized: convert it to one of {names}")
    if len(x.shape) < 2:
        raise ArgumentValueError(
            f"x has shape {x.shape}, and quantize takes (..., m, k): give it two dimensions or more, as x.reshape(1, k)"
        )
    if scale is None:
        return
    if scale.dtype is not fp32:
        raise ArgumentTypeError(f"scale is {scale.dtype} and must be fp32: convert it")
    if scale.device != x.device:
        raise ArgumentValueError(f"scale is on {scale.place} and x on {x.place}: put both on one device")
    if options.power_of_two:
        raise ArgumentValueError("power_of_two=True rounds the scale that is found, and scale is given: drop one")
    if options.transposed and options.by_line:
        raise ArgumentValueError(
            f"scale is that of x, and with block={options.block!r} x.T has another: call quantize for each"
        )
    expected = options.scale_shape(x.shape)
    if scale.shape != expected and not (options.block == "tensor" and prod(scale.shape) == 1):
        raise ArgumentValueError(
            f"scale has shape {scale.shape}, and of x {x.shape} with block={options.block!r} it is {expected}: "
            f"pass that"
        )
    if scale.device == HOST:
        values = values_of(scale)
        wrong = values[~((values >= LEAST_SCALE) & np.isfinite(values))]
        if wrong.size:
            raise ArgumentValueError(
                f"scale has {wrong.flat[0]} among its elements, and a scale is finite and at least 2^-126: pass others"
            )


def check_outs(operands: Operands, options: Options) -> None:
    """Raise a TypeError or ValueError for an out that does not fit."""
    x, scale, outs = operands
    known = {"x": x} | ({} if scale is None else {"scale": scale})
    for name, form, out in zip(QUANTIZED, forms(options, x.shape), outs, strict=False):
        if out is None:
            continue
        if out.dtype is not form.dtype:
            raise ArgumentTypeError(f"{name} is {out.dtype} and must be {form.dtype}: pass another")
        if out.shape != form.shape:
            raise ArgumentValueError(f"{name} has shape {out.shape} and must have {form.shape}: pass another")
        if out.device != x.device:
            raise ArgumentValueError(f"{name} is on {out.place} and x on {x.place}: put both on one device")
        if not out.writable:
            raise ArgumentValueError(f"{name} is read-only: pass an array that may be written")
        if form.dtype is options.dtype and out.shape[-1] > 1 and out.strides[-1] != 1 and 0 not in out.shape:
            raise ArgumentValueError(
                f"{name} has strides of {out.strides} elements, and codes along its last dimension must be neighbors: "
                f"pass a contiguous array"
            )
        if out.overlaps_itself():
            raise ArgumentValueError(f"{name} is a view whose elements share memory: pass an array of its own")
        for other, operand in known.items():
            if out.overlaps(operand):
                raise ArgumentValueError(f"{name} overlaps {other}: pass arrays that share no memory")
        known[name] = out


def bind(operands: Operands, options: Options) -> tuple[Quantization, bool]:
    """The Quantization of x as it lies in memory, and whether it is that of x.T.

    Raises a NotImplementedError if there are too many batch dimensions.
    """
    x, given, outs = operands
    *batch, m, k = x.shape
    codes, scale, transposed_codes, transposed_scale = (
        None if each is None else _matrix(each, len(batch)) for each in (*outs, *(None,) * (4 - len(outs)))
    )
    question = Quantization(
        m,
        k,
        tuple(batch),
        _matrix(x, len(batch)),
        options.dtype,
        codes,
        scale if given is None else _matrix(given, len(batch)),
        transposed_codes,
        transposed_scale,
        by_line=options.by_line,
        whole=options.whole,
        given=given is not None,
        power_of_two=options.power_of_two,
        saturate=options.saturate,
    )
    question = _normalized(_without_elements(question) if 0 in x.shape else _folded(_merged(question)))
    if len(question.batch) > MAX_BATCH_DIMS:
        raise UnsupportedError(
            f"x has {len(question.batch)} batch dimensions {question.batch} that cannot be merged; at most "
            f"{MAX_BATCH_DIMS} are supported: make x contiguous, or loop over the outermost dimension"
        )
    return (question, False) if question.x.is_row_major else (question.transposed, True)


def _matrix(operand: Operand, batch: int) -> Matrix:
    """The last two dimensions of an operand; what is one number for all has no strides."""
    if prod(operand.shape) == 1:
        return Matrix(operand.dtype, 0, 0, (0,) * batch, operand.alignment)
    *strides, row, column = operand.strides
    return Matrix(operand.dtype, row, column, tuple(strides), operand.alignment)


def _matrices(question: Quantization) -> dict[str, Matrix]:
    named = {name: getattr(question, name) for name in ("x", *MATRICES)}
    return {name: matrix for name, matrix in named.items() if matrix is not None}


def _without_elements(question: Quantization) -> Quantization:
    """The Quantization of nothing, which may have scales: one for all, or one of each row without columns."""
    matrices = {name: matrix._replace(batch_strides=()) for name, matrix in _matrices(question).items()}
    rows = question.rows * question.batch_count if question.by_line and not question.columns else 0
    columns = question.columns * question.batch_count if question.by_line and not question.rows else 0
    return question._replace(**matrices, rows=rows, columns=columns, batch=())  # type: ignore[arg-type]


def _merged(question: Quantization) -> Quantization:
    """Batch dimensions that all matrices walk with one stride are one."""
    batch, matrices = merged_batch(question.batch, _matrices(question))
    return question._replace(**matrices, batch=batch)  # type: ignore[arg-type]


def _folded(question: Quantization) -> Quantization:
    """The last batch dimension as rows, if all matrices walk both with one stride, and scales are not of blocks."""
    if not question.batch or question.transposed_codes is not None or not (question.by_line or question.whole):
        return question
    rows, matrices = question.rows, _matrices(question)
    if rows == 1:
        matrices = {name: matrix._replace(row_stride=matrix.batch_strides[-1]) for name, matrix in matrices.items()}
    elif any(matrix.batch_strides[-1] != rows * matrix.row_stride for matrix in matrices.values()):
        return question
    folded = {name: matrix._replace(batch_strides=matrix.batch_strides[:-1]) for name, matrix in matrices.items()}
    *batch, last = question.batch
    return question._replace(**folded, rows=rows * last, batch=tuple(batch))  # type: ignore[arg-type]


def _normalized(question: Quantization) -> Quantization:
    """The same with strides of 0, or 1 along rows, where no index multiplies them."""
    changed = {}
    for name, matrix in _matrices(question).items():
        is_scale = name.endswith("scale")
        down, across = question.rows, question.columns
        if name.startswith("transposed"):
            down, across = across, down
        row_stride = matrix.row_stride if down > 1 else 0
        column_stride = matrix.column_stride if across > 1 else 1
        if is_scale and question.whole:
            column_stride = 0  # there is one column
        changed[name] = matrix._replace(row_stride=row_stride, column_stride=column_stride)
    return question._replace(**changed)  # type: ignore[arg-type]
