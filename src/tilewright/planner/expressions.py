"""The expression of a call and its operands: read, checked against the other arguments, and put in order."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.grammar import parse
from tilewright.expression.tree import GATES, Expression
from tilewright.planner.binding import check_activation

_parsed = lru_cache(maxsize=1024)(parse)


def expression_of(
    epilogue: Any, operands: Any, gate: Any, activation: Any, **absent: Any
) -> tuple[Expression | None, tuple[Any, ...]]:
    """The Expression of `epilogue` and its arrays in its order; None and none if there is none.

    A gate without an expression is that of the activation. absent: the arguments that an expression replaces, by name.
    Raises what `parse` does, a TypeError if operands is no mapping, and a ValueError for an unknown gate, if one of
    `absent` is given, or operands alone.
    """
    if operands is None:
        operands = {}
    elif not isinstance(operands, Mapping):
        raise ArgumentTypeError(
            f"operands is a {type(operands).__name__}: pass a mapping of names to arrays, such as {{'bias': bias}}"
        )
    if gate is not None and not (isinstance(gate, str) and gate in GATES):
        raise ArgumentValueError(f"gate={gate!r} is unknown: use None or one of {', '.join(GATES)}")
    if epilogue is None and operands:
        raise ArgumentValueError(
            f"operands={list(operands)} are read by an expression, and there is none: pass epilogue="
        )
    if epilogue is None and gate is None:
        return None, ()
    given = "gate" if epilogue is None else "epilogue"
    if epilogue is None:
        check_activation(activation)
        epilogue = f"{activation or ''}(x) * y"
    else:
        absent["activation"] = activation
    for name, value in absent.items():
        if value is not None:
            raise ArgumentValueError(
                f"{name} was given beside {given}=, which says all that becomes of the sum: write it into epilogue=, "
                f"arrays as operands"
            )
    names = tuple(operands)
    expression = _parsed(epilogue, names, gate) if isinstance(epilogue, str) else parse(epilogue, names, gate)
    return expression, tuple(operands[name] for name in expression.operands)
