"""How contenders are timed against each other: burst (right after idle) and settled (at the power limit).

Both protocols interleave the contenders and go through them forward and backward (A B B A), so a drift of clocks and
temperature affects all alike. A sample is the mean of both passes. Slow work gets one pass, and its place in the order
changes from cycle to cycle.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import ClassVar, TypeAlias

from tilewright.measure.sensors import Reading, Sensors, combined

SLOW_SECONDS = 0.2
"""Work that takes longer than this once is its own warm-up, and runs once per cycle."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work to be timed.

    run: does the work the given number of times and returns the GPU seconds of all of them together.
    launches: launches in one repetition, such as those of one CUDA graph.
    """

    run: Callable[[int], float]
    launches: int = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: seconds per launch, and the board's reading; None if the time was too short for one."""

    seconds: float
    reading: Reading | None = None


Cycle: TypeAlias = dict[str, Sample]
"""One sample of each contender, taken in the same cycle."""


@dataclass(frozen=True, slots=True)
class Protocol(ABC):
    """A way of timing: how often contenders take turns, and what a turn does."""

    name: ClassVar[str]
    cycles: int

    @property
    @abstractmethod
    def turn_seconds(self) -> float:
        """Approximate duration of a turn. Each contender has two per cycle, or one if its work is slow."""

    def seconds(self, contenders: int) -> float:
        """Approximate duration of the measurement of that many contenders."""
        return 2 * self.cycles * self.turn_seconds * contenders

    @abstractmethod
    def turn(self, work: Work, once: float, sensors: Sensors | None) -> Sample:
        """Measure one contender. Its work takes about `once` seconds."""

    def measure(self, contenders: Mapping[str, Work], sensors: Sensors | None = None) -> Iterator[Cycle]:
        """Run all cycles, and yield each one when it is complete, so an interruption loses at most one."""
        once = {name: _once(work) for name, work in contenders.items()}
        for cycle in range(self.cycles):
            order = list(contenders)[:: 1 if cycle % 2 == 0 else -1]
            turns: dict[str, list[Sample]] = {name: [] for name in contenders}
            for name in (*order, *reversed(order)):
                if not turns[name] or once[name] < SLOW_SECONDS:
                    turns[name].append(self.turn(contenders[name], once[name], sensors))
            yield {name: _mean(samples) for name, samples in turns.items()}


@dataclass(frozen=True, slots=True)
class Burst(Protocol):
    """Time `launches` right after `idle_seconds` of rest and `warmups` untimed launches.

    Short launches are timed for at least `least_seconds`, which the clock resolves. Long ones are timed for at most
    `most_seconds`, because power would then limit the clocks.
    """

    name: ClassVar[str] = "burst"
    cycles: int = 5
    idle_seconds: float = 1.0
    warmups: int = 3
    launches: int = 10
    least_seconds: float = 1e-3
    most_seconds: float = 0.1

    @property
    def turn_seconds(self) -> float:
        """The rest, which takes most of a turn."""
        return self.idle_seconds

    def turn(self, work: Work, once: float, sensors: Sensors | None) -> Sample:
        """Rest, warm up, and time."""
        time.sleep(self.idle_seconds)
        if once < SLOW_SECONDS:
            work.run(self._times(self.warmups, work, once))
        times = self._times(self.launches, work, once)
        return Sample(work.run(times) / (times * work.launches))

    def _times(self, launches: int, work: Work, once: float) -> int:
        wanted = max(ceil(launches / work.launches), ceil(self.least_seconds / once))
        return max(1, min(wanted, int(self.most_seconds / once)))


@dataclass(frozen=True, slots=True)
class Settled(Protocol):
    """Keep the GPU busy throughout, with `slice_seconds` per contender; measure the second half of each slice.

    Boards take about half a second to settle: in slices of 0.24 s, kernels of about the same power came out up to 7%
    apart, and changed places (docs/performance-log.md, 2026-11-28).
    """

    name: ClassVar[str] = "settled"
    cycles: int = 5
    slice_seconds: float = 1.2
    warmup_seconds: float = 1.5

    @property
    def turn_seconds(self) -> float:
        """The slice."""
        return self.slice_seconds

    def seconds(self, contenders: int) -> float:
        """The warm-up and the slices."""
        return self.warmup_seconds + Protocol.seconds(self, contenders)

    def measure(self, contenders: Mapping[str, Work], sensors: Sensors | None = None) -> Iterator[Cycle]:
        """Warm the board up with the first contender, then run all cycles."""
        first = next(iter(contenders.values()))
        self._keep_busy(first, _once(first), self.warmup_seconds)
        yield from Protocol.measure(self, contenders, sensors)

    def turn(self, work: Work, once: float, sensors: Sensors | None) -> Sample:
        """Run half a slice until clocks and sensors reflect this contender, and measure the other half."""
        if once < SLOW_SECONDS:
            self._keep_busy(work, once, self.slice_seconds / 2)
        if sensors is None:
            return Sample(self._keep_busy(work, once, self.slice_seconds / 2))
        sensors.reading()
        seconds = self._keep_busy(work, once, self.slice_seconds / 2)
        return Sample(seconds, sensors.reading())

    def _keep_busy(self, work: Work, once: float, seconds: float) -> float:
        """Work for `seconds`, in batches that hide the host's time between them; returns the seconds per launch."""
        batch = max(1, int(0.02 / once))
        spent, times = 0.0, 0
        while spent < seconds:
            spent += work.run(batch)
            times += batch
        return spent / (times * work.launches)


def _once(work: Work) -> float:
    """Approximate seconds of the work once it is warm."""
    first = work.run(1)
    return first if first > SLOW_SECONDS else max(work.run(1), 1e-7)


def _mean(samples: list[Sample]) -> Sample:
    return Sample(fmean(sample.seconds for sample in samples), combined((sample.reading for sample in samples), fmean))
