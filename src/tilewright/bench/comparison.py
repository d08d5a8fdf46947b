"""Verifies contenders, times them against each other on the same inputs, and records the result."""

import math
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal, TypeAlias

from tilewright.bench.contender import Absent, Contender, Prepared
from tilewright.bench.contenders import EPILOGUE, OURS, READ
from tilewright.bench.inputs import Inputs
from tilewright.errors import ArgumentValueError
from tilewright.measure.protocol import Burst, Cycle, Protocol, Sample, Settled, Work
from tilewright.measure.sensors import Reading, Sensors, combined
from tilewright.measure.statistics import Interval, median_interval, paired_ratio

Status = Literal["unfinished", "right", "wrong", "read", "absent", "failed"]

Progress: TypeAlias = Callable[[float, str], None]
"""A callback that gets the finished share, from 0 to 1, and a description of the current work."""

GRAPH_BELOW_SECONDS = 300e-6
"""If a contender's launch is shorter, all are replayed from graphs, since some libraries' calls take 100 us of host."""


@dataclass(slots=True)
class Entry:
    """The record of one contender.

    status: "unfinished" until the contender is verified, then "right" or "wrong"; "read" if it multiplies nothing.
    reason: why it is absent, wrong or failed.
    about: its version, or its kernel and Config.
    samples: by protocol, one sample per complete cycle; only right contenders have any.
    """

    contender: str
    status: Status = "unfinished"
    reason: str = ""
    relative_error: float | None = None
    about: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    @property
    def verified(self) -> bool | None:
        """Whether its result is right; None without a result."""
        return {"right": True, "wrong": False}.get(self.status)

    def seconds(self, protocol: str) -> list[float]:
        """Seconds per launch, one value per cycle."""
        return [sample.seconds for sample in self.samples.get(protocol, ())]

    def reading(self, protocol: str) -> Reading | None:
        """Medians of the board's readings during this contender's turns."""
        return combined((sample.reading for sample in self.samples.get(protocol, ())), median)


@dataclass(slots=True)
class Comparison:
    """The record of one product. Ratios are to `baseline`; None if that contender was not measured."""

    product: dict[str, Any]
    flops: float
    light_seconds: float
    baseline: str | None = None
    graphs: bool = False
    interrupted: bool = False
    entries: list[Entry] = field(default_factory=list)

    def entry(self, contender: str) -> Entry:
        """The entry of a contender. KeyError if it was not requested, or if an interruption came before it."""
        for entry in self.entries:
            if entry.contender == contender:
                return entry
        raise KeyError(contender)

    def ratio(self, protocol: str, contender: str, to: str) -> Interval | None:
        """How many times faster a contender is than another, from the cycles of both; None without cycles."""
        ours, theirs = self.entry(contender).seconds(protocol), self.entry(to).seconds(protocol)
        return paired_ratio(ours, theirs) if ours and theirs else None

    def measured(self, entry: Entry, protocol: str) -> dict[str, Any] | None:
        """One contender under one protocol, for JSON: medians with intervals and ratios; None if not measured."""
        seconds = entry.seconds(protocol)
        if not seconds:
            return None
        time, reading = median_interval(seconds), entry.reading(protocol)
        record: dict[str, Any] = {
            "time_us": time.median * 1e6,
            "time_us_interval": median_interval([each * 1e6 for each in seconds]).as_dict(),
            "tflops": self.flops / time.median / 1e12,
            "tflops_interval": median_interval([self.flops / each / 1e12 for each in seconds]).as_dict(),
            "speed_of_light_share": self.light_seconds / time.median,
            "samples_us": [each * 1e6 for each in seconds],
        }
        if self.baseline is not None and (ratio := self.ratio(protocol, entry.contender, self.baseline)) is not None:
            record["ratio"] = ratio.as_dict()
        if any(each.contender == READ for each in self.entries):
            share = self.ratio(protocol, entry.contender, READ)
            record |= {} if share is None else {"read_share": share.median}
        if EPILOGUE in entry.about and any(each.contender == OURS for each in self.entries):
            times = self.ratio(protocol, OURS, entry.contender)
            record |= {} if times is None else {"cost": times.median - 1}
        if reading is not None:
            record |= asdict(reading)
            record["joules_per_tflop"] = reading.watts * time.median / self.flops * 1e12
        return record

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.product,
            "baseline": self.baseline,
            "graphs": self.graphs,
            "interrupted": self.interrupted,
            "contenders": [self._entry_as_dict(entry) for entry in self.entries],
        }

    def _entry_as_dict(self, entry: Entry) -> dict[str, Any]:
        return {
            "contender": entry.contender,
            "status": entry.status,
            "verified": entry.verified,
            "relative_error": entry.relative_error,
            **({"why": entry.reason} if entry.reason else {}),
            **entry.about,
            **{protocol: self.measured(entry, protocol) for protocol in entry.samples},
        }

    def add(self, protocol: str, cycle: Cycle) -> None:
        """Record a complete cycle."""
        for name, sample in cycle.items():
            self.entry(name).samples.setdefault(protocol, []).append(sample)


