"""From a shape of the command line to a Problem."""

from typing import TYPE_CHECKING

from tilewright.cli.options import ActivationName

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.problem import Problem


def problem_of(shape: "Shape", bias: bool, activation: ActivationName | None) -> "Problem":
    """The Problem of a call with packed and aligned operands of this shape."""
    from tilewright import dtypes
    from tilewright.checking.product import Product

    dtype = dtypes.parse(shape.dtype, "dtype")
    activated = None if activation is None else activation.value
    return Product(
        shape.m, shape.n, shape.k, dtype, dtype, layout=shape.layout, bias=bias, activation=activated
    ).problem  # fmt: skip
