"""From the operands of a call to its Problem: broadcasting, merging of dimensions, orientation, checks."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tilewright.dtypes import PRODUCTS, fp32
from tilewright.errors import ArgumentValueError, UnsupportedError
from tilewright.expression.tree import OUT_SCALE, Expression
from tilewright.operand import Operand
from tilewright.planner.element_types import check_dtypes, use_of
from tilewright.planner.scaling import check_out_scale, check_scales, over_sums
from tilewright.problem import (
    ACTIVATIONS,
    ADDENDS,
    MAX_BATCH_DIMS,
    WRITTEN,
    Epilogue,
    Matrix,
    Problem,
    cuts_k,
    key_of,
    merged_batch,
    output_key,
)
from tilewright.rounding import round_up


class Binding(NamedTuple):
    """A Problem, and whether the call's a is its b, since the transposed product is computed."""

    problem: Problem
    is_exchanged: bool = False


def result_shape(a: Operand, b: Operand, gate: str | None = None) -> tuple[int, ...]:
    """The shape of a @ b by `numpy.matmul`'s rules, with a gate of half as many columns.

    Raises a ValueError with both shapes if they do not fit.
    """
    for name, operand in (("a", a), ("b", b)):
        if not operand.shape:
            raise ArgumentValueError(
                f"{name} is a scalar (shape ()); matmul takes arrays of one or more dimensions: use *"
            )
    k, k_b = a.shape[-1], b.shape[-2] if len(b.shape) > 1 else b.shape[-1]
    if k != k_b:
        raise ArgumentValueError(
            f"a has shape {a.shape} and b {b.shape}: a's last dimension ({k}) must equal b's "
            f"{'second to last' if len(b.shape) > 1 else 'only one'} ({k_b}); should one of them be transposed?"
        )
    batch = _broadcast_shapes(a.shape[:-2], b.shape[:-2], a, b)
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    if gate is not None:
        if not columns or columns[0] % 2:
            raise ArgumentValueError(
                f"b has shape {b.shape}, and gate={gate!r} makes one column of the result of two of b: pass a b with "
                f"an even number of columns"
            )
        columns = (columns[0] // 2,)
    return batch + (a.shape[-2:-1] if len(a.shape) > 1 else ()) + columns


def bind(
    operands: Mapping[str, Operand],
    *,
    activation: str | None,
    expression: Expression | None = None,
    multiplies: bool = True,
) -> Binding:
    """The Problem of the operands `a`, `b`, `out`, perhaps `c` and `bias`, and those of an expression by their keys.

    `multiplies` is False if alpha is 0: then a and b are not read. Raises TypeError, ValueError or NotImplementedError
    that names the argument, the rule and the remedy.
    """
    if expression is None and multiplies and (plain := _plain(operands, activation)) is not None:
        return Binding(plain)
    a, b = operands["a"], operands["b"]
    gate = None if expression is None else expression.gate
    shape = result_shape(a, b, gate)
    _check(operands, shape, activation, expression)
    scales = () if expression is None else expression.scales
    of_expression = () if expression is None else tuple(map(key_of, expression.operands))
    outputs = () if expression is None else tuple(map(output_key, expression.outputs))
    views = {
        "a": _with_axis(a, -2) if len(a.shape) == 1 else a,
        "b": _with_axis(b, -1) if len(b.shape) == 1 else b,
    }
    for name in (*ADDENDS, "out", *of_expression, *outputs):
        if name in operands:
            view = operands[name]
            if name in (output_key("amax"), OUT_SCALE):
                view = view._replace(shape=shape, strides=(0,) * len(shape))
            elif name == output_key("column_sums"):
                along = view.strides if len(b.shape) > 1 else (0,) * min(1, len(shape))
                view = view._replace(shape=shape, strides=(0,) * (len(shape) - len(along)) + along)
            elif expression is not None and expression.recipe is not None and name in scales:
                view = over_sums(name, view, expression.recipe, result_shape(a, b))
            elif name not in outputs:
                view = _broadcast(view, shape, name, expression)
            if len(b.shape) == 1:
                view = _with_axis(view, -1)
            views[name] = _with_axis(view, -2) if len(a.shape) == 1 else view
    m, k = views["a"].shape[-2:]
    n = views["b"].shape[-1]
    batch = views["out"].shape[:-2]
    for name in ("a", "b"):
        views[name] = _broadcast(views[name], batch + views[name].shape[-2:], name)
    matrices = {name: _matrix(view) for name, view in views.items()}
    epilogue = Epilogue(
        **{name: matrices.pop(name) for name in ADDENDS if name in matrices},
        activation=activation,
        expression=expression,
        operands=tuple(matrices.pop(name) for name in of_expression),
        outputs=tuple(matrices.pop(name) for name in outputs),
    )
    a_matrix, b_matrix, out_matrix = (matrices[name] for name in ("a", "b", "out"))
    problem = Problem(m, n, k if multiplies else 0, a_matrix, b_matrix, out_matrix, batch, epilogue)
    problem = _fold_batch_into_rows(_merge_batch(problem))
    if len(problem.batch) > MAX_BATCH_DIMS:
        raise UnsupportedError(
            f"a, b and out have {len(problem.batch)} batch dimensions {problem.batch} that cannot be merged; at most "
            f"{MAX_BATCH_DIMS} are supported: make the operands contiguous or loop over the outermost dimension"
        )
    if not epilogue.keeps_columns and _column_major(problem):
        return Binding(normalized(problem.transposed), is_exchanged=True)
    return Binding(normalized(problem))


def _plain(operands: Mapping[str, Operand], activation: str | None) -> Problem | None:
    """The Problem of three matrices and a row-major out apart from the others, the usual case, in a third of the time.

    None for any other product, and for one with which something is wrong.
    """
    if len(operands) > 3:
        return None
    a, b, out = operands["a"], operands["b"], operands["out"]
    if not len(a.shape) == len(b.shape) == len(out.shape) == 2:
        return None
    (m, k), (k_b, n), (row_stride, column_stride) = a.shape, b.shape, out.strides
    fits = k == k_b and out.shape == (m, n) and m > 1 and n > 1 and k > 1
    alike = out.dtype in PRODUCTS.get((a.dtype, b.dtype), ()) and a.device == b.device == out.device
    alike = alike and (activation is None or out.dtype.kind == "float")
    row_major = column_stride == 1 and row_stride >= n
    if not (fits and alike and row_major and out.writable and _is_known(activation)):
        return None
    low, high = out.byte_range()
    for operand in (a, b):
        first, last = operand.byte_range()
        if first < high and low < last:
            return None
    return Problem(m, n, k, _matrix(a), _matrix(b), _matrix(out), (), _EPILOGUES[activation])


_EPILOGUES = {activation: Epilogue(activation=activation) for activation in (None, *ACTIVATIONS)}


def check_activation(activation: object) -> None:
    """Raise a ValueError for an unknown activation."""
    if not _is_known(activation):
        raise ArgumentValueError(f"activation={activation!r} is unknown: use None or one of {', '.join(ACTIVATIONS)}")


def _is_known(activation: object) -> bool:
    return activation is None or (isinstance(activation, str) and activation in ACTIVATIONS)


def _check(
    operands: Mapping[str, Operand], shape: tuple[int, ...], activation: str | None, expression: Expression | None
) -> None:
    a, b, out = operands["a"], operands["b"], operands["out"]
    check_dtypes(operands, activation, expression)
    check_activation(activation)
    for name, operand in operands.items():
        if operand.device != a.device:
            raise ArgumentValueError(
                f"{name} is on {operand.place} and a on {a.place}: all operands must be on one device; move {name}"
                f"{use_of(name, expression)}"
            )
    if out.shape != shape:
        product = "the gated product" if expression is not None and expression.gate else "a @ b"
        raise ArgumentValueError(
            f"out has shape {out.shape}, but {product} has shape {shape}: pass an out of that shape"
        )
    if expression is not None:
        if expression.recipe is not None:
            check_scales(operands, expression.recipe)
        if OUT_SCALE in operands:
            check_out_scale(operands[OUT_SCALE], out)
        _check_outputs(operands, result_shape(a, b), expression)
    for written in WRITTEN if expression else ("out",):
        if written in operands:
            _check_written(written, operands, expression)


def _check_outputs(operands: Mapping[str, Operand], shape: tuple[int, ...], expression: Expression) -> None:
    """Raise an error if a further output has another form than it must have; `shape` is that of the sums."""
    for name in expression.outputs:
        key, output = output_key(name), operands[output_key(name)]
        if name == "acc" and output.shape != shape:
            raise ArgumentValueError(
                f"{key} has shape {output.shape}, and the sums have {shape}: pass an array of that"
            )
        if name == "amax" and (prod(output.shape) != 1 or output.dtype is not fp32):
            raise ArgumentValueError(
                f"{key} has shape {output.shape} and dtype {output.dtype}: pass an array of one fp32 number"
            )
        columns = operands["out"].shape[-1] if len(operands["b"].shape) > 1 else 1
        if name == "column_sums" and (output.shape != (columns,) or output.dtype is not fp32):
            raise ArgumentValueError(
                f"{key} has shape {output.shape} and dtype {output.dtype}: pass an array of fp32 numbers, one for each "
                f"column of the result, of shape {(columns,)}"
            )


def _check_written(written: str, operands: Mapping[str, Operand], expression: Expression | None) -> None:
    """Raise an error if an operand cannot be written, or shares memory with another."""
    out = operands[written]
    if not out.writable:
        raise ArgumentValueError(
            f"{written} is read-only: pass a writable array (a broadcast view or a JAX array cannot be written)"
        )
    if out.overlaps_itself():
        raise ArgumentValueError(
            f"{written} with shape {out.shape} and strides of {out.strides} elements names some memory twice: pass an "
            f"{written} without overlap"
        )
    low, high = out.byte_range()
    for name, operand in operands.items():
        other_low, other_high = operand.byte_range()
        if name == written or high <= other_low or other_high <= low or not out.overlaps(operand):
            continue
        same = operand.pointer == out.pointer and operand.strides == out.strides and operand.shape == out.shape
        if not ((written, name) == ("out", "c") and same and operand.dtype == out.dtype):
            harm = "write both" if name in WRITTEN else "read what it has overwritten"
            only = "" if expression else " (only c may be out itself, with the same shape, strides and dtype)"
            raise ArgumentValueError(
                f"{written} shares memory with {name}: the kernel would {harm}; pass another {written}{only}"
                f"{use_of(name, expression)}"
            )


def _broadcast_shapes(first: tuple[int, ...], second: tuple[int, ...], a: Operand, b: Operand) -> tuple[int, ...]:
    rank = max(len(first), len(second))
    padded = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    shape = []
    for x, y in padded:
        if x != y and 1 not in (x, y):
            raise ArgumentValueError(
                f"a has shape {a.shape} and b {b.shape}: their batch dimensions {first} and {second} do not broadcast "
                f"({x} against {y}); they must be equal or 1"
            )
        shape.append(y if x == 1 else x)
    return tuple(shape)


def _broadcast(operand: Operand, shape: tuple[int, ...], name: str, expression: Expression | None = None) -> Operand:
    """The operand as seen with `shape`."""
    seen = operand.broadcast(shape)
    if seen is None:
        more = f", and leave out those beyond {len(shape)}" if len(operand.shape) > len(shape) else ""
        if operand.shape == shape[-2:-1]:
            more = f"; for one value a row, pass the shape ({shape[-2]}, 1)"
        raise ArgumentValueError(
            f"{name} has shape {operand.shape}, which does not broadcast to the result's shape {shape}: every "
            f"dimension must be 1 or match, counted from the last{more}{use_of(name, expression)}"
        )
    return seen


def _with_axis(operand: Operand, axis: int) -> Operand:
    """The operand with a dimension of extent 1 inserted, counted from the end as in `numpy.expand_dims`."""
    position = len(operand.shape) + 1 + axis

    def insert(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:position], value, *values[position:])

    return operand._replace(shape=insert(operand.shape, 1), strides=insert(operand.strides, 0))


