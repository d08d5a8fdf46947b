"""The search for the quickest Config of a product.

1. The untuned choice and the Configs that the model ranks first are compiled, several at once. Each is verified and
   timed against the untuned choice as soon as it is there, unless what was measured so far makes it hopeless.
2. The best of them are varied in what the model does not see: the order of tiles, prefetching, the epilogue.
3. The finalists take turns at the power limit, since that is where large products live.

A budget of seconds ends the first two parts at shares of it, and says how many finalists there is time for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
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
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.kernel import Kernel
from tilewright.measure.protocol import Protocol, Settled, Work
from tilewright.planner.tuned_table import Entry, Key
from tilewright.planner.tuning.budget import Budget
from tilewright.planner.tuning.candidates import Candidate, ranked, untuned, variants
from tilewright.problem import Problem

Progress = Callable[[float, str], None]
"""A function that is told the share of the work that is done, and what is being done."""


MOST_FAULTS = 8
"""Faults in turn after which a search ends: an error of the GPU is followed by others in the same context."""

LONG_SECONDS = 1e-3
"""Launches that take longer are timed against the untuned choice once, since the host hardly delays them."""

TILINGS_END, VARIANTS_END = 0.34, 0.48
"""The shares of the budget at which tilings and variants end, at the latest."""


class Stand(Interface):
    """A place where candidates run: a GPU with operands of the product."""

    hardware: Hardware
    operands_seconds: float
    """How long it took to make the operands."""

    def fault(self, candidate: Candidate, compiled: CompiledKernel) -> str:
        """What is wrong with a candidate's result, in words; empty if it is right."""

    def work(self, candidate: Candidate, compiled: CompiledKernel, until: ExitStack) -> Work:
        """Launches of a candidate, to be timed until the stack ends."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    seconds: how long the search takes, about. tilings: Configs of the model's ranking. varied: the best of them, of
    which variants are measured. promising: the first of each kernel in that ranking, which are timed whatever the model
    says. hopeless: others are not timed to which the model gives so many times the best one's time, though its times
    are scaled to the Config that did best against them. far, near: candidates are dropped that take so many times the
    best one's time, at a first look or when timed against the untuned choice. finalists: the most candidates that are
    timed at the power limit, by `settled`: in slices that are as long as the budget allows, since clocks take half a
    second to follow a candidate's power. surely: one that is less times as quick as the untuned choice has not beaten
    it, since its times in two turns differ by as much.
    """

    seconds: float = 10.0
    tilings: int = 40
    varied: int = 3
    promising: int = 8
    hopeless: float = 1.2
    far: float = 1.1
    near: float = 1.06
    finalists: int = 4
    settled: Protocol = field(default_factory=lambda: Settled(cycles=1, slice_seconds=0.5, warmup_seconds=0.7))
    surely: float = 1.01


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
    that were not, each with the reason. hopeless, late: the numbers of those that were not, since the model gave them
    too much time, or since the budget was spent. spent: seconds by what they went into: making operands, waiting for
    compilers, verifying results, timing, the finals at the power limit, and all else.
    """

    entry: Entry
    best: tuple[Ranked, ...]
    measured: int
    faults: tuple[tuple[Any, str], ...]
    hopeless: int
    late: int
    spent: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(self.spent.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.entry.as_dict(),
            "best": [each.as_dict() for each in self.best],
            "measured": self.measured,
            "faults": [{"config": values_of(config), "fault": fault} for config, fault in self.faults],
            "hopeless": self.hopeless,
            "late": self.late,
            "seconds": self.seconds,
            "spent": dict(self.spent),
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
        self._promising: set[Any] = set()
        self._tilings: dict[Any, Any] = {}  # of variants
        self._predictions: dict[Any, float] = {}
        self._favors: dict[Kernel, float] = {}  # the least time of each kernel over the model's
        self._failed_in_turn = self._hopeless = self._late = 0
        self._first_seconds = 0.0
        self._budget = Budget(settings.seconds, {"operands": stand.operands_seconds})

    def run(self) -> Tuned:
        """All three parts."""
        problem, hardware, settings = self._problem, self._stand.hardware, self._settings
        first = untuned(problem, hardware)
        tilings = list(ranked(first, problem, hardware, settings.tilings))
        for kernel in {each.kernel for each in tilings}:
            of_kernel = [each.config for each in tilings if each.kernel is kernel]
            self._promising.update(of_kernel[: settings.promising])
        self._screen(tilings, TILINGS_END, 0.0, 0.6, "tilings")
        varied = []
        for leader in [each.candidate for each in self._best(settings.varied)]:
            for each in variants(leader, problem, hardware):
                self._tilings.setdefault(each.config, leader.config)
                varied.append(each)
        self._screen(varied, VARIANTS_END, 0.6, 0.8, "variants")
        with self._budget.on("finals"):
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
        faults = tuple(self._faults.items())
        return Tuned(entry, best, len(self._runners), faults, self._hopeless, self._late, self._budget.spent())

    def _screen(self, candidates: Iterable[Candidate], until: float, begin: float, end: float, what: str) -> None:
        """Compile, verify and time candidates, each as soon as it is compiled; the first of all comes first.

        until: the share of the budget at which this ends.
        """
        waiting: dict[TranslationUnit, list[Candidate]] = {}
        for candidate in candidates:
            if candidate.config not in self._runners and candidate.config not in self._faults:
                waiting.setdefault(candidate.source, []).append(candidate)
        count = len(waiting)
        with closing(self._pool.build_all(waiting, self._stand.hardware.arch)) as built:  # the rest is not compiled
            ready = built if self._runners else _first(built, next(iter(waiting)))
            while self._goes_on(waiting, until):
                with self._budget.on("compilers"):
                    source, compiled = next(ready)
                for candidate in waiting.pop(source):
                    if self._is_hopeless(candidate):
                        self._hopeless += 1
                    else:
                        self._add(candidate, compiled)
                self._report(end - (end - begin) * len(waiting) / count, f"{count - len(waiting)} of {count} {what}")
        left = sum(map(len, waiting.values()))
        if self._has_hope(waiting):
            self._late += left
        else:
            self._hopeless += left

    def _goes_on(self, waiting: Mapping[TranslationUnit, list[Candidate]], until: float) -> bool:
        """Whether there is time for candidates that wait, and hope for one of them; always for the first of all."""
        return not self._runners or (self._budget.reaches(until) and self._has_hope(waiting))

    def _has_hope(self, waiting: Mapping[TranslationUnit, list[Candidate]]) -> bool:
        return any(not self._is_hopeless(each) for candidates in waiting.values() for each in candidates)

    def _is_hopeless(self, candidate: Candidate) -> bool:
        """Whether the model's time is too long, though scaled to the kernel's Config that did best against it."""
        if candidate.config in self._promising or candidate.kernel not in self._favors:
            return False
        least = self._predicted(candidate) * self._favors[candidate.kernel]
        return least > self._settings.hopeless * self._least()

    def _predicted(self, candidate: Candidate) -> float:
        """The model's seconds for a candidate, or 0 if it knows none; each is asked for once."""
        if candidate.config not in self._predictions:
            problem = candidate.copied.problem if candidate.copied else self._problem
            found = candidate.kernel.predict(candidate.config, problem, self._stand.hardware, "recorded")
            self._predictions[candidate.config] = found.seconds if found else 0.0
        return self._predictions[candidate.config]

    def _add(self, candidate: Candidate, compiled: CompiledKernel | TilewrightError) -> None:
        runner, fault = self._tried(candidate, compiled)
        if runner is not None:
            self._runners[candidate.config] = runner
            self._failed_in_turn = 0
            if predicted := self._predicted(candidate):
                favor = runner.relative / predicted
                self._favors[candidate.kernel] = min(favor, self._favors.get(candidate.kernel, favor))
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
            with self._budget.on("verification"):
                fault = self._stand.fault(candidate, compiled)
            if fault:
                return None, fault
            with self._budget.on("timing"):
                runner = _Runner(candidate, self._stand.work(candidate, compiled, self._until))
                if self._runners:
                    runner.relative = self._against_first(runner)
                else:
                    self._first_seconds = _seconds(runner)
        except TilewrightError as error:
            return None, str(error)
        return runner, ""

    def _against_first(self, runner: _Runner) -> float:
        """Its time over the untuned choice's: A B B A, thrice if it may be near the best and launches are short.

        A candidate is dropped when two measurements say so, since the host may have been interrupted in one: two first
        looks at it alone, or a first look and A B B A.
        """
        least = self._least()
        look = self._look(runner)
        if look > self._settings.far * least:
            look = min(look, self._look(runner))
            if look > self._settings.far * least:
                return look
        ratio = self._ratio(runner)
        if min(look, ratio) > self._settings.near * least or self._first_seconds > LONG_SECONDS:
            return ratio
        return median([ratio, self._ratio(runner), self._ratio(runner)])

    def _look(self, runner: _Runner) -> float:
        """Its time over the untuned choice's of a while ago."""
        return _seconds(runner) / self._first_seconds

    def _ratio(self, runner: _Runner) -> float:
        reference = next(iter(self._runners.values()))
        times = [_seconds(each) for each in (reference, runner, runner, reference)]
        self._first_seconds = (times[0] + times[3]) / 2
        return (times[1] + times[2]) / (times[0] + times[3])

    def _least(self) -> float:
        return min(each.relative for each in self._runners.values())

    def _best(self, count: int) -> list[_Runner]:
        return sorted(self._runners.values(), key=lambda each: each.relative)[:count]

    def _finals(self) -> tuple[Ranked, ...]:
        """The finalists and the untuned choice, timed in turns at the power limit.

        Those that are surely quicker than the untuned choice come first, the quickest ahead, then that choice, then the
        others.
        """
        reference = next(iter(self._runners.values()))
        finalists = [reference, *(each for each in self._leaders() if each is not reference)]
        protocol, doing = self._settings.settled, "finalists at the power limit"
        self._report(0.8, doing)
        cycles: list[list[float]] = []
        for cycle in protocol.measure({str(index): each.work for index, each in enumerate(finalists)}):
            cycles.append([sample.seconds for sample in cycle.values()])
            self._report(0.8 + 0.2 * len(cycles) / protocol.cycles, doing)
        ranking = []
        for index, each in enumerate(finalists):
            gain = median(seconds[0] / seconds[index] for seconds in cycles)
            us = median(seconds[index] for seconds in cycles) * 1e6
            place = 1 if each is reference else 0 if gain >= self._settings.surely else 2
            ranking.append((place, Ranked(each.candidate.config, us, gain)))
        return tuple(ranked for _, ranked in sorted(ranking, key=lambda each: (each[0], -each[1].gain)))

    def _leaders(self) -> list[_Runner]:
        """The finalists: the quickest of each tiling and its variants, of which those nearly as quick as the first.

        There are as many as the rest of the budget has time for, with the untuned choice, and one at least.
        """
        of_tiling: dict[Any, _Runner] = {}
        for each in self._best(len(self._runners)):
            config = each.candidate.config
            of_tiling.setdefault(self._tilings.get(config, config), each)
        settled, most = self._settings.settled, self._settings.finalists
        while most > 1 and settled.seconds(most + 1) > self._budget.left:
            most -= 1
        leaders = list(of_tiling.values())[:most]
        return [each for each in leaders if each.relative <= self._settings.near * leaders[0].relative]


def _seconds(runner: _Runner) -> float:
    """Seconds per launch, run once."""
    return runner.work.run(1) / runner.work.launches


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
