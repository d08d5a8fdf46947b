"""A Config on the command line: some of its fields, and the others as the planner would choose for these."""

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.hardware import Hardware
    from tilewright.kernels.kernel import Kernel
    from tilewright.problem import Problem

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="Fields of its Config, as tile_m=128,tile_n=192, or all as printed; others as the planner would choose.",
        show_default=False,
    ),
]
MOST_CONFIGS = 1000
"""More than any kernel has."""


def changed(kernel: "Kernel", problem: "Problem", gpu: "Hardware", text: str | None, config: Any = None) -> Any:
    """The Config with the fields of "tile_m=128,tile_n=192", of which its stages follow unless they are among them.

    config: by default the best by the kernel's model. The other fields are those of the best Config that has these, or
    where the planner offers none that has, those with which the model says that these take least. Without a text, the
    Config as it is.

    Raises:
        ArgumentValueError: if the text names no field or no value of it, or the problem has no elements.
        ConfigError: if no others fit, with what most of them break.
    """
    from tilewright.kernels.config_fields import values_of
    from tilewright.kernels.kernel import ConfigError

    if text is not None and problem.is_empty:
        raise ArgumentValueError(
            f"--config={text!r} is for a kernel, and none runs without elements of out: leave it out"
        )
    config = kernel.best(problem, gpu) if config is None else config
    if text is None:
        return config
    values = _values(kernel, text)

    def with_values(config: Any) -> Any:
        made = dataclasses.replace(config, **values)
        if "stages" not in values:
            made = kernel.staged(made, problem, gpu)
        kernel.check(made, problem, gpu)
        return made

    others = [config, *kernel.candidates(problem, gpu, MOST_CONFIGS)]
    shaping = {name: value for name, value in values.items() if name != "stages"}
    others.sort(key=lambda other: not shaping.items() <= values_of(other).items())
    made: dict[Any, None] = {}
    errors: list[ConfigError] = []
    for other in others:
        try:
            fits = with_values(other)
        except ConfigError as error:
            errors.append(error)
            continue
        if shaping.items() <= values_of(other).items():
            return fits
        made[fits] = None
    if not made:
        rules = [re.sub(r"\d+", "", error.fault) for error in errors]
        raise errors[rules.index(Counter(rules).most_common(1)[0][0])]
    return min(made, key=lambda each: kernel.ranked_seconds(each, problem, gpu))


def _values(kernel: "Kernel", text: str) -> dict[str, Any]:
    """The fields of a text, which may be a Config as it is printed."""
    from tilewright.kernels.config_fields import fields_of
    from tilewright.kernels.registry import KERNELS

    fields = fields_of(kernel.config_type)
    values: dict[str, Any] = {}
    for part in text.strip().removeprefix(f"{kernel.config_type.__name__}(").removesuffix(")").split(","):
        name, _, value = (word.strip().strip("'") for word in part.partition("="))
        if not (name and value):
            raise ArgumentValueError(f"--config={text!r} is no list of fields: write NAME=VALUE,NAME=VALUE")
        if name in values:
            raise ArgumentValueError(f"--config={text!r} has {name} twice: leave one out")
        if name not in fields:
            remedy = f"use {', '.join(fields)}" if fields else "it has none, so leave --config out"
            others = [other.name for other in KERNELS.values() if name in fields_of(other.config_type)]
            if fields and others:
                remedy += f", or take kernel {' or '.join(others)}, which has it"
            raise ArgumentValueError(f"--config={part!r} is no field of a Config of kernel {kernel.name!r}: {remedy}")
        field = fields[name]
        allowed = {str(each).lower(): each for each in field.values}
        if allowed.get(value.lower()) is not None:
            values[name] = allowed[value.lower()]
        elif field.type is int and value.isascii() and value.isdecimal() and len(value) < 10:
            values[name] = int(value)
        else:
            allow = "a natural number" if field.type is int else " or ".join(allowed)
            raise ArgumentValueError(f"--config={part!r} is no value of {name}: give {allow}")
    return values