def _matrix(view: Operand) -> Matrix:
    strides = view.strides
    return Matrix(view.dtype, strides[-2], strides[-1], strides[:-2], view.alignment)


def _merge_batch(problem: Problem) -> Problem:
    """Drop batch dimensions of extent 1 and merge neighbors that every operand walks with one stride."""
    if not problem.batch:
        return problem
    batch, matrices = merged_batch(problem.batch, dict(problem.operands()))
    return problem.with_operands(matrices)._replace(batch=batch)


def _fold_batch_into_rows(problem: Problem) -> Problem:
    """Turn (batch, m, k) @ (k, n) into one product of batch * m rows if memory allows: the linear layer's case."""
    if not problem.batch or problem.b.batch_strides[-1] != 0:
        return problem
    if cuts_k(problem.recipe):  # rows of scales of b are not rows of the product
        return problem
    rows = {name: matrix for name, matrix in problem.operands() if name != "b"}
    if problem.m == 1:
        steps = {name: matrix.batch_strides[-1] for name, matrix in rows.items()}
    elif all(matrix.batch_strides[-1] == problem.m * matrix.row_stride for matrix in rows.values()):
        steps = {name: matrix.row_stride for name, matrix in rows.items()}
    else:
        return problem
    folded = {
        name: matrix._replace(row_stride=steps.get(name, matrix.row_stride), batch_strides=matrix.batch_strides[:-1])
        for name, matrix in problem.operands()
    }
    return problem.with_operands(folded)._replace(m=problem.m * problem.batch[-1], batch=problem.batch[:-1])


def _column_major(problem: Problem) -> bool:
    """Whether out is contiguous along its columns: then the transposed product stores better."""
    return (
        problem.m > 1 and abs(problem.out.row_stride) == 1 and (problem.n > 1 and abs(problem.out.column_stride) != 1)
    )


def normalized(problem: Problem) -> Problem:
    """Give dimensions of extent 1, whose strides mean nothing, the strides of a packed, aligned array."""
    if min(problem.m, problem.columns, problem.k) > 1:
        return problem
    changed = {}
    for name, matrix in problem.operands():
        rows, columns = problem.extents(name)
        row_stride, column_stride = matrix.row_stride, matrix.column_stride
        if columns <= 1:
            column_stride = 1 if rows <= 1 else _packed(rows, row_stride)
        if rows <= 1:
            row_stride = _packed(columns, column_stride)
        changed[name] = matrix._replace(row_stride=row_stride, column_stride=column_stride)
    return problem.with_operands(changed) if changed else problem


def _packed(extent: int, stride: int) -> int:
    return max(8, round_up(extent * max(abs(stride), 1), 8))
