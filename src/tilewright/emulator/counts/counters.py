"""Counters of a launch, in total and per source line: instructions, memory requests, tensor-core work, TMA bytes.

While a kernel runs, every event is added to what is known of the PTX instruction that caused it (`Sites`). At the end
that is summed, and per source line once somebody asks. PTX is not SASS: instructions that ptxas merges, splits or drops
are counted as in the PTX.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

from tilewright.emulator.ptx.syntax import Instruction

Chain: TypeAlias = tuple[str, ...]
"""A source line and the lines at which it is inlined, innermost first."""


@dataclass
class Counts:
    """The counts of one instruction, source line or launch.

    warp_instructions: executions per warp, by opcode with modifiers.
    tensor_instructions: mma and wmma (per warp) and wgmma (per warpgroup), by kind, shape and the types of accumulator,
    A and B.
    tensor_flops: their floating-point or integer operations, two per multiply-add.
    tma_loaded_bytes: whole boxes, as mbarriers count them; a multicast load counts once per destination.
    tma_read_bytes: whole sectors that those loads bring from L2, once per load, also for the part that is out of
    bounds.
    multicast_saved_bytes: the additional bytes if each destination had its own load.
    tma_stored_bytes: whole sectors that stores write, within bounds.
    wgmma_read_bytes: bytes of A and B that wgmma reads from shared memory.
    barrier_waits, mbarrier_waits: the waits of warps at CTA or cluster barriers and at mbarriers, including satisfied
    ones.

    The following need Device(count_memory=True). Their keys name the access: "ld", "st" or "atom", in shared memory
    also "ldmatrix", "stmatrix" and "cp.async"; in global memory cp.async is an "ld".

    global_requests, shared_requests: warps that access.
    global_sectors: 32-byte sectors touched.
    global_ideal_sectors: sectors that the same number of contiguous bytes would touch.
    shared_wavefronts: passes over the 32 banks.
    shared_conflicts: wavefronts beyond those of the same access without bank conflicts.

    The wavefronts of cp.async.ca are those of its reads from L1 or of its writes, whichever are more. An H200 behaves
    like this, except that it takes still more if both have bank conflicts.
    """

    warp_instructions: Counter[str] = field(default_factory=Counter)
    tensor_instructions: Counter[str] = field(default_factory=Counter)
    tensor_flops: int = 0
    global_requests: Counter[str] = field(default_factory=Counter)
    global_sectors: Counter[str] = field(default_factory=Counter)
    global_ideal_sectors: Counter[str] = field(default_factory=Counter)
    shared_requests: Counter[str] = field(default_factory=Counter)
    shared_wavefronts: Counter[str] = field(default_factory=Counter)
    shared_conflicts: Counter[str] = field(default_factory=Counter)
    tma_loaded_bytes: int = 0
    tma_read_bytes: int = 0
    multicast_saved_bytes: int = 0
    tma_stored_bytes: int = 0
    wgmma_read_bytes: int = 0
    barrier_waits: int = 0
    mbarrier_waits: int = 0

    @property
    def sectors_per_request(self) -> dict[str, float]:
        """Mean number of sectors of a global request, by kind of access; 4 is ideal for 4 bytes per lane."""
        return {kind: self.global_sectors[kind] / requests for kind, requests in self.global_requests.items()}

    def multiply(self, kind: str, shape: str, types: Sequence[str], executions: int) -> None:
        """Count tensor-core instructions; shape: as in PTX ("m16n8k16"); types: of accumulator, A and B."""
        self.tensor_instructions[".".join((kind, shape, *types))] += executions
        self.tensor_flops += 2 * prod(map(int, re.findall(r"\d+", shape))) * executions

    def load_by_tma(self, box_bytes: int, read_bytes: int, destinations: int) -> None:
        """Count bulk loads to `destinations` CTAs each, by the bytes of whole boxes and the bytes read for them."""
        self.tma_loaded_bytes += box_bytes * destinations
        self.tma_read_bytes += read_bytes
        self.multicast_saved_bytes += read_bytes * (destinations - 1)

    def add(self, other: "Counts") -> None:
        """Add another's counts."""
        for name in _NAMES:
            if theirs := getattr(other, name):
                mine = getattr(self, name)
                if isinstance(mine, Counter):
                    mine.update(theirs)
                else:
                    setattr(self, name, mine + theirs)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = {name: getattr(self, name) for name in _NAMES}
        plain = {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}
        return {**plain, "sectors_per_request": self.sectors_per_request}


_NAMES = tuple(item.name for item in fields(Counts))


class Sites:
    """What each instruction of an entry did in a launch, by its index.

    executions: warps that executed it. counts: all else, of the few instructions that have more to count.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.instructions = instructions
        self.executions: defaultdict[int, int] = defaultdict(int)
        self.counts: defaultdict[int, Counts] = defaultdict(Counts)

    def add_to(self, of_site: Callable[[int], Counts]) -> None:
        """Add all to the Counts that a function gives for an index."""
        for site, warps in sorted(self.executions.items()):
            of_site(site).warp_instructions[self.instructions[site].name] += warps
        for site, counts in sorted(self.counts.items(), key=itemgetter(0)):
            of_site(site).add(counts)


@dataclass
class Counters(Counts):
    """The totals of a launch, and their parts by source line.

    Lines are "file:line"; without line information in the PTX (-lineinfo) they are "PTX:line".
    """

    _sites: Sites | None = field(default=None, repr=False, compare=False)

    @classmethod
    def summed(cls, sites: Sites) -> "Counters":
        """The counters of a launch."""
        counters = cls(_sites=sites)
        sites.add_to(lambda _: counters)
        return counters

    @cached_property
    def by_chain(self) -> dict[Chain, Counts]:
        """Counts by source line and the lines at which it is inlined."""
        parts: defaultdict[Chain, Counts] = defaultdict(Counts)
        if self._sites is not None:
            instructions = self._sites.instructions
            self._sites.add_to(lambda site: parts[chain_of(instructions[site])])
        return dict(parts)

    def merge(self, other: "Counters") -> None:
        """Add another launch's counts, in all and by source line."""
        by_chain = self.by_chain
        self.add(other)
        for chain, counts in other.by_chain.items():
            by_chain.setdefault(chain, Counts()).add(counts)

    @cached_property
    def by_line(self) -> dict[str, Counts]:
        """Counts by the innermost source line: the code on that line itself."""
        return _grouped((chain[:1], counts) for chain, counts in self.by_chain.items())

    @cached_property
    def by_line_inclusive(self) -> dict[str, Counts]:
        """Counts by source line, including code that was inlined into it."""
        return _grouped(self.by_chain.items())


def chain_of(instruction: Instruction) -> Chain:
    """The source line of an instruction and those at which it is inlined, or its line in the PTX, as PTX:LINE."""
    return instruction.location.chain if instruction.location else (f"PTX:{instruction.ptx_line}",)


def _grouped(parts: Iterable[tuple[Chain, Counts]]) -> dict[str, Counts]:
    """Sums over lines; a part belongs once to each line of its chain. Sorted by file and line."""
    lines: dict[str, Counts] = {}
    for chain, counts in parts:
        for line in dict.fromkeys(chain):
            lines.setdefault(line, Counts()).add(counts)
    return {line: lines[line] for line in sorted(lines, key=_file_and_line)}


def _file_and_line(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number)