def compare(
    contenders: Sequence[Contender],
    inputs: Inputs,
    protocols: Sequence[Protocol] = (Burst(), Settled()),
    *,
    baseline: str | None = None,
    choices: MutableMapping[str, Any] | None = None,
    progress: Progress = lambda share, doing: None,
) -> Comparison:
    """Verify the contenders on every set of inputs, and time the right ones under each protocol.

    A contender that is absent, fails or is wrong is recorded with the reason and not timed. Ratios are to `baseline`.
    `choices` has what contenders' tuners chose for this Shape, by contender; they are used, and new ones are added.
    After Ctrl-C the record holds the complete cycles and is `interrupted`.
    """
    names = [contender.name for contender in contenders]
    if len(set(names)) < len(names):
        raise ArgumentValueError(
            f"contenders share a name, but records tell them apart by name: {', '.join(names)}; give each its own"
        )
    comparison = Comparison(inputs.as_dict(), inputs.shape.flops, inputs.light_seconds)
    choices = {} if choices is None else choices
    try:
        with inputs.current(), ExitStack() as given_up, Sensors(inputs.device) as sensors:
            works = _verified(contenders, inputs, comparison, choices, given_up, progress)
            comparison.baseline = baseline if baseline in works else None
            if works:
                _measure(works, protocols, comparison, sensors, progress)
    except KeyboardInterrupt:
        comparison.interrupted = True
    return comparison


def _verified(
    contenders: Sequence[Contender],
    inputs: Inputs,
    comparison: Comparison,
    choices: MutableMapping[str, Any],
    given_up: ExitStack,
    progress: Progress,
) -> dict[str, Work]:
    """The work of the right contenders, as graphs if launches are short; every contender gets an entry."""
    right: dict[str, Prepared] = {}
    works: dict[str, Work] = {}
    for contender in contenders:
        progress(0.0, f"{inputs.shape}: preparing {contender.name}")
        entry = Entry(contender.name)
        comparison.entries.append(entry)
        try:
            prepared = contender.prepare(inputs, choices.get(contender.name))
            given_up.callback(_release, entry, prepared)
            if prepared.choice is not None:
                choices[contender.name] = prepared.choice
            entry.about = prepared.about
            work = inputs.work(prepared.launch)
            if _verify(entry, inputs, work, prepared):
                right[contender.name], works[contender.name] = prepared, work
        except Absent as reason:
            entry.status, entry.reason = "absent", str(reason)
        except Exception as error:  # a library may raise anything; the others are still compared
            entry.status, entry.reason = "failed", first_line(error)
    comparison.graphs = any(
        work.run(len(inputs.sets)) < GRAPH_BELOW_SECONDS * len(inputs.sets) for work in works.values()
    )
    if not comparison.graphs:
        return works
    graphs = {}
    for name, prepared in right.items():
        entry = comparison.entry(name)
        try:
            work = inputs.work(prepared.launch, graph=True)
            if _verify(entry, inputs, work, prepared):
                graphs[name] = work
        except Exception as error:
            entry.status, entry.reason = "failed", f"in a CUDA graph: {first_line(error)}"
    return graphs


def _verify(entry: Entry, inputs: Inputs, work: Work, prepared: Prepared) -> bool:
    """Whether the work to be timed leaves right results in all sets, or is none that multiplies."""
    if not prepared.multiplies:
        entry.status = "read"
        return True
    rounds = math.ceil(len(inputs.sets) / work.launches)
    verdict = inputs.verify(lambda: work.run(rounds), prepared.accumulator, prepared.outs, prepared.ending)
    known = math.isfinite(verdict.relative_error)
    entry.relative_error = verdict.relative_error if known else None
    entry.status = "right" if verdict.verified else "wrong"
    if not verdict.verified:
        entry.reason = "its result is not the product: " + (
            f"relative error {verdict.relative_error:.2e}, or elements beyond their bound"
            if known
            else "elements are not written, or not finite where they should be"
        )
    return verdict.verified


def _release(entry: Entry, prepared: Prepared) -> None:
    """Release a contender; its measurements stay."""
    try:
        prepared.release()
    except Exception as error:
        entry.reason = "; ".join(filter(None, (entry.reason, f"on release: {first_line(error)}")))


def first_line(error: Exception) -> str:
    """The type of an error and the first line of its message; compilers print many more lines."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _measure(
    works: dict[str, Work],
    protocols: Sequence[Protocol],
    comparison: Comparison,
    sensors: Sensors,
    progress: Progress,
) -> None:
    total = sum(protocol.cycles * protocol.turn_seconds for protocol in protocols)
    done = 0.0
    for protocol in protocols:
        sensors.reading()
        doing = f"{comparison.product['m']}x{comparison.product['n']}x{comparison.product['k']}: {protocol.name}"
        progress(done / total, doing)
        for cycle in protocol.measure(works, sensors):
            comparison.add(protocol.name, cycle)
            done += protocol.turn_seconds
            progress(done / total, doing)
