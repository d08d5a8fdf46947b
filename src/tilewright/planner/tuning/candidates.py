"""The Configs that are worth measuring for a product."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from tilewright.hardware import Hardware
from tilewright.jit.source import TranslationUnit
from tilewright.kernels.kernel import ConfigError, Kernel, Launch
from tilewright.planner.choose import asked, choose
from tilewright.planner.copies import Copied
from tilewright.problem import Problem


class Candidate(NamedTuple):
    """A kernel with a Config, and its launch for a product; copied: with the copies that are made first, if any are."""

    kernel: Kernel
    config: Any
    launch: Launch
    copied: Copied | None = None

    @property
    def source(self) -> TranslationUnit:
        """What must be compiled besides copies; candidates may share it."""
        return self.launch.source


def untuned(problem: Problem, hardware: Hardware) -> Candidate:
    """What the planner chooses where nothing was tuned; raises what `choose` raises."""
    choice = choose(problem, hardware, measured=False)
    return _candidate(choice.kernel, choice.config, choice.copied, hardware)


def ranked(first: Candidate, problem: Problem, hardware: Hardware, most: int) -> Iterator[Candidate]:
    """The first candidate, and up to `most` with it of all kernels that the planner asks and that take the product.

    Those of a kernel come in the order of its model, with copies of the operands that it does not take as they are; the
    kernels take turns, so that a search that ends early has met all of them.
    """
    takers = [(kernel, taken) for kernel, taken in asked(problem, hardware) if isinstance(taken, Copied)]
    seen = {first.config}
    yield first
    rankings = [
        [(kernel, config, taken) for config in kernel.candidates(taken.problem, hardware, most // len(takers))]
        for kernel, taken in takers
    ]
    for turn in zip_longest(*rankings):
        for kernel, config, taken in filter(None, turn):
            if config not in seen and len(seen) < most:
                seen.add(config)
                yield from _legal(kernel, config, taken, hardware)


def variants(of: Candidate, problem: Problem, hardware: Hardware) -> Iterator[Candidate]:
    """The candidates that differ from one in what the model does not see."""
    taken = of.copied or Copied(problem)
    for config in of.kernel.variants(of.config, taken.problem, hardware):
        yield from _legal(of.kernel, config, taken, hardware)


def _candidate(kernel: Kernel, config: Any, taken: Copied, hardware: Hardware) -> Candidate:
    return Candidate(kernel, config, kernel.assemble(config, taken.problem, hardware), taken)


def _legal(kernel: Kernel, config: Any, taken: Copied, hardware: Hardware) -> Iterator[Candidate]:
    try:
        yield _candidate(kernel, config, taken, hardware)
    except ConfigError:
        return
