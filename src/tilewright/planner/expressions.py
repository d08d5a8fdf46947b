"""The expression of a call and its operands: read, checked against the other arguments, and put in order."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.grammar import parse
from tilewright.expression.tree import Expression

_parsed = lru_cache(maxsize=1024)(parse)


def expression_of(epilogue: Any, operands: Any, **absent: Any) -> tuple[Expression | None, tuple[Any, ...]]:
    """The Expression of `epilogue` and its arrays in its order; None and none if there is neither.

    absent: the arguments that an expression replaces, by name. Raises what `parse` does, a TypeError if operands is no
    mapping, and a ValueError if one of `absent` is given, or operands alone.
    """
    if operands is None:
        operands = {}
    elif not isinstance(operands, Mapping):
        raise ArgumentTypeError(
            f"operands is a {type(operands).__name__}: pass a mapping of names to arrays, such as {{'bias': bias}}"
        )
    if epilogue is None:
        if operands:
            raise ArgumentValueError(
                f"operands={list(operands)} are read by an expression, and there is none: pass epilogue="
            )
        return None, ()
    for name, value in absent.items():
        if value is not None:
            raise ArgumentValueError(
                f"{name} was given beside epilogue=, which says all that becomes of the sum: write it into the "
                f"expression, arrays as operands"
            )
    if not isinstance(epilogue, str):
        parse(epilogue, ())
    expression = _parsed(epilogue, tuple(operands))
    return expression, tuple(operands[name] for name in expression.operands)
