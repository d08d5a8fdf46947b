"""What would make a call quicker: changes of the product, each given its time by the model."""

from collections.abc import Iterator
from math import inf
from operator import attrgetter
from typing import NamedTuple

from tilewright.dtypes import DType, bf16, fp8_e4m3, fp16, fp32, results
from tilewright.errors import TilewrightError
from tilewright.explaining.explanation import Remedy
from tilewright.hardware import Hardware
from tilewright.operand import contiguous_strides
from tilewright.planner.choose import Choice, choose
from tilewright.problem import Epilogue, Matrix, Problem
from tilewright.rounding import round_up

LEAST_GAIN = 0.02
"""Of the time: what gains less is not worth a change, and the model does not tell it from nothing."""

LINE_BYTES = 128
"""Rows that begin on lines of L2 suit every kernel."""

FREE = 1.02
"""Times as long: rows up to there cost nothing."""

_time = attrgetter("seconds")


class _Change(NamedTuple):
    """A change of a product in words, the problem then, and how many times the work it does.

    anew: whether it stores a and b anew, so that it must gain more than that alone does, also with the new plan's
    Config.
    """

    text: str
    problem: Problem
    work: int = 1
    anew: bool = False


def remedies(
    problem: Problem, hardware: Hardware, seconds: float, planned: float = inf, most: int = 5
) -> tuple[Remedy, ...]:
    """The changes that gain, the best first; seconds: what the call takes now.

    planned: what it would take by the planner's choice, if the caller has chosen, else infinite. If that gains, it
    comes before all else, and is no gain of the other changes, which are given the planner's choice, too.
    """
    quickest = min(seconds, planned)
    packed = _repacked(problem)
    stored_anew = min(quickest, planned_seconds(packed, hardware))
    found = []
    for alternatives in _changes(problem):
        gaining = []
        for change, changed, work, anew in alternatives:
            if (plan := _planned(changed, hardware)) is None:
                continue
            each, least = plan.seconds(hardware, power="settled"), quickest
            if anew:
                least = min(stored_anew, planned_seconds(packed, hardware, plan))
            if 1 - each / work / least >= LEAST_GAIN:
                gaining.append(Remedy(change, each / work, 1 - each / work / seconds))
        if gaining:
            found.append(min(gaining, key=_time))
    found.sort(key=_time)
    if 1 - quickest / seconds >= LEAST_GAIN:
        found = [each._replace(change=f"do so, and {each.change}") for each in found]
        found.insert(0, Remedy("leave kernel and config to the planner", quickest, 1 - quickest / seconds))
    return tuple(found[:most])


def free_rows(problem: Problem, hardware: Hardware, seconds: float) -> int:
    """How many rows take about the time of the problem's own: more of them come free."""
    least, most = problem.m, problem.m
    while planned_seconds(_with_rows(problem, 2 * most), hardware) <= FREE * seconds:
        least = most = 2 * most
        if most >= 1 << 20:
            return most
    most *= 2
    while most - least > 1:
        middle = (least + most) // 2
        if planned_seconds(_with_rows(problem, middle), hardware) <= FREE * seconds:
            least = middle
        else:
            most = middle
    return least


def planned_seconds(problem: Problem, hardware: Hardware, like: Choice | None = None) -> float:
    """The planner's choice by the model, or the kernel and Config of another choice.

    It is infinite if no kernel takes the problem, or the model knows none.
    """
    choice = _planned(problem, hardware, like)
    return inf if choice is None else choice.seconds(hardware, power="settled")


def _planned(problem: Problem, hardware: Hardware, like: Choice | None = None) -> Choice | None:
    try:
        if like is not None:
            return choose(problem, hardware, kernel=like.kernel.name, config=like.config, quiet=True)
        return choose(problem, hardware, quiet=True)
    except TilewrightError:
        return None


