"""The search for the quickest Config of a product.

1. The untuned choice and the Configs that the model ranks first are compiled, several at once. Each is verified and
   timed against the untuned choice as soon as it is there.
2. The best of them are varied in what the model does not see: the order of tiles, prefetching, the epilogue.
3. The finalists take turns at the power limit, since that is where large products live.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any, TypeAlias
from typing import Protocol as Interface

from tilewright.errors import TilewrightError, UnavailableError
from tilewright.hardware import Hardware
from tilewright.jit.compile import CompiledKernel, nvrtc_version
from tilewright.jit.pool import CompilerPool
from tilewright.jit.source import TranslationUnit
from tilewright.kernels.kernel import values_of
from tilewright.measure.protocol import Protocol, Settled, Work
from tilewright.planner.tuned_table import Entry, Key
from tilewright.planner.tuning.candidates import Candidate, ranked, untuned, variants
from tilewright.problem import Problem

Progress = Callable[[float, str], None]
"""A function that is told the share of the work that is done, and what is being done."""


MOST_FAULTS = 8
"""Faults in turn after which a search ends: an error of the GPU is followed by others in the same context."""


class Stand(Interface):
    """A place where candidates run: a GPU with operands of the product."""

    hardware: Hardware

    def fault(self, candidate: Candidate, compiled: CompiledKernel) -> str:
        """What is wrong with a candidate's result, in words; empty if it is right."""

    def work(self, candidate: Candidate, compiled: CompiledKernel, until: ExitStack) -> Work:
        """Launches of a candidate, to be timed until the stack ends."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    tilings: Configs of the model's ranking. varied: the best of them, of which variants are measured.
    near: candidates are dropped that take so many times the best one's time. finalists: candidates that are timed at
    the power limit, by `settled`.
    """

    tilings: int = 40
    varied: int = 3
    near: float = 1.06
    finalists: int = 4
    settled: Protocol = field(default_factory=lambda: Settled(cycles=3, slice_seconds=0.15, warmup_seconds=0.6))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A finalist: its Config, its time at the power limit, and how many times quicker it is than the untuned choice."""

    config: Any
    us: float
    gain: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"config": values_of(self.config), "us": self.us, "gain": self.gain}


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning one product found.

    best: the finalists, the quickest first. measured: the number of candidates that were timed. faults: candidates
    that were not, each with the reason. seconds: how long it took.
    """

    entry: Entry
    best: tuple[Ranked, ...]
    measured: int
    faults: tuple[tuple[Any, str], ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.entry.as_dict(),
            "best": [each.as_dict() for each in self.best],
            "measured": self.measured,
            "faults": [{"config": values_of(config), "fault": fault} for config, fault in self.faults],
            "seconds": self.seconds,
        }


_Compiled: TypeAlias = tuple[TranslationUnit, CompiledKernel | TilewrightError]


@dataclass(slots=True)
class _Runner:
    """A candidate that is right, and its time relative to the untuned choice's."""

    candidate: Candidate
    work: Work
    relative: float = 1.0


def tune(
    problem: Problem,
    stand: Stand,
    pool: CompilerPool,
    *,
    settings: Settings | None = None,
    report: Progress = lambda share, doing: None,
) -> Tuned:
    """Find the quickest Config of a problem on a stand; the pool compiles.

    Raises what `choose` raises if no kernel takes the problem, and an UnavailableError if the untuned choice does not
    compile or gives a wrong result, since nothing can be trusted then.
    """
    with ExitStack() as until:
        return _Search(problem, stand, pool, settings or Settings(), report, until).run()


