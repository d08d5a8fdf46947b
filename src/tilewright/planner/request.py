"""A Request: what a call of `plan` asks for, checked and bound to a Problem on a backend."""

from typing import Any, NamedTuple

from tilewright import dtypes
from tilewright.arrays import adopt, library_of
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import Expression
from tilewright.operand import Operand, result
from tilewright.planner.binding import Binding, bind, result_shape
from tilewright.planner.call_arguments import Arrays, check_alpha, stream_handle
from tilewright.planner.element_types import placed
from tilewright.problem import Problem, cuts_k


def operands_of(call: Arrays, out_dtype: Any, expression: Expression | None = None) -> dict[str, Operand]:
    """The Operands of a call's arrays; without an out, one that has no memory yet, with a gate of half the columns.

    Raises a TypeError if out's dtype is not `out_dtype`, and what `adopt` raises.
    """
    operands = {}
    for name, array, pointer in zip(call.names, call.arrays, call.pointers, strict=True):
        if array is not None:
            try:
                operands[name] = adopt(array, name, pointer)
            except ArgumentTypeError as error:
                raise placed(error, name, expression) from None
    return with_result(operands, out_dtype, expression)


def with_result(
    operands: dict[str, Operand], out_dtype: Any, expression: Expression | None = None
) -> dict[str, Operand]:
    """These Operands with an out, if there was none; raises as `operands_of` does."""
    wanted = None if out_dtype is None else dtypes.parse(out_dtype, "out_dtype")
    a, b = operands["a"], operands["b"]
    if "out" not in operands:
        shape = result_shape(a, b, None if expression is None else expression.gate)
        scaled = expression is not None and expression.recipe is not None
        dtype = wanted or next(iter(dtypes.results(a.dtype, b.dtype, scaled=scaled)), a.dtype)
        operands["out"] = result(shape, dtype, a.device)
    elif wanted is not None and operands["out"].dtype != wanted:
        raise ArgumentTypeError(f"out is {operands['out'].dtype} and out_dtype={wanted}: drop one of the two")
    return operands


class Options(NamedTuple):
    """What of a call of `plan` is neither an array nor a number; beside an expression, activation is None."""

    activation: str | None
    expression: Expression | None
    out_dtype: Any
    kernel: str
    config: Any
    batch_invariant: bool
    fast_accumulation: bool


class Request(NamedTuple):
    """A product of arrays on a backend. `alpha` and `beta` are the call's; beta is None without c.

    call: the arrays that are read, and out if it is given. kernel, config: as `plan` takes them.
    """

    call: Arrays
    operands: dict[str, Operand]
    binding: Binding
    backend: Backend
    kernel: str
    config: Any
    stream: Any
    alpha: float
    beta: float | None

    @classmethod
    def of(
        cls,
        call: Arrays,
        operands: dict[str, Operand],
        backend: Backend,
        options: Options,
        *,
        stream: Any,
        alpha: float,
        beta: float | None,
    ) -> "Request":
        """Bind the operands; raises what `bind` raises, and a TypeError or ValueError for a bad stream."""
        binding = bound(
            operands, activation=options.activation, expression=options.expression, alpha=alpha,
            batch_invariant=options.batch_invariant, fast_accumulation=options.fast_accumulation,
        )  # fmt: skip
        if stream is not None:
            stream_handle(stream, backend)
        return cls(call, operands, binding, backend, options.kernel, options.config, stream, alpha, beta)

    @property
    def problem(self) -> Problem:
        """The Problem."""
        return self.binding.problem

    def is_capturing(self) -> bool:
        """Whether the stream of a launch is being captured into a graph."""
        device, a = self.operands["a"].device, self.call.arrays[0]
        if self.stream is None:
            handle = library_of(a, "a").stream_reader(device)(a, device)
        else:
            handle = stream_handle(self.stream, self.backend)
        return self.backend.is_capturing(handle)


def bound(
    operands: dict[str, Operand],
    *,
    activation: str | None,
    expression: Expression | None,
    alpha: float,
    batch_invariant: bool,
    fast_accumulation: bool,
) -> Binding:
    """The Operands of a call as a Problem, with what else the call asks for; raises what `bind` raises."""
    _check_fast_accumulation(fast_accumulation, operands["a"].dtype, expression)
    binding = bind(operands, activation=activation, expression=expression, multiplies=alpha != 0)
    if batch_invariant or fast_accumulation:
        problem = binding.problem._replace(batch_invariant=batch_invariant, fast_accumulation=fast_accumulation)
        binding = binding._replace(problem=problem)
    check_alpha(binding.problem, alpha)
    return binding


def _check_fast_accumulation(wanted: bool, dtype: dtypes.DType, expression: Expression | None) -> None:
    """Raise an error if sums were to stay in the tensor cores, and they cannot."""
    if wanted and dtype not in dtypes.FP8:
        raise ArgumentTypeError(
            f"fast_accumulation=True is for sums of fp8, and a is {dtype}: leave it out, since nothing is cut there"
        )
    recipe = None if expression is None else expression.recipe
    if wanted and cuts_k(recipe):
        raise ArgumentValueError(
            f"fast_accumulation=True leaves sums in the tensor cores, and recipe={recipe!r} scales parts of them: "
            f"leave it out"
        )
