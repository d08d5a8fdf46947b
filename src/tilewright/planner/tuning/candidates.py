"""The Configs that are worth measuring for a product."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tilewright.hardware import Hardware
from tilewright.jit.source import TranslationUnit
from tilewright.kernels.kernel import ConfigError, Kernel, Launch
from tilewright.planner.choose import choose, takers
from tilewright.problem import Problem


class Candidate(NamedTuple):
    """A kernel with a Config, and its launch for a product."""

    kernel: Kernel
    config: Any
    launch: Launch

    @property
    def source(self) -> TranslationUnit:
        """What must be compiled; candidates may share it."""
        return self.launch.source


def tunable(problem: Problem, hardware: Hardware) -> Problem:
    """The product whose Configs are measured for a problem: with the copies in place of operands that are copied."""
    return choose(problem, hardware, measured=False).copied.problem


def untuned(problem: Problem, hardware: Hardware) -> Candidate:
    """What the planner chooses where nothing was tuned; raises what `choose` raises."""
    choice = choose(problem, hardware, measured=False)
    return Candidate(choice.kernel, choice.config, choice.launches(hardware)[-1])


def ranked(first: Candidate, problem: Problem, hardware: Hardware, most: int) -> Iterator[Candidate]:
    """The first candidate, and up to `most` with it of all kernels that contend, each in the order of its model."""
    kernels = list(takers(problem, hardware))
    seen = {first.config}
    yield first
    for kernel in kernels:
        for config in kernel.candidates(problem, hardware, most // len(kernels)):
            if config not in seen and len(seen) < most:
                seen.add(config)
                yield from _legal(kernel, config, problem, hardware)


def variants(of: Candidate, problem: Problem, hardware: Hardware) -> Iterator[Candidate]:
    """The candidates that differ from one in what the model does not see."""
    for config in of.kernel.variants(of.config, problem, hardware):
        yield from _legal(of.kernel, config, problem, hardware)


def _legal(kernel: Kernel, config: Any, problem: Problem, hardware: Hardware) -> Iterator[Candidate]:
    try:
        yield Candidate(kernel, config, kernel.assemble(config, problem, hardware))
    except ConfigError:
        return
