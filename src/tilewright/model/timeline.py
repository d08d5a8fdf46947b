"""When the warps of an SM load, multiply, wait and store: what they do in which order, played on a clock.

A trace has the steps of each warp, as the emulator saw them, and says on which step of another warp a step depends. The
clock gives each step its time: loads and stores share the way to L2, products share the tensor cores, and accesses
share shared memory, each in the order in which they get there. Only one SM is played, and the others do not slow it
down.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from tilewright.errors import ArgumentValueError
from tilewright.model.chips import CHIPS, L2_BYTES_PER_CLOCK, SMEM_BYTES_PER_CLOCK, AnyChip, chip_of

Warp: TypeAlias = tuple[int, int]
"""The number of a CTA of the cluster, and of a warp in it."""
Event: TypeAlias = tuple[str, int, int, int]
"""The end of a phase: its kind, the CTA, the barrier, and the number of the phase."""
Way = Literal["multiply", "load", "store"]
Kind = Literal["load", "multiply", "store", "wait"]


QUARTERS = 4
"""Of an SM: each has a scheduler and a tensor core, and every fourth warp of a CTA."""
ISSUE = 1
"""Clocks in which a warp starts something, so that two warps that start several things take turns."""


class Work(NamedTuple):
    """The warp is busy: clocks of its own, and then bytes of shared memory."""

    clocks: int
    smem_bytes: int = 0


class Start(NamedTuple):
    """Something begins, whose end the warp does not wait for here.

    way: what it takes. amount: bytes, or clocks of the tensor cores. row: where it is drawn. group: the number of its
    commit group, for `Wait`; None if there is none. ends: what its end is a part of. ctas: that receive it. quarter: of
    the SM, whose tensor core multiplies; the warp waits until it takes the work. None: all four together.
    """

    way: Way
    amount: float
    row: str
    group: int | None = None
    ends: tuple[Event, ...] = ()
    ctas: tuple[int, ...] = ()
    quarter: int | None = None


class Arrive(NamedTuple):
    """The warp arrives at a barrier, whose phase ends when all have arrived."""

    event: Event


class Pass(NamedTuple):
    """The warp waits for the end of a phase."""

    event: Event


class Wait(NamedTuple):
    """The warp waits for what `leader` has started in groups below a number; reads: only until operands are read."""

    way: Way
    leader: Warp
    below: int
    reads: bool = False


Step: TypeAlias = Work | Start | Arrive | Pass | Wait
Trace: TypeAlias = Mapping[Warp, Sequence[Step]]


class Span(NamedTuple):
    """Something that takes time, from one clock to another; row: of the CTA's picture; quarter: as of a Start."""

    cta: int
    row: str
    kind: Kind
    begin: float
    end: float
    quarter: int | None = None


class Latencies(NamedTuple):
    """Clocks until the first byte of a load is there, and until a store is known to be written."""

    load: float
    store: float


@dataclass(slots=True)
class Timeline:
    """What the clock says: the spans of all CTAs, and the clock at the end."""

    spans: list[Span] = field(default_factory=list)
    end: float = 0.0

    def of(self, kind: Kind, cta: int = 0) -> list[Span]:
        """The spans of one kind in a CTA, by their begin."""
        own = (span for span in self.spans if (span.cta, span.kind) == (cta, kind))
        return sorted(own, key=lambda span: span.begin)

    def busy(self, kind: Kind = "multiply", cta: int = 0) -> float:
        """Clocks in which something of a kind goes on in a CTA; of single tensor cores, the mean of all four."""
        clocks, last = 0.0, defaultdict[int | None, float](float)
        for span in self.of(kind, cta):
            share = 1 if span.quarter is None else 1 / QUARTERS
            clocks += share * max(0.0, span.end - max(span.begin, last[span.quarter]))
            last[span.quarter] = max(last[span.quarter], span.end)
        return clocks

    def gaps(self, cta: int = 0) -> list[tuple[float, float]]:
        """When the tensor cores of a CTA have nothing to do, from the first clock to the last."""
        found, last = [], 0.0
        for span in self.of("multiply", cta):
            if span.begin > last:
                found.append((last, span.begin))
            last = max(last, span.end)
        return [*found, (last, self.end)] if last < self.end else found

    def joined(self) -> list[Span]:
        """The spans row by row, those that touch as one, and of loads those that overlap: a wgmma follows the other."""
        found: list[Span] = []
        for span in sorted(self.spans, key=lambda span: (span.cta, span.row, span.kind, span.begin)):
            last = found[-1] if found else None
            if last and last[:3] == span[:3] and span.begin < last.end + (span.kind != "load"):
                quarter = last.quarter if last.quarter == span.quarter else None
                found[-1] = last._replace(end=max(span.end, last.end), quarter=quarter)
            else:
                found.append(span)
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        busy = self.busy()
        return {
            "clocks": self.end, "tensor_clocks": busy, "tensor_share": busy / self.end if self.end else 0.0,
            "gaps": self.gaps(), "spans": [span._asdict() for span in self.joined()],
        }  # fmt: skip


def latencies_of(chip: AnyChip) -> Latencies:
    """Those of a chip: a load comes from DRAM, and a store ends in L2.

    Raises an ArgumentValueError if nobody has published any.
    """
    chip = chip_of(chip)
    if chip.latencies is None:
        known = ", ".join(each.name for each in CHIPS.values() if each.latencies)
        raise ArgumentValueError(f"chip={chip.name!r} has no published latencies: use {known}")
    return Latencies(chip.latencies.dram, chip.latencies.l2)


