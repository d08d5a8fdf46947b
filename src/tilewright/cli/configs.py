"""A Config on the command line: some of its fields, and the others as the planner would choose for these."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.hardware import Hardware
    from tilewright.kernels.kernel import Kernel
    from tilewright.problem import Problem

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        help="Fields of its Config, as tile_m=128,tile_n=192, or all as printed; others as the planner would choose. "
        "May be repeated.",
        show_default=False,
    ),
]
MOST_CONFIGS = 1000
"""More than any kernel has."""
FOLLOWING = ("stages", "group_m", "epilogue", "overlap", "wait_depth", "prefetch", "ctas")
"""Fields that follow from the others: they do not say how a product is cut."""


def require_results(texts: Sequence[str] | None, problem: "Problem") -> None:
    """Raise an ArgumentValueError if a --config is given for a problem without elements."""
    if texts and problem.is_empty:
        raise ArgumentValueError(
            f"--config={','.join(texts)!r} is for a kernel, and none runs without elements of out: leave it out"
        )


def changed(
    kernel: "Kernel", problem: "Problem", gpu: "Hardware", texts: Sequence[str] | None, config: Any = None
) -> Any:
    """The Config with the fields of "tile_m=128,tile_n=192", of which its stages follow unless they are among them.

    texts: what each --config says, which together name a field at most once. config: by default the best by the
    kernel's model. The other fields are its own, if its way to cut the product is the one that is asked for; or those
    of the best Config whose way is; or where the planner offers no such way, those with which the model says that
    these take least. Without texts, the Config as it is.

    Raises:
        ArgumentValueError: if a text names no field or no value of it, or the problem has no elements.
        ConfigError: if no others fit, with what most of them break.
    """
    from tilewright.kernels.config_fields import values_of
    from tilewright.kernels.kernel import ConfigError

    require_results(texts, problem)
    config = kernel.best(problem, gpu) if config is None else config
    if not texts:
        return config
    values = _values(kernel, problem, gpu, texts)
    cutting = {name: value for name, value in values.items() if name not in FOLLOWING}
    errors: list[ConfigError] = []

    def fitting(configs: list[Any]) -> Iterator[Any]:
        for each in configs:
            made = dataclasses.replace(each, **values)
            try:
                if "stages" not in values:
                    made = kernel.staged(made, problem, gpu)
                kernel.check(made, problem, gpu)
            except ConfigError as error:
                errors.append(error)
            else:
                yield made

    having: list[Any] = []
    others: list[Any] = []
    for each in (config, *kernel.candidates(problem, gpu, MOST_CONFIGS)):
        (having if cutting.items() <= values_of(each).items() else others).append(each)

    def quickest(configs: list[Any]) -> Any:
        return min(fitting(configs), key=lambda each: kernel.ranked_seconds(each, problem, gpu), default=None)

    found = next(fitting(having), None) or quickest(others)
    if found is None and "overlap" not in values and hasattr(config, "overlap"):
        errors.clear()  # what is left is broken by the fields that are given
        found = quickest([dataclasses.replace(each, overlap=False) for each in (*having, *others)])
    if found is None:
        rules = [re.sub(r"\d+", "", error.fault) for error in errors]
        raise errors[rules.index(Counter(rules).most_common(1)[0][0])]
    return found


def _values(kernel: "Kernel", problem: "Problem", gpu: "Hardware", texts: Sequence[str]) -> dict[str, Any]:
    """The fields of texts, each of which may be a Config as it is printed."""
    from tilewright.kernels.config_fields import fields_of
    from tilewright.kernels.registry import KERNELS

    fields, whole = fields_of(kernel.config_type), ",".join(texts)
    values: dict[str, Any] = {}
    for part in (part for text in texts for part in _parts(text, kernel.config_type.__name__)):
        if fields and (begun := re.match(r"\s*(\w+)\(", part)):
            of = [each.name for each in KERNELS.values() if each.config_type.__name__ == begun[1]]
            other = f", or take kernel {of[0]}" if of else ""
            raise ArgumentValueError(
                f"--config={whole!r} begins with {begun[1]}(, and kernel {kernel.name!r} has "
                f"{kernel.config_type.__name__}: give fields of that{other}"
            )
        name, _, value = (word.strip().strip("'") for word in part.partition("="))
        if not (name and value):
            raise ArgumentValueError(f"--config={whole!r} is no list of fields: write NAME=VALUE,NAME=VALUE")
        if name in values:
            raise ArgumentValueError(f"--config={whole!r} has {name} twice: leave one out")
        if name not in fields:
            remedy = f"use {', '.join(fields)}" if fields else "it has none, so leave --config out"
            others = _having(name, problem, gpu) if fields else []
            if others:
                remedy += f", or take kernel {' or '.join(others)}, which {'has' if len(others) == 1 else 'have'} it"
            raise ArgumentValueError(f"--config={part!r} is no field of a Config of kernel {kernel.name!r}: {remedy}")
        field = fields[name]
        allowed = {str(each).lower(): each for each in field.values}
        if allowed.get(value.lower()) is not None:
            values[name] = allowed[value.lower()]
        elif field.type is int and value.isascii() and value.isdecimal() and len(value) < 10:
            values[name] = int(value)
        else:
            allow = "a natural number below 10**9" if field.type is int else " or ".join(allowed)
            raise ArgumentValueError(f"--config={part!r} is no value of {name}: give {allow}")
    return values


def _parts(text: str, config_type: str) -> list[str]:
    """NAME=VALUE of each field that a text names."""
    return text.strip().removeprefix(f"{config_type}(").removesuffix(")").split(",")


def _having(name: str, problem: "Problem", gpu: "Hardware") -> list[str]:
    """The kernels whose Configs have a field, and that take the problem, maybe with copies."""
    from tilewright.kernels.config_fields import fields_of
    from tilewright.kernels.registry import KERNELS
    from tilewright.planner.copies import Copied, copied

    having = (kernel for kernel in KERNELS.values() if name in fields_of(kernel.config_type))
    return [kernel.name for kernel in having if isinstance(copied(problem, kernel, gpu), Copied)]
