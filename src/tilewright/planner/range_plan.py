"""A RangePlan: plans for every number of rows in a range, of which no call compiles, tunes or loads anything."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from tilewright.arrays import adopt, describe
from tilewright.arrays.torch import TORCH
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import OUT_SCALE, SCALES
from tilewright.operand import APART, Operand, contiguous_strides
from tilewright.planner.binding import bind
from tilewright.planner.plan import Plan, not_pickled
from tilewright.problem import Matrix, Problem, cuts_k, output_key

MOST_ROWS = 1 << 20
"""The most numbers of rows that are prepared."""

MOST_PLANS = 4096
"""The most Plans that are kept."""

_AS_MATRIX = "a.reshape(-1, a.shape[-1])"
"""The remedy for an a that is not 2-D."""


class RangePlan:
    """Plans for products whose a has any number of rows in `rows`, and which are otherwise alike.

    Call it as a Plan, with arrays of the strides, dtypes, devices and alignments that it was made for; more rows of a,
    c and out are the only difference, and scales of blocks of a may have any strides. Every kernel that it needs is
    chosen, compiled and loaded, so a call of a new number of rows neither compiles nor synchronizes, also while a
    stream is captured. `kernels` is their number, and `reason` says why the planner chose them, for which rows. If
    `rows` has 0, a call with no rows gives an empty out.
    """

    def __init__(
        self,
        rows: range,
        kernels: int,
        reasons: Mapping[int, tuple[str, ...]],
        make: Callable[..., tuple[Plan, bool]],
        *,
        apart: bool = False,
    ):
        """Prepare nothing: `make` plans for a number of rows and the arrays of a call, or refuses them, and says
        whether to keep the Plan.

        reasons: `Choice.reasons` by numbers of rows, which may be empty. apart: whether scales of a may have any
        strides, each with a Plan of its own, as in `with_scales_of`.
        """
        self.rows, self.kernels = rows, kernels
        self.reason = _joined(reasons)
        self._make, self._apart = make, apart
        self._plans: dict[Hashable, Plan] = {}

    def __call__(
        self,
        a: Any,
        b: Any,
        /,
        c: Any = None,
        *,
        bias: Any = None,
        alpha: float | None = None,
        beta: float | None = None,
        operands: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        scale_a: Any = None,
        scale_b: Any = None,
        zero_a: Any = None,
        scale_out: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Multiply, as a Plan for a's number of rows does; raises what it raises, and a ValueError for other rows."""
        if TORCH.traces():
            return TORCH.untraced(self.__call__)(
                a, b, c, bias=bias, alpha=alpha, beta=beta, operands=operands, outputs=outputs, scale_a=scale_a,
                scale_b=scale_b, zero_a=zero_a, scale_out=scale_out, out=out, stream=stream,
            )  # fmt: skip
        shape: tuple[int, ...] = a.shape if hasattr(a, "shape") else adopt(a, "a").shape
        rows = shape[0] if len(shape) == 2 else 0
        key = (rows, describe(scale_a, SCALES[0])[0][2]) if self._apart and scale_a is not None else rows
        plan = self._plans.get(key)
        if plan is not None:
            return plan(
                a, b, c, bias=bias, alpha=alpha, beta=beta, operands=operands, outputs=outputs, scale_a=scale_a,
                scale_b=scale_b, zero_a=zero_a, scale_out=scale_out, out=out, stream=stream,
            )  # fmt: skip
        if rows not in self.rows:
            self._refuse(a)
        named = operands, outputs, scale_a, scale_b, zero_a, scale_out
        plan, is_kept = self._make(rows, a, b, c, bias, named, out, stream=stream)
        if is_kept and rows:  # arrays without rows have any strides
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan.first_call((a, b, c, bias, out), named, alpha, beta, stream)

    def _refuse(self, a: Any) -> NoReturn:
        """Raise the error of an a that is not 2-D, or of other numbers of rows."""
        shape = adopt(a, "a").shape
        remedy = "make a plan with a range that has this number" if len(shape) == 2 else f"pass {_AS_MATRIX}"
        raise ArgumentValueError(f"a has shape {shape}, and the plan is for 2-D arrays of m={self.rows} rows: {remedy}")

    def __copy__(self) -> "RangePlan":
        return self  # as a Plan

    def __deepcopy__(self, memo: object) -> "RangePlan":
        return self

    def __reduce__(self) -> NoReturn:
        raise not_pickled("a RangePlan")

    def __repr__(self) -> str:
        return f"<RangePlan: m={self.rows}, {self.kernels} kernel{'s' * (self.kernels != 1)}; {self.reason}>"


def _joined(reasons: Mapping[int, tuple[str, ...]]) -> str:
    """Each kernel with what holds wherever it is chosen, and below it for how many numbers of rows what else does."""
    rows_of: dict[tuple[str, ...], list[int]] = {}
    for number, parts in reasons.items():
        rows_of.setdefault(parts, []).append(number)
    if len(rows_of) < 2:
        return "; ".join(next(iter(rows_of), ("out has no elements, so nothing runs",)))
    lines = []
    for kernel in dict.fromkeys(parts[0] for parts in rows_of):
        of_kernel = {parts: rows for parts, rows in rows_of.items() if parts[0] == kernel}
        shared = [part for part in next(iter(of_kernel)) if all(part in parts for parts in of_kernel)]
        lines.append("; ".join(shared))
        for parts, rows in of_kernel.items():
            said = f"  {len(rows):,} of {len(reasons):,} numbers of rows, from {rows[0]} to {rows[-1]}"
            own = "; ".join(part for part in parts if part not in shared)
            lines.append(f"{said}: {own}" if own else said)
    return "\n".join(lines)


