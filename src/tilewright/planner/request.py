"""A Request: what a call of `plan` asks for, checked and bound to a Problem on a backend."""

from typing import Any, NamedTuple

from tilewright import dtypes
from tilewright.arrays import adopt, library_of
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError
from tilewright.expression.tree import Expression
from tilewright.operand import Operand, contiguous_strides
from tilewright.planner.binding import Binding, bind, result_shape
from tilewright.planner.call_arguments import Arrays, stream_handle
from tilewright.problem import Problem


def operands_of(call: Arrays, out_dtype: Any, gate: str | None = None) -> dict[str, Operand]:
    """The Operands of a call's arrays; without an out, one that has no memory yet, with a gate of half the columns.

    Raises a TypeError if out's dtype is not `out_dtype`, and what `adopt` raises.
    """
    operands = {
        name: adopt(array, name, pointer)
        for name, array, pointer in zip(call.names, call.arrays, call.pointers, strict=True)
        if array is not None
    }
    return with_result(operands, out_dtype, gate)


def with_result(operands: dict[str, Operand], out_dtype: Any, gate: str | None = None) -> dict[str, Operand]:
    """These Operands with an out, if there was none; raises as `operands_of` does."""
    wanted = None if out_dtype is None else dtypes.parse(out_dtype, "out_dtype")
    a, b = operands["a"], operands["b"]
    if "out" not in operands:
        shape = result_shape(a, b, gate)
        dtype = wanted or dtypes.PRODUCTS.get((a.dtype, b.dtype), (a.dtype,))[0]
        operands["out"] = Operand(0, shape, contiguous_strides(shape), dtype, a.device, True, None)
    elif wanted is not None and operands["out"].dtype != wanted:
        raise ArgumentTypeError(f"out is {operands['out'].dtype} and out_dtype={wanted}: drop one of the two")
    return operands


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
        *,
        activation: str | None,
        expression: Expression | None,
        kernel: str,
        config: Any,
        stream: Any,
        alpha: float,
        beta: float | None,
        batch_invariant: bool,
    ) -> "Request":
        """Bind the operands; raises what `bind` raises, and a TypeError or ValueError for a bad stream."""
        binding = bind(operands, activation=activation, expression=expression, multiplies=alpha != 0)
        if batch_invariant:
            binding = binding._replace(problem=binding.problem._replace(batch_invariant=True))
        if stream is not None:
            stream_handle(stream, backend)
        return cls(call, operands, binding, backend, kernel, config, stream, alpha, beta)

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
