"""The element types that the operands of one product may have together."""

from collections.abc import Iterable, Mapping

from tilewright.dtypes import FLOATS, PRODUCTS, DType, results
from tilewright.errors import ArgumentTypeError
from tilewright.expression.tree import HIDDEN, Expression
from tilewright.operand import Operand
from tilewright.problem import key_of


def check_dtypes(operands: Mapping[str, Operand], activation: str | None, expression: Expression | None) -> None:
    """Raise a TypeError unless a, b and out are of PRODUCTS, and what the epilogue reads or writes is a float."""
    a, b, out = (operands[name].dtype for name in ("a", "b", "out"))
    if (a, b) not in PRODUCTS:
        if a not in (partners := [first for first, _ in PRODUCTS]):
            raise ArgumentTypeError(f"a is {a}, which is not multiplied: convert it to one of {_listed(partners)}")
        fitting = [second for first, second in PRODUCTS if first is a]
        rule = "both must have one dtype" if len(fitting) == 1 else f"beside this a, b must be {_listed(fitting)}"
        raise ArgumentTypeError(f"a is {a} and b is {b}: {rule}; convert one of them")
    recipe = None if expression is None else expression.recipe
    if out not in (outs := results(a, b, scaled=recipe is not None)):
        scaled = "" if recipe is None else " with scales"
        raise ArgumentTypeError(
            f"out is {out}, and a product of {a} by {b}{scaled} is not stored so: take {_listed(outs)}"
        )
    if out.kind == "integer":
        made = "epilogue"
        if expression is not None:
            made = "gate" if expression.gate else "outputs" if expression.outputs else made
        given = {"c": "c" in operands, "bias": "bias" in operands, "activation": activation, made: expression}
        if beside := [name for name, value in given.items() if value]:
            raise ArgumentTypeError(
                f"{beside[0]} was given and out is {out}, which holds sums as they are: take an out of fp32, bf16 or "
                f"fp16"
            )
    for name, operand in operands.items():
        if name not in ("a", "b", "out", *HIDDEN) and operand.dtype not in FLOATS:
            raise ArgumentTypeError(
                f"{name} is {operand.dtype}, and an epilogue computes with {_listed(FLOATS)}: convert it"
                f"{use_of(name, expression)}"
            )


def _listed(kinds: Iterable[DType]) -> str:
    """The names of types, each once."""
    *others, last = dict.fromkeys(kind.name for kind in kinds)
    return f"{', '.join(others)} or {last}" if others else last


def placed(error: ArgumentTypeError, name: str, expression: Expression | None) -> ArgumentTypeError:
    """The error about an operand, with where an expression uses it."""
    return ArgumentTypeError(str(error) + use_of(name, expression))


def use_of(name: str, expression: Expression | None) -> str:
    """Where an expression uses the operand, on lines of their own; nothing for operands of other kinds."""
    if expression is not None:
        from tilewright.expression.grammar import (
            place_of,  # it imports Python's parser, which other products do not need
        )

        for operand in expression.named:
            if key_of(operand) == name:
                return f"\n{place_of(expression.text, operand)}"
    return ""
