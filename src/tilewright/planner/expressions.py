"""The expression of a call and its operands: read, checked against the other arguments, and put in order."""

from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.grammar import parse, place_of
from tilewright.expression.tree import GATES, OUTPUTS, Expression, finished_text
from tilewright.planner.binding import check_activation
from tilewright.planner.call_arguments import mapping_of
from tilewright.planner.scaling import NO_SCALING, Scaling


@lru_cache(maxsize=1024)
def _made(
    epilogue: str, names: tuple[str, ...], gate: str | None, outputs: tuple[str, ...], scales: tuple[str, ...],
    recipe: str | None,
) -> Expression:  # fmt: skip
    """The expression of an epilogue's text, behind whose sums are these scales; raises what `parse` does."""
    expression = parse(epilogue, names, gate)
    return expression._replace(outputs=outputs, operands=(*scales, *expression.operands), recipe=recipe)


def expression_of(
    epilogue: Any, operands: Any, gate: Any, outputs: Any, activation: Any, scaling: Scaling = NO_SCALING, **absent: Any
) -> tuple[Expression | None, tuple[Any, ...]]:
    """The Expression of `epilogue` and its arrays in its order, the outputs last; None and none if there is none.

    A gate, outputs and scales without an expression are those of the activation, to which scales leave a bias.
    absent: the arguments that an expression replaces, by name. Raises what `parse` and `Scaling.check` do, a TypeError
    if operands or outputs is no mapping, and a ValueError for an unknown gate or output, if one of `absent` is given,
    or operands alone.
    """
    of_scaling = scaling.given
    scaling.check(of_scaling)
    operands, outputs = mapping_of("operands", operands, "'bias': bias"), mapping_of("outputs", outputs, "'acc': sums")
    if unknown := [name for name in outputs if name not in OUTPUTS]:
        raise ArgumentValueError(f"outputs has {unknown[0]!r}, which is unknown: use {', '.join(OUTPUTS)}")
    if gate is not None and not (isinstance(gate, str) and gate in GATES):
        raise ArgumentValueError(f"gate={gate!r} is unknown: use None or one of {', '.join(GATES)}")
    if epilogue is None and operands:
        raise ArgumentValueError(
            f"operands has {', '.join(map(repr, operands))}, and there is no expression to read it: pass epilogue="
        )
    scales = "recipe" if scaling.recipe is not None else "scale_out"
    if epilogue is None and gate is None and not outputs and not of_scaling:
        return None, ()
    given = "epilogue" if epilogue is not None else "gate" if gate is not None else "outputs" if outputs else scales
    if epilogue is None:
        check_activation(activation)
        sums = "acc"
        if given == scales and absent["bias"] is not None:
            sums, operands = "acc + bias", {"bias": absent.pop("bias")}
        epilogue = finished_text(activation, gate, sums)
    else:
        absent["activation"] = activation
    for name, value in absent.items():
        if value is not None:
            sums = "acc" if gate is None else "x * y"
            such = {
                "activation": f", as in epilogue='{value}({sums})'",
                "beta": f", as in epilogue='{sums} + 0.5 * c', operands={{'c': c}}",
            }.get(name, f", as in epilogue='{sums} + {name}', operands={{{name!r}: {name}}}")
            raise ArgumentValueError(
                f"{name} was given beside {given}=, with which an expression says what becomes of the sum: write it "
                f"into epilogue=, arrays as operands{such}"
            )
    names = tuple(operands)
    if not isinstance(epilogue, str):
        parse(epilogue, names, gate)  # which says what is wrong
    written = tuple(name for name in OUTPUTS if name in outputs) if outputs else ()
    expression = _made(epilogue, names, gate, written, tuple(of_scaling), scaling.recipe)
    own = expression.operands[len(of_scaling) :]
    for name in own:
        if isinstance(operands[name], int | float | np.generic):
            raise ArgumentTypeError(
                f"operands[{name!r}] is the number {operands[name]}: write it into the expression, or pass an array"
                f"\n{place_of(epilogue, name)}"
            )
    return expression, (*of_scaling.values(), *[operands[name] for name in own], *[outputs[name] for name in written])