def play(trace: Trace, latencies: Latencies) -> Timeline:
    """The Timeline of a trace.

    Raises an ArgumentValueError if warps wait for what never happens.
    """
    return _Clock(trace, latencies).play()


class _Groups:
    """What one warp starts in one way, by commit groups, whose numbers never fall.

    all: the groups of what it will start. started: of what it has started. read, end: the latest until each of these.
    """

    def __init__(self) -> None:
        self.all: list[int] = []
        self.started: list[int] = []
        self.read: list[float] = []
        self.end: list[float] = []

    def start(self, group: int, read: float, end: float) -> None:
        """Something has started, whose reads and whose all end at these clocks."""
        self.started.append(group)
        self.read.append(max(read, self.read[-1] if self.read else 0.0))
        self.end.append(max(end, self.end[-1] if self.end else 0.0))

    def ended(self, below: int, *, reads: bool) -> float | None:
        """When all in groups below a number have ended; None if some of it has not started."""
        count = bisect_left(self.all, below)
        if count > len(self.started):
            return None
        return (self.read if reads else self.end)[count - 1] if count else 0.0


class _Clock:
    def __init__(self, trace: Trace, latencies: Latencies) -> None:
        self._trace, self._latencies = trace, latencies
        self._at = dict.fromkeys(trace, 0)
        self._now = dict.fromkeys(trace, 0.0)
        self._missing: dict[Event, int] = defaultdict(int)
        self._ends: dict[Event, float] = defaultdict(float)
        self._groups: dict[tuple[Warp, Way], _Groups] = defaultdict(_Groups)
        self._free: dict[tuple[str, int], float] = defaultdict(float)
        self._line = Timeline()
        for warp, steps in trace.items():
            for step in steps:
                for event in _ended_by(step):
                    self._missing[event] += 1
                if isinstance(step, Start) and step.group is not None:
                    self._groups[warp, step.way].all.append(step.group)

    def play(self) -> Timeline:
        """Do the step that can begin first, until all are done."""
        waiting = {warp for warp, steps in self._trace.items() if steps}
        while waiting:
            times = {warp: time for warp in waiting if (time := self._ready(warp)) is not None}
            if not times:
                names = ", ".join(f"{warp} of CTA {cta}" for cta, warp in sorted(waiting))
                raise ArgumentValueError(f"trace: warps {names} wait for what never happens: give it whole")
            warp = min(times, key=lambda each: (times[each], each))
            self._do(warp, times[warp])
            if self._at[warp] == len(self._trace[warp]):
                waiting.remove(warp)
        self._line.end = max([*self._now.values(), *(span.end for span in self._line.spans)], default=0.0)
        return self._line

    def _ready(self, warp: Warp) -> float | None:
        """When the warp's next step can begin; None if what it depends on has not begun."""
        step, now = self._trace[warp][self._at[warp]], self._now[warp]
        if isinstance(step, Pass):
            return None if self._missing[step.event] else max(now, self._ends[step.event])
        if isinstance(step, Wait):
            ended = self._groups[step.leader, step.way].ended(step.below, reads=step.reads)
            return None if ended is None else max(now, ended)
        return now

    def _do(self, warp: Warp, time: float) -> None:
        step = self._trace[warp][self._at[warp]]
        self._at[warp] += 1
        if isinstance(step, Pass | Wait) and time > self._now[warp]:
            self._line.spans.append(Span(warp[0], f"warp {warp[1]}", "wait", self._now[warp], time))
        elif isinstance(step, Work):
            time += step.clocks
            if step.smem_bytes:
                time = self._take("smem", warp[0], time, step.smem_bytes / SMEM_BYTES_PER_CLOCK)[1]
        elif isinstance(step, Start):
            time = self._start(warp, step, time) + ISSUE
        elif isinstance(step, Arrive):
            self._end(step.event, time)
        self._now[warp] = time

    def _start(self, warp: Warp, step: Start, time: float) -> float:
        """Start it; returns when the warp has issued it."""
        if step.way == "multiply":
            unit = "tensor cores" if step.quarter is None else f"tensor core {step.quarter}"
            begin, end = self._take(unit, warp[0], time, step.amount)
            read = end
        else:
            clocks, latency = step.amount / L2_BYTES_PER_CLOCK, getattr(self._latencies, step.way)
            taken = [self._take(step.way, cta, time, clocks) for cta in step.ctas or (warp[0],)]
            begin, read = time, max(end for _, end in taken)
            end = read + latency
        if step.group is not None:
            self._groups[warp, step.way].start(step.group, read, end)
        for event in step.ends:
            self._end(event, end)
        for cta in step.ctas or (warp[0],):
            self._line.spans.append(Span(cta, step.row, step.way, begin, end, step.quarter))
        return begin if step.quarter is not None else time

    def _take(self, what: str, cta: int, time: float, clocks: float) -> tuple[float, float]:
        """When something that serves one after another begins and ends to serve."""
        begin = max(time, self._free[what, cta])
        self._free[what, cta] = end = begin + clocks
        return begin, end

    def _end(self, event: Event, time: float) -> None:
        self._missing[event] -= 1
        self._ends[event] = max(self._ends[event], time)


def _ended_by(step: Step) -> Iterable[Event]:
    if isinstance(step, Arrive):
        return (step.event,)
    return step.ends if isinstance(step, Start) else ()