class _Search:
    """One search, which keeps what it has found."""

    def __init__(
        self,
        problem: Problem,
        stand: Stand,
        pool: CompilerPool,
        settings: Settings,
        report: Progress,
        until: ExitStack,
    ):
        self._problem, self._stand, self._pool, self._settings = problem, stand, pool, settings
        self._report, self._until = report, until
        self._runners: dict[Any, _Runner] = {}
        self._faults: dict[Any, str] = {}
        self._failed_in_turn = 0
        self._begun = time.monotonic()

    def run(self) -> Tuned:
        """All three parts."""
        problem, hardware, settings = self._problem, self._stand.hardware, self._settings
        first = untuned(problem, hardware)
        self._screen(ranked(first, problem, hardware, settings.tilings), 0.0, 0.6, "tilings")
        leaders = self._best(settings.varied)
        self._screen(
            (each for leader in leaders for each in variants(leader.candidate, problem, hardware)), 0.6, 0.8, "variants"
        )
        best = self._finals()
        entry = Entry(
            Key.of(problem),
            problem.m,
            self._runners[best[0].config].candidate.kernel.name,
            values_of(best[0].config),
            best[0].us,
            datetime.now(UTC).isoformat(timespec="seconds"),
            nvrtc_version(),
        )
        seconds = time.monotonic() - self._begun
        return Tuned(entry, best, len(self._runners), tuple(self._faults.items()), seconds)

    def _screen(self, candidates: Iterable[Candidate], begin: float, end: float, what: str) -> None:
        """Compile, verify and time candidates, each as soon as it is compiled; the first of all comes first."""
        waiting: dict[TranslationUnit, list[Candidate]] = {}
        for candidate in candidates:
            if candidate.config not in self._runners and candidate.config not in self._faults:
                waiting.setdefault(candidate.source, []).append(candidate)
        ready = self._pool.build_all(waiting, self._stand.hardware.arch)
        if not self._runners:
            ready = _first(ready, next(iter(waiting)))
        for done, (source, compiled) in enumerate(ready, 1):
            for candidate in waiting[source]:
                self._add(candidate, compiled)
            self._report(begin + (end - begin) * done / len(waiting), f"{done} of {len(waiting)} {what}")

    def _add(self, candidate: Candidate, compiled: CompiledKernel | TilewrightError) -> None:
        runner, fault = self._tried(candidate, compiled)
        if runner is not None:
            self._runners[candidate.config] = runner
            self._failed_in_turn = 0
            return
        if not self._runners:
            raise UnavailableError(
                f"the untuned choice {candidate.config!r} of {self._problem} is not right on this GPU, so nothing can "
                f"be tuned: {fault}"
            )
        self._faults[candidate.config] = fault
        self._failed_in_turn += 1
        if self._failed_in_turn >= MOST_FAULTS:
            raise UnavailableError(
                f"{MOST_FAULTS} Configs of {self._problem} in turn were not right, so the GPU's context may be lost: "
                f"leave out config={candidate.config!r}, the last one, of which is known: {fault}"
            )

    def _tried(self, candidate: Candidate, compiled: CompiledKernel | TilewrightError) -> tuple[_Runner | None, str]:
        """A candidate that is right, timed; or None and what is wrong with it."""
        if isinstance(compiled, TilewrightError):
            return None, str(compiled)
        try:
            if fault := self._stand.fault(candidate, compiled):
                return None, fault
            runner = _Runner(candidate, self._stand.work(candidate, compiled, self._until))
            if self._runners:
                runner.relative = self._against_first(runner)
        except TilewrightError as error:
            return None, str(error)
        return runner, ""

    def _against_first(self, runner: _Runner) -> float:
        """Its time over the untuned choice's: A B B A twice, and once more if it may be near the best."""
        reference = next(iter(self._runners.values()))
        near = self._settings.near * min(each.relative for each in self._runners.values())
        ratios = [self._ratio(runner, reference) for _ in range(2)]
        if min(ratios) > near:  # both: the host may have been interrupted in one
            return min(ratios)
        return median([*ratios, self._ratio(runner, reference)])

    def _ratio(self, runner: _Runner, reference: _Runner) -> float:
        order = (reference, runner, runner, reference)
        times = [each.work.run(1) / each.work.launches for each in order]
        return (times[1] + times[2]) / (times[0] + times[3])

    def _best(self, count: int) -> list[_Runner]:
        return sorted(self._runners.values(), key=lambda each: each.relative)[:count]

    def _finals(self) -> tuple[Ranked, ...]:
        """The finalists and the untuned choice, timed in turns at the power limit.

        Those that are quicker than the untuned choice in every cycle come first, the quickest ahead, then that choice,
        then the others: a gain that is not seen each time is likely the power limit's noise.
        """
        reference = next(iter(self._runners.values()))
        finalists = [reference, *(each for each in self._leaders() if each is not reference)]
        contenders = {str(index): each.work for index, each in enumerate(finalists)}
        cycles = []
        for cycle in self._settings.settled.measure(contenders):
            cycles.append(cycle)
            share = len(cycles) / self._settings.settled.cycles
            self._report(0.8 + 0.2 * share, "finalists at the power limit")
        ranking = []
        for index, each in enumerate(finalists):
            us = median(cycle[str(index)].seconds for cycle in cycles) * 1e6
            gains = [cycle["0"].seconds / cycle[str(index)].seconds for cycle in cycles]
            place = 1 if each is reference else 0 if min(gains) > 1 else 2
            ranking.append((place, Ranked(each.candidate.config, us, median(gains))))
        return tuple(ranked for _, ranked in sorted(ranking, key=lambda each: (each[0], -each[1].gain)))

    def _leaders(self) -> list[_Runner]:
        """The finalists: of each translation unit the quickest, of which those nearly as quick as the first."""
        of_unit: dict[TranslationUnit, _Runner] = {}
        for each in self._best(len(self._runners)):
            of_unit.setdefault(each.candidate.source, each)
        leaders = list(of_unit.values())[: self._settings.finalists]
        return [each for each in leaders if each.relative <= self._settings.near * leaders[0].relative]


def _first(ready: Iterator[_Compiled], source: TranslationUnit) -> Iterator[_Compiled]:
    """The same with `source` first; what is ready before it waits."""
    held = []
    for each in ready:
        if each[0] == source:
            yield each
            break
        held.append(each)
    yield from held
    yield from ready
