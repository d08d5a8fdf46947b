"""The observer of what launches exercise: a clean check says nothing about the rest."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from tilewright.emulator.counts.counters import Chain, chain_of
from tilewright.emulator.counts.exercises import exercises_of
from tilewright.emulator.counts.gaps import Gap, Gaps, Part
from tilewright.emulator.lanes import Group, Indices, Mask
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.machine.words import Words
from tilewright.emulator.ptx.syntax import Entry, Instruction

_HELD, _FAILED = 1, 2
_EVEN, _ODD = 1, 2
_BOTH = 3


class Coverage(Observer):
    """The observer of what launches exercise; `gaps` then says what they have not.

    It may listen to several launches, also on several devices: what one of them exercises is exercised.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _EntryCoverage] = {}  # by identity, for there may be several of one name
        self._current: _EntryCoverage | None = None

    def gaps(self) -> Gaps | None:
        """What the launches have not exercised, of all their kernels together; None without a launch."""
        found = [entry.gaps() for entry in self._entries.values()]
        if not found:
            return None
        names = ("rings", "branches", "accesses", "operations", "lines")
        return Gaps(*(_joined(getattr(gaps, name) for gaps in found) for name in names))

    def began(self, words: Words) -> None:
        """Turn to their entry."""
        self._current = self._entries.setdefault(id(words.entry), _EntryCoverage(words.entry))
        self._current.begin(words.topology.ctas)

    def ended(self) -> None:
        """Keep the phases that mbarriers have completed."""
        self._here.end()

    def guarded(self, site: int, group: Group, holds: Mask) -> None:
        """Note which ways the guard goes."""
        seen = self._here.decisions
        if seen[site] != _BOTH:
            seen[site] |= _HELD * bool(np.any(holds)) | _FAILED * (not np.all(holds))

    def ran(self, start: int, instructions: Sequence[Instruction], warps: int) -> None:
        """Note what has run."""
        self._here.ran.update(range(start, start + len(instructions)))

    def mbarrier_made(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Count phases from here on."""
        self._here.phases_of(offset)[ctas] = 0

    def mbarrier_completed(self, offset: int, over: Mask) -> None:
        """Count a phase."""
        self._here.phases_of(offset)[over] += 1

    def mbarrier_passed(self, site: int, group: Group, offset: int) -> None:
        """Note the parity of the phase that was waited for, the latest one; the one before the first is odd."""
        here = self._here
        if here.parities.get((site, offset)) != _BOTH and site in here.exercises.waits:
            awaited = here.phases_of(offset)[group.cta] - 1
            here.parities[site, offset] |= _ODD * bool((awaited % 2).any()) | _EVEN * bool((awaited % 2 == 0).any())

    @property
    def _here(self) -> "_EntryCoverage":
        assert self._current is not None, "events follow `began`"
        return self._current


class _EntryCoverage:
    """What launches of one entry have exercised.

    ran: the sites that have run.
    decisions: how guards went at each site.
    parities: the parities of phases that were waited for, by site and shared address.
    most_phases: by shared address, the most phases of an mbarrier in one launch.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry, self.exercises = entry, exercises_of(entry)
        self.ran: set[int] = set()
        self.decisions = [0] * len(entry.instructions)
        self.parities: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.most_phases: dict[int, int] = {}
        self._phases: dict[int, Indices] = {}
        self._ctas = 0

    def begin(self, ctas: int) -> None:
        """Some CTAs begin to run together."""
        self._phases, self._ctas = {}, ctas

    def end(self) -> None:
        """They have run."""
        for offset, phases in self._phases.items():
            self.most_phases[offset] = max(self.most_phases.get(offset, 0), int(phases.max()))

    def phases_of(self, offset: int) -> Indices:
        """The phases that the mbarriers at a shared address have completed, (ctas,)."""
        if offset not in self._phases:
            self._phases[offset] = np.zeros(self._ctas, np.int64)
        return self._phases[offset]

    def gaps(self) -> Gaps:
        """What they have not exercised."""
        can = self.exercises
        return Gaps(
            self._rings(),
            self._decided(can.branches, "taken"),
            self._decided(can.accesses, "held"),
            self._missed(can.operations, self._issued),
            self._missed(can.instructions, self.ran.__contains__),
        )

    def _issued(self, site: int) -> bool:
        guarded = self.entry.instructions[site].predicate is not None
        return site in self.ran and (not guarded or bool(self.decisions[site] & _HELD))

    def _decided(self, sites: Iterable[int], done: str) -> Part:
        """The guards that went one way; those that nothing reached are among the lines."""
        details = {_HELD: f"always {done}", _FAILED: f"never {done}"}
        gaps, lines = [], self._by_chain(sites)
        for at in lines.values():
            ways = reduce(or_, (self.decisions[site] for site in at))
            if ways in details:
                gaps.append(self._gap(at[0], details[ways]))
        return Part(len(lines), tuple(gaps))

    def _missed(self, sites: Iterable[int], done: Callable[[int], bool]) -> Part:
        """The lines at none of whose sites something was done."""
        lines = self._by_chain(sites)
        return Part(len(lines), tuple(self._gap(at[0]) for at in lines.values() if not any(map(done, at))))

    def _rings(self) -> Part:
        """The rings: mbarriers that share a line that waits for them, also by way of others."""
        rings: list[_Ring] = []
        for (site, offset), parities in self.parities.items():
            ring, others = _Ring({self._chain(site)}, {offset}, parities, site), []
            for other in rings:
                if ring.chains.isdisjoint(other.chains) and ring.offsets.isdisjoint(other.offsets):
                    others.append(other)
                else:
                    ring = ring.joined(other)
            rings = [*others, ring]
        computed = {self._chain(site) for site in self.exercises.ring_waits}
        rings = [ring for ring in rings if not ring.chains.isdisjoint(computed)]
        gaps = []
        for ring in rings:
            if ring.parities != _BOTH:
                phases, stages = sum(self.most_phases.get(offset, 0) for offset in ring.offsets), len(ring.offsets)
                detail = f"{phases} phase{'s' * (phases != 1)} in {stages} stage{'s' * (stages != 1)}"
                gaps.append(self._gap(ring.site, detail, of_caller=True))
        return Part(len(rings), tuple(gaps))

    def _gap(self, site: int, detail: str = "", *, of_caller: bool = False) -> Gap:
        return Gap(str(self.entry.instructions[site]), detail, _source_line(self._chain(site), of_caller))

    def _by_chain(self, sites: Iterable[int]) -> dict[Chain, list[int]]:
        """Sites by their source lines and those that these are inlined at, as the copies of an unrolled loop share."""
        lines: dict[Chain, list[int]] = defaultdict(list)
        for site in sorted(sites):
            lines[self._chain(site)].append(site)
        return lines

    def _chain(self, site: int) -> Chain:
        return chain_of(self.entry.instructions[site])


@dataclass(frozen=True, slots=True)
class _Ring:
    """Mbarriers that are waited for at the same lines, the parities asked for, and the site of the first wait."""

    chains: set[Chain]
    offsets: set[int]
    parities: int
    site: int

    def joined(self, other: "_Ring") -> "_Ring":
        chains, offsets = self.chains | other.chains, self.offsets | other.offsets
        return _Ring(chains, offsets, self.parities | other.parities, min(self.site, other.site))


def _joined(parts: Iterable[Part]) -> Part:
    parts = list(parts)
    return Part(sum(part.total for part in parts), tuple(gap for part in parts for gap in part.gaps))


def _source_line(chain: Chain, of_caller: bool) -> str:
    """The innermost line of a chain, or the one that calls the wrapper that this stands in."""
    here, *callers = chain
    if not of_caller or not callers:
        return here
    file = here.rpartition(":")[0]
    return next((line for line in callers if line.rpartition(":")[0] != file), callers[-1])