def _changes(problem: Problem) -> Iterator[list[_Change]]:
    """What could be changed: of alternatives, the best is worth a word."""
    stored = {name: _aligned(problem, name) for name in ("a", "b", "out")}
    if apart := {name: matrix for name, matrix in stored.items() if matrix != getattr(problem, name)}:
        *first, last = apart
        names = f"{', '.join(first)} and {last}" if first else last
        change = f"begin the rows of {names} on multiples of {LINE_BYTES} bytes"
        if any(_is_scattered(problem, name) for name in apart):
            change = f"store {names} with one stride of 1 and rows that begin on multiples of {LINE_BYTES} bytes"
        yield [_Change(change, problem.with_operands(apart))]
    multiples = {round_up(problem.k, multiple): multiple for multiple in (8, 64) if problem.k % multiple}
    yield [
        _Change(f"pad k with zeros to {k}, a multiple of {multiple}", _repacked(problem._replace(k=k)), anew=True)
        for k, multiple in multiples.items()
    ]
    yield [
        _Change(f"store a and b in layout {layout}", _repacked(problem, layout), anew=True)
        for layout in ("nt", "nn", "tn", "tt")
        if layout != problem.layout
    ]
    if problem.epilogue.expression is None:
        if problem.a.dtype is fp32:
            yield [_Change("give a and b in bf16, which rounds them", _repacked(problem, dtype=bf16), anew=True)]
        elif problem.a.dtype in (bf16, fp16):
            narrow = _repacked(problem, "nt", fp8_e4m3)
            what = "fp8_e4m3" if problem.layout == "nt" else "fp8_e4m3 and layout nt"
            yield [_Change(f"give a and b in {what}, which rounds them", narrow, anew=True)]
    kinds = results(problem.a.dtype, problem.b.dtype, scaled=problem.recipe is not None)
    if problem.out.dtype is fp32 and kinds[0].nbytes == 2:
        out = problem.out._replace(dtype=kinds[0])
        yield [_Change(f"take the result in {kinds[0]}", problem._replace(out=out))]
    if problem.batch_invariant:
        yield [_Change("let batch_invariant be False", problem._replace(batch_invariant=False))]
    yield [_Change("multiply twice the rows in half the calls", _with_rows(problem, 2 * problem.m), 2)]
    if not problem.batch and problem.epilogue == Epilogue():
        yield [_Change("multiply two such products in each call, as a batch", _batched(problem), 2)]


def _is_scattered(problem: Problem, name: str) -> bool:
    """Whether an operand's rows, as they are stored, are not contiguous, or do not follow each other in memory."""
    stored, rows, _ = _as_stored(problem, name)
    return stored.column_stride != 1 or (rows > 1 and stored.row_stride <= 0)


def _as_stored(problem: Problem, name: str) -> tuple[Matrix, int, int]:
    """An operand, transposed if that is the order of its memory, with its rows and columns then."""
    matrix: Matrix = getattr(problem, name)
    rows, columns = problem.extents(name)
    return (matrix, rows, columns) if matrix.is_row_major else (matrix.transposed, columns, rows)


def _aligned(problem: Problem, name: str) -> Matrix:
    """An operand whose rows, as they are stored, are contiguous and begin on lines; one like that already stays."""
    matrix: Matrix = getattr(problem, name)
    stored, rows, columns = _as_stored(problem, name)
    is_scattered = _is_scattered(problem, name)
    row_stride = round_up(columns if is_scattered else stored.row_stride, LINE_BYTES // matrix.dtype.nbytes)
    if matrix.alignment == 16 and not is_scattered and row_stride == stored.row_stride:
        return matrix
    extents = (*problem.batch, rows * row_stride)
    batches = contiguous_strides(extents)[:-1] if any(matrix.batch_strides) else matrix.batch_strides
    aligned = Matrix(matrix.dtype, row_stride, 1, batches)
    return aligned if matrix.is_row_major else aligned.transposed


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
    """The problem with more rows; columns that are neighbors in memory lie further apart then."""
    apart = {}
    for name in ("a", "out"):
        matrix: Matrix = getattr(problem, name)
        if not matrix.is_row_major:
            apart[name] = matrix._replace(column_stride=max(matrix.column_stride, rows * matrix.row_stride))
    return problem._replace(m=rows).with_operands(apart)


def _batched(problem: Problem) -> Problem:
    """Two of the problem, of operands behind each other."""
    operands = {}
    for name in ("a", "b", "out"):
        stored, rows, columns = _as_stored(problem, name)
        size = max(rows * abs(stored.row_stride), columns * abs(stored.column_stride))
        operands[name] = getattr(problem, name)._replace(batch_strides=(size,))
    return problem._replace(batch=(2,)).with_operands(operands)
