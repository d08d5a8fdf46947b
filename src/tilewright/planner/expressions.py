"""The expression of a call and its operands: read, checked against the other arguments, and put in order."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.grammar import parse, place_of
from tilewright.expression.tree import GATES, OUTPUTS, Expression
from tilewright.planner.binding import check_activation
from tilewright.planner.scaling import NO_SCALING, Scaling

_parsed = lru_cache(maxsize=1024)(parse)


def expression_of(
    epilogue: Any, operands: Any, gate: Any, outputs: Any, activation: Any, scaling: Scaling = NO_SCALING, **absent: Any
) -> tuple[Expression | None, tuple[Any, ...]]:
    """The Expression of `epilogue` and its arrays in its order, the outputs last; None and none if there is none.

    A gate, outputs and scales without an expression are those of the activation, to which scales leave a bias.
    absent: the arguments that an expression replaces, by name. Raises what `parse` and `Scaling.check` do, a TypeError
    if operands or outputs is no mapping, and a ValueError for an unknown gate or output, if one of `absent` is given,
    or operands alone.
    """
    scaling.check()
    operands, outputs = _mapping("operands", operands, "'bias': bias"), _mapping("outputs", outputs, "'acc': sums")
    if unknown := [name for name in outputs if name not in OUTPUTS]:
        raise ArgumentValueError(f"outputs has {unknown[0]!r}, which is unknown: use {', '.join(OUTPUTS)}")
    if gate is not None and not (isinstance(gate, str) and gate in GATES):
        raise ArgumentValueError(f"gate={gate!r} is unknown: use None or one of {', '.join(GATES)}")
    if epilogue is None and operands:
        raise ArgumentValueError(
            f"operands={list(operands)} are read by an expression, and there is none: pass epilogue="
        )
    scales = "recipe" if scaling.recipe is not None else "scale_out"
    if epilogue is None and gate is None and not outputs and not scaling.given:
        return None, ()
    given = "epilogue" if epilogue is not None else "gate" if gate is not None else "outputs" if outputs else scales
    if epilogue is None:
        check_activation(activation)
        sums = "acc"
        if given == scales and absent["bias"] is not None:
            sums, operands = "acc + bias", {"bias": absent.pop("bias")}
        epilogue = f"{activation or ''}({sums})" if gate is None else f"{activation or ''}(x) * y"
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
    expression = expression._replace(outputs=tuple(name for name in OUTPUTS if name in outputs))
    for name in expression.operands:
        if isinstance(operands[name], int | float):
            raise ArgumentTypeError(
                f"operands[{name!r}] is the number {operands[name]!r}: write it into the expression, or pass an array"
                f"\n{place_of(epilogue, name)}"
            )
    read = (operands[name] for name in expression.operands)
    expression = expression._replace(operands=(*scaling.given, *expression.operands), recipe=scaling.recipe)
    return expression, (*scaling.given.values(), *read, *(outputs[name] for name in expression.outputs))


def _mapping(argument: str, value: Any, example: str) -> Mapping[str, Any]:
    """The arrays by name; a TypeError if they are none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"{argument} is a {type(value).__name__}: pass a mapping of names to arrays, such as {{{example}}}"
        )
    return value