def with_scales_of(problem: Problem, expected: Problem) -> Problem:
    """What is expected, with scales of blocks of a where those of `problem` lie, wherever that is.

    Kernels read their distances with their addresses, and those that `quantize` makes depend on the number of rows.
    """
    if not cuts_k(expected.recipe) or (given := dict(problem.operands()).get(SCALES[0])) is None:
        return expected
    return expected.with_strides(SCALES[0], given.row_stride, given.column_stride)


def refuse_others(problem: Problem, expected: Problem) -> None:
    """Raise a ValueError if a call's Problem is not `expected`, or aligned better."""
    if (problem.m, problem.n, problem.k, problem.batch) != (expected.m, expected.n, expected.k, expected.batch):
        raise ArgumentValueError(f"the arrays pose {problem}, and the plan was made for {expected}: make another plan")
    matrices, wanted = dict(problem.operands()), dict(expected.operands())
    if matrices.keys() != wanted.keys():
        raise ArgumentValueError(
            f"the plan was made for the operands {_named(wanted)} and called with {_named(matrices)}: make another plan"
        )
    for name, matrix in matrices.items():
        other = wanted[name]
        if problem.is_empty:  # nothing is read, and strides of no rows mean nothing
            other = matrix._replace(dtype=other.dtype)
        if matrix._replace(alignment=other.alignment) != other or matrix.alignment < other.alignment:
            of_all = "" if matrix.row_stride or not other.row_stride else f", from {name} of shape () or (n,)"
            raise ArgumentValueError(
                f"{name} is not as the plan wants it: {_said(matrix)} instead of {_said(other)}; make another "
                f"plan{of_all}"
            )


def _named(matrices: Iterable[str]) -> str:
    """The operands by name, without out, which need not be given."""
    return ", ".join(name for name in matrices if name != "out")


def _said(matrix: Matrix) -> str:
    strides = matrix.row_stride, matrix.column_stride
    return f"{matrix.dtype} with strides of {strides} elements, aligned to {matrix.alignment} bytes"


def check_rows(rows: Any, operands: Mapping[str, Operand], *, kernel: str, config: Any, tune: bool) -> range:
    """The range, or a TypeError or ValueError that says what cannot be planned for many numbers of rows."""
    if not isinstance(rows, range):
        raise ArgumentTypeError(f"m={rows!r} is not a range: pass one, such as range(1, 4097)")
    if not rows or len(rows) > MOST_ROWS or min(rows) < 0:  # in this order: min walks the range
        raise ArgumentValueError(
            f"m={rows} must have 1 to {MOST_ROWS:,} numbers of rows, none below 0: pass one such as range(1, 4097)"
        )
    for name, remedy in (("a", _AS_MATRIX), ("b", "b.reshape(-1, 1)")):
        shape = operands[name].shape
        if len(shape) < 2 or (name == "a" and len(shape) > 2):
            raise ArgumentValueError(f"{name} has shape {shape}, and m= is for 2-D arrays: pass {remedy}")
    if not operands["a"].shape[0]:
        raise ArgumentValueError(
            f"a has shape {operands['a'].shape}, and the strides of no rows say nothing about m={rows}: pass an a with "
            "rows"
        )
    for argument, given in (("kernel", kernel != "auto"), ("config", config is not None), ("tune", tune)):
        if given:
            raise ArgumentValueError(
                f"{argument}= and m={rows} were given: the planner chooses for each m; leave {argument} out"
            )
    return rows


def problems_of(operands: Mapping[str, Operand], rows: range, like: Problem, multiplies: bool) -> Iterator[Problem]:
    """The Problem for each number of rows, of operands like these, with what `like` has of an epilogue besides them."""
    epilogue = like.epilogue
    m = operands["a"].shape[0]
    rowless = {"b", "scale_b", OUT_SCALE, output_key("amax"), *(("scale_a",) if like.recipe == "tensor" else ())}
    for number in rows:
        imagined = {
            name: _moved(operand, index) if name in rowless else _resized(operand, m, number, index)
            for index, (name, operand) in enumerate(operands.items(), 1)
        }
        bound = bind(imagined, activation=epilogue.activation, expression=epilogue.expression, multiplies=multiplies)
        yield bound.problem._replace(batch_invariant=like.batch_invariant, fast_accumulation=like.fast_accumulation)


def _moved(operand: Operand, index: int) -> Operand:
    """An operand at an address of the same alignment that nothing else has."""
    return operand._replace(pointer=index * APART + operand.pointer % 16)


def _resized(operand: Operand, m: int, rows: int, index: int) -> Operand:
    """An operand of m rows as one of so many rows, moved."""
    operand = _moved(operand, index)
    if len(operand.shape) < 2 or operand.shape[-2] != m:
        return operand
    shape = (*operand.shape[:-2], rows, operand.shape[-1])
    packed = operand.strides == contiguous_strides(operand.shape)
    strides = contiguous_strides(shape) if packed else operand.strides
    return operand._replace(shape=shape, strides=strides)
