"""What would make a call quicker: changes of the product, each given its time by the model."""

from collections.abc import Iterator

from tilewright.dtypes import DType, bf16, fp8_e4m3, fp16, fp32, results
from tilewright.errors import TilewrightError
from tilewright.explaining.explanation import Remedy
from tilewright.hardware import Hardware
from tilewright.operand import contiguous_strides
from tilewright.planner.choose import choose
from tilewright.problem import Epilogue, Matrix, Problem
from tilewright.rounding import round_up

LEAST_GAIN = 0.02
"""Of the time: what gains less is not worth a change, and the model does not tell it from nothing."""

LINE_BYTES = 128
"""Rows that begin on lines of L2 suit every kernel."""

FREE = 1.02
"""Times as long: rows up to there cost nothing."""


def remedies(
    problem: Problem, hardware: Hardware, seconds: float, planned: float | None = None, most: int = 5
) -> tuple[Remedy, ...]:
    """The changes that gain, the best first; seconds: what the call takes now.

    planned: what it would take by the planner's choice, if the caller has chosen. If that gains, it comes before all
    else, and is no gain of the other changes, which are given the planner's choice, too.
    """
    quickest = seconds if planned is None else min(seconds, planned)
    found = [
        Remedy(change, each / work, 1 - each / work / seconds)
        for change, changed, work in _changes(problem)
        if (each := planned_seconds(changed, hardware)) is not None and 1 - each / work / quickest >= LEAST_GAIN
    ]
    found.sort(key=lambda remedy: -remedy.gain)
    if 1 - quickest / seconds >= LEAST_GAIN:
        found = [each._replace(change=f"do so, and {each.change}") for each in found]
        found.insert(0, Remedy("leave kernel and config to the planner", quickest, 1 - quickest / seconds))
    return tuple(found[:most])


def free_rows(problem: Problem, hardware: Hardware, seconds: float) -> int:
    """How many rows take about the time of the problem's own: more of them come free."""
    least, most = problem.m, problem.m
    while (each := planned_seconds(_with_rows(problem, 2 * most), hardware)) is not None and each <= FREE * seconds:
        least = most = 2 * most
        if most >= 1 << 20:
            return most
    most *= 2
    while most - least > max(1, least // 64):
        middle = (least + most) // 2
        each = planned_seconds(_with_rows(problem, middle), hardware)
        if each is not None and each <= FREE * seconds:
            least = middle
        else:
            most = middle
    return least


def planned_seconds(problem: Problem, hardware: Hardware) -> float | None:
    """The planner's choice by the model; None if no kernel takes the problem, or the model knows none."""
    try:
        found = choose(problem, hardware, quiet=True).seconds(hardware, power="settled")
    except TilewrightError:
        return None
    return found if found < float("inf") else None


def _changes(problem: Problem) -> Iterator[tuple[str, Problem, float]]:
    """What could be changed, the problem then, and how many times the work it does."""
    aligned = {name: _aligned(problem, name) for name in ("a", "b", "out")}
    apart = {name: matrix for name, matrix in aligned.items() if matrix != getattr(problem, name)}
    if apart:
        *first, last = apart
        names = f"{', '.join(first)} and {last}" if first else last
        yield f"begin the rows of {names} on multiples of {LINE_BYTES} bytes", problem.with_operands(apart), 1
    for wanted in (8, 64):
        if problem.k % wanted:
            padded = round_up(problem.k, wanted)
            yield f"pad k with zeros to {padded}, a multiple of {wanted}", _repacked(problem._replace(k=padded)), 1
    for layout in ("nt", "nn", "tn", "tt"):
        if layout != problem.layout:
            yield f"store a and b in layout {layout}", _repacked(problem, layout), 1
    if problem.epilogue.expression is None:
        if problem.a.dtype is fp32:
            yield "give a and b in bf16, which rounds them", _repacked(problem, dtype=bf16), 1
        elif problem.a.dtype in (bf16, fp16):
            yield "give a and b in fp8_e4m3 and layout nt, which rounds them", _repacked(problem, "nt", fp8_e4m3), 1
    kinds = results(problem.a.dtype, problem.b.dtype, scaled=problem.recipe is not None)
    if problem.out.dtype is fp32 and kinds[0].nbytes == 2:
        out = problem.out._replace(dtype=kinds[0])
        yield f"take the result in {kinds[0]}", problem._replace(out=out), 1
    if problem.batch_invariant:
        yield "let batch_invariant be False", problem._replace(batch_invariant=False), 1
    yield "multiply twice the rows in half the calls", _with_rows(problem, 2 * problem.m), 2
    if not problem.batch and problem.epilogue == Epilogue():
        yield "multiply two such products in each call, as a batch", _batched(problem), 2


def _aligned(problem: Problem, name: str) -> Matrix:
    """An operand whose rows, or columns, begin on lines; one that has them there already stays."""
    matrix: Matrix = getattr(problem, name)
    elements = LINE_BYTES // matrix.dtype.nbytes
    if matrix.column_stride == 1:
        changed = matrix._replace(row_stride=_multiple(matrix.row_stride, elements), alignment=16)
    elif matrix.row_stride == 1:
        changed = matrix._replace(column_stride=_multiple(matrix.column_stride, elements), alignment=16)
    else:
        return matrix
    rows, columns = problem.extents(name)
    extent = rows * changed.row_stride if matrix.column_stride == 1 else columns * changed.column_stride
    batches = contiguous_strides((*problem.batch, extent))[:-1] if any(matrix.batch_strides) else matrix.batch_strides
    return matrix if changed[1:3] == matrix[1:3] and matrix.alignment == 16 else changed._replace(batch_strides=batches)


def _multiple(stride: int, elements: int) -> int:
    return round_up(stride, elements) if stride % elements else stride


def _repacked(problem: Problem, layout: str | None = None, dtype: DType | None = None) -> Problem:
    """The problem with packed a and b, in another layout or dtype."""
    letters, kind = layout or problem.layout, dtype or problem.a.dtype
    extents = {"a": (problem.m, problem.k), "b": (problem.k, problem.n)}
    operands = {}
    for (name, (rows, columns)), letter in zip(extents.items(), letters, strict=True):
        own: Matrix = getattr(problem, name)
        strides = (columns, 1) if letter == "n" else (1, rows)
        batches = contiguous_strides((*problem.batch, rows * columns))[:-1]
        operands[name] = Matrix(kind, *strides, batches if any(own.batch_strides) else own.batch_strides)
    return problem.with_operands(operands)


def _with_rows(problem: Problem, rows: int) -> Problem:
    """The problem with other rows, and a in the order in which it was stored."""
    changed = _repacked(problem._replace(m=rows)) if not problem.a.is_row_major else problem._replace(m=rows)
    out = changed.out if changed.out.is_row_major else changed.out._replace(column_stride=rows)
    return changed._replace(out=out)


def _batched(problem: Problem) -> Problem:
    """Two of the problem, of operands behind each other."""
    sizes = {name: problem.extents(name)[0] * problem.extents(name)[1] for name in ("a", "b", "out")}
    packed = _repacked(problem)
    operands = {name: getattr(packed, name)._replace(batch_strides=(size,)) for name, size in sizes.items()}
    return packed._replace(batch=(2,)).with_operands(operands)
