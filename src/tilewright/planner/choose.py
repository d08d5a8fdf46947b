"""The choice of a kernel and a Config for a problem, with the reason."""

import logging
import re
from typing import Any, NamedTuple

from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel, fields_of
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS, kernel_named
from tilewright.planner import tuned
from tilewright.problem import Problem

log = logging.getLogger("tilewright")


class Choice(NamedTuple):
    """A kernel with its Config, and the reason in one sentence."""

    kernel: Kernel
    config: Any
    reason: str


def choose(
    problem: Problem, hardware: Hardware, *, kernel: str = "auto", config: Any = None, measured: bool = True
) -> Choice:
    """Choose for a problem on a GPU; `kernel` and `config` override. A tuned Config comes first, if `measured`.

    KERNELS is in order of preference, so the first that takes the problem is chosen. Raises ValueError if the override
    does not exist or does not fit, and NotImplementedError if no kernel takes the problem.
    """
    if kernel != "auto":
        return _forced(problem, hardware, kernel, config)
    if config is not None:
        name, *others = _kernels_of(config)
        if others:
            raise ArgumentValueError(f"config={config!r} fits {', '.join([name, *others])}: say which with kernel=")
        return _forced(problem, hardware, name, config, named=False)
    refusals: list[str] = []
    for candidate in KERNELS.values():
        refusal = candidate.refuses(problem, hardware)
        if refusal is None:
            found = tuned.best(problem, hardware, candidate.name) if measured else None
            config, origin = found or (candidate.best(problem, hardware), "")
            remarks = filter(None, (f"{candidate.name}: {candidate.summary}", candidate.remark(config), origin))
            return Choice(candidate, config, "; ".join([*remarks, *refusals]))
        refusals.append(f"{candidate.name} does not take it: {refusal}")
        if refusal.avoidable:
            _notice(f"{refusals[-1]}; the next kernel is slower")
    raise UnsupportedError(f"no kernel takes {problem} on {hardware.name}: " + "; ".join(refusals))


_noticed: set[str] = set()
"""The messages that were logged, without their numbers."""


def _notice(message: str) -> None:
    """Log a warning, unless one was logged that differs in its numbers alone: a ragged batch would bring many."""
    kind = re.sub(r"\d+", "", message)
    if kind not in _noticed:
        _noticed.add(kind)
        log.warning(message)


def check_names(kernel: str, config: Any) -> None:
    """Raise if `kernel` or `config` is not in the registry, whatever the problem."""
    if kernel != "auto":
        kernel_named(kernel, "kernel", "'auto'")
    if config is not None:
        _kernels_of(config)


def _kernels_of(config: Any) -> list[str]:
    """The kernels that take Configs of this type: one, or several rungs of the ladder."""
    found = [name for name, kernel in EVERY_KERNEL.items() if isinstance(config, kernel.config_type)]
    if not found:
        types = dict.fromkeys(kernel.config_type for kernel in EVERY_KERNEL.values() if fields_of(kernel.config_type))
        known = ", ".join(f"tilewright.{each.__name__}" for each in types)
        raise ArgumentTypeError(f"config={config!r} is not a Config of any kernel: pass one of {known}")
    return found


def _forced(problem: Problem, hardware: Hardware, name: str, config: Any, named: bool = True) -> Choice:
    """The kernel that was asked for; `named`: with kernel=, and not by the type of `config` alone."""
    kernel = kernel_named(name, "kernel", "'auto'")
    refusal = kernel.refuses(problem, hardware)
    if refusal is not None:
        if named:
            raise ArgumentValueError(
                f"kernel={name!r} does not take {problem} on {hardware.name}: {refusal}; use kernel='auto'"
            )
        raise ArgumentValueError(
            f"config={config!r} is for kernel {name!r}, which does not take {problem} on {hardware.name}: {refusal}; "
            f"leave config out"
        )
    if config is None:
        return Choice(kernel, kernel.best(problem, hardware), f"{name}: asked for by kernel=")
    kernel.check(config, problem, hardware)
    return Choice(kernel, config, f"{name}: asked for by config=")
