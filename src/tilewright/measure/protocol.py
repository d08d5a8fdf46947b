"""How contenders are timed against each other: burst (right after idle) and settled (at the power limit).

Both protocols interleave the contenders and go through them forwards and backwards (A B B A), so that a drift of clocks
and temperature meets all alike; a sample is the mean of both passes. Work that is slow has one pass, whose place in the
order changes from cycle to cycle.
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
"""Work that takes longer once is its own warm-up and is done as seldom as a sample of every cycle allows."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is timed: `run(times)` does it so many times and returns the GPU seconds of all of them together.

    Once is `launches` launches, such as those of one CUDA graph.
    """

    run: Callable[[int], float]
    launches: int = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds per launch, and what the board reported meanwhile; None where that took too short a time to be read."""

    seconds: float
    reading: Reading | None = None


Cycle: TypeAlias = dict[str, Sample]
"""One sample of each contender, taken next to each other."""


@dataclass(frozen=True, slots=True)
class Protocol(ABC):
    """How often contenders take turns, and what a turn is."""

    name: ClassVar[str]
    cycles: int

    @property
    @abstractmethod
    def turn_seconds(self) -> float:
        """About how long a turn takes; each contender has two in a cycle, or one where its work is slow."""

    @abstractmethod
    def turn(self, work: Work, once: float, sensors: Sensors | None) -> Sample:
        """Measure one contender, whose work takes about `once` seconds."""

    def measure(self, contenders: Mapping[str, Work], sensors: Sensors | None = None) -> Iterator[Cycle]:
        """Run all cycles; each is yielded when it is complete, so that an interruption loses one at most."""
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

    Short launches are timed for `least_seconds`, which the clock resolves; long ones are cut to `most_seconds`, after
    which power would limit the clocks.
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
        """Mostly rest."""
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
    """Keep the GPU busy throughout, `slice_seconds` a contender; the second half of each slice is measured."""

    name: ClassVar[str] = "settled"
    cycles: int = 7
    slice_seconds: float = 0.6
    warmup_seconds: float = 1.5

    @property
    def turn_seconds(self) -> float:
        """The slice."""
        return self.slice_seconds

    def measure(self, contenders: Mapping[str, Work], sensors: Sensors | None = None) -> Iterator[Cycle]:
        """Warm the board up with the first contender, then run all cycles."""
        first = next(iter(contenders.values()))
        self._keep_busy(first, _once(first), self.warmup_seconds)
        yield from Protocol.measure(self, contenders, sensors)

    def turn(self, work: Work, once: float, sensors: Sensors | None) -> Sample:
        """Half a slice until clocks and sensors are this contender's, and half that counts."""
        if once < SLOW_SECONDS:
            self._keep_busy(work, once, self.slice_seconds / 2)
        if sensors is None:
            return Sample(self._keep_busy(work, once, self.slice_seconds / 2))
        sensors.reading()
        seconds = self._keep_busy(work, once, self.slice_seconds / 2)
        return Sample(seconds, sensors.reading())

    def _keep_busy(self, work: Work, once: float, seconds: float) -> float:
        """Work, in batches that hide what the host does between them, until `seconds` have passed; those per launch."""
        batch = max(1, int(0.02 / once))
        spent, times = 0.0, 0
        while spent < seconds:
            spent += work.run(batch)
            times += batch
        return spent / (times * work.launches)


def _once(work: Work) -> float:
    """About how long the work takes, once it is warm."""
    first = work.run(1)
    return first if first > SLOW_SECONDS else max(work.run(1), 1e-7)


def _mean(samples: list[Sample]) -> Sample:
    return Sample(fmean(sample.seconds for sample in samples), combined((sample.reading for sample in samples), fmean))
