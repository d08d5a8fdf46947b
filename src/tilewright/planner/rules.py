"""Which kernel and which Config a problem gets, and why."""

import logging
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.hardware import Hardware
from tilewright.kernels.family import AvoidableRefusal, Kernel
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Problem

log = logging.getLogger("tilewright")


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel with its Config, and the reason in one sentence."""

    kernel: Kernel
    config: Any
    reason: str


def choose(problem: Problem, hardware: Hardware, *, kernel: str = "auto", config: Any = None) -> Choice:
    """Decide for a problem on a GPU; `kernel` and `config` override.

    KERNELS is in order of preference, so the first that takes the problem is chosen. Raises ValueError where the
    override does not exist or does not fit, NotImplementedError where no kernel takes the problem.
    """
    if config is not None and kernel == "auto":
        kernel = _kernel_of(config)
    if kernel != "auto":
        return _forced(problem, hardware, kernel, config)
    refusals: list[str] = []
    for candidate in KERNELS.values():
        refusal = candidate.rejects(problem, hardware)
        if refusal is None:
            reason = "; ".join([f"{candidate.name}: {candidate.summary}", *refusals])
            return Choice(candidate, candidate.configs(problem, hardware)[0], reason)
        refusals.append(f"{candidate.name} does not take it: {refusal}")
        if isinstance(refusal, AvoidableRefusal):
            _warn_once(f"{refusals[-1]}; the next kernel is slower")
    raise NotImplementedError(f"no kernel takes {problem} on {hardware.name}: " + "; ".join(refusals))


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def check_names(kernel: str, config: Any) -> None:
    """Raise where `kernel` or `config` is none of the registry's, whatever the problem."""
    if kernel != "auto":
        _named(kernel)
    if config is not None:
        _kernel_of(config)


def _named(name: str) -> Kernel:
    kernel = KERNELS.get(name) if isinstance(name, str) else None
    if kernel is None:
        raise ValueError(f"kernel={name!r} does not exist: use 'auto' or one of {', '.join(KERNELS)}")
    return kernel


def _kernel_of(config: Any) -> str:
    for name, kernel in KERNELS.items():
        if isinstance(config, kernel.config_type):
            return name
    known = ", ".join(kernel.config_type.__name__ for kernel in KERNELS.values())
    raise TypeError(f"config={config!r} is no Config of any kernel: pass one of {known}")


def _forced(problem: Problem, hardware: Hardware, name: str, config: Any) -> Choice:
    kernel = _named(name)
    refusal = kernel.rejects(problem, hardware)
    if refusal is not None:
        raise ValueError(f"kernel={name!r} does not take {problem} on {hardware.name}: {refusal}; use kernel='auto'")
    if config is None:
        return Choice(kernel, kernel.configs(problem, hardware)[0], f"{name}: asked for by kernel=")
    kernel.check(config, problem, hardware)
    return Choice(kernel, config, f"{name}: asked for by config=")
