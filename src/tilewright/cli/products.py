"""From a shape of the command line to a Problem."""

from typing import TYPE_CHECKING

from tilewright.cli.options import ActivationName

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.problem import Problem

_APART = 1 << 44
"""Between the addresses of operands that are only imagined."""


def problem_of(shape: "Shape", bias: bool, activation: ActivationName | None) -> "Problem":
    """The Problem that a call with packed and aligned operands of this shape poses."""
    from tilewright import dtypes
    from tilewright.operand import HOST, Operand
    from tilewright.planner.binding import bind

    m, n, k = shape.m, shape.n, shape.k
    forms: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "a": ((m, k), (1, m) if shape.layout[0] == "t" else (k, 1)),
        "b": ((k, n), (1, k) if shape.layout[1] == "t" else (n, 1)),
        "out": ((m, n), (n, 1)),
    }
    if bias:
        forms["bias"] = ((n,), (1,))
    dtype = dtypes.parse(shape.dtype, "dtype")
    operands = {
        name: Operand(number * _APART, *form, dtype, HOST, True, None)
        for number, (name, form) in enumerate(forms.items(), 1)
    }
    return bind(operands, activation=None if activation is None else activation.value).problem
