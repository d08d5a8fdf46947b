"""The checks of setmaxnreg: the registers that the warps of a CTA hold, and joint changes by warpgroups."""

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import WARP, WARPGROUP, Array, Group, Indices, Mask, counted
from tilewright.emulator.program.program import Program
from tilewright.emulator.ptx.syntax import Entry, Integer
from tilewright.rounding import ceil_div

REGISTER_FILE = 65536
"""32-bit registers of a multiprocessor, sm_70 to sm_90."""
_UNIT = 8
_MOST_PER_THREAD = 256
"""Registers per thread that a warp gets for the 255 that an instruction can name: a multiple of _UNIT."""


class RegisterBudget:
    """The registers that the warps of a wave hold; all arrays are (warps, ctas).

    held: registers of each thread.
    changes: how often the warp has changed them.
    times: (2, warps, ctas), the times of the last even and the last odd change.
    sites: the instruction of the last change.
    """

    def __init__(self, ground: Ground, program: Program) -> None:
        topology = ground.topology
        self._ground = ground
        warps = ceil_div(topology.threads, WARP)
        launched = _launched_registers(topology.threads, program.entry)
        self._launched = launched * warps
        self._bounded = not {"maxnreg", "minnctapersm"}.isdisjoint(program.entry.directives)
        self._held = np.full((warps, topology.ctas), launched)
        self._changes = np.zeros((warps, topology.ctas), np.int64)
        self._sites, self._times = self._changes.copy(), np.stack([self._changes] * 2)
        self._last_change = -1

    def hold(self, site: int, lanes: Group, count: int) -> None:
        """setmaxnreg: the warps of some lanes now hold `count` registers per thread."""
        if not lanes.size:
            return
        warp, now = lanes.thread // WARP, self._ground.tick()
        places = np.unique(warp * self._ground.topology.ctas + lanes.cta, return_index=True)[1]
        warps, ctas = warp[places], lanes.cta[places]
        if self._changes[warps, ctas].any():
            self._require_barrier(site, warps, ctas)
        changed = self._require_direction(site, warps, ctas, count)
        self._held[warps[changed], ctas[changed]], self._sites[warps, ctas] = count, site
        self._times[self._changes[warps, ctas] % 2, warps, ctas] = now
        self._changes[warps, ctas] += 1
        self._last_change = site

    def _require_direction(self, site: int, warps: Indices, ctas: Indices, count: int) -> Mask:
        """Report a .dec to more registers than a warp holds, or an .inc to fewer; returns the correct warps."""
        held, lowers = self._held[warps, ctas], "dec" in self._ground.words.modifiers(site)
        right: Mask = held >= count if lowers else held <= count
        if not lowers and not self._bounded:  # an option of the compiler may have launched it with fewer
            right |= self._changes[warps, ctas] == 0
        for index in np.flatnonzero(~right)[:1].tolist():
            warp, cta = int(warps[index]), int(ctas[index])
            does, has = ("lowers", "has only") if lowers else ("raises", "already has")
            message = (
                f"{self._ground.words.describe(site)} {does} the registers of each thread of warp {warp} to "
                f"{count}, and it {has} {held[index]}"
            )
            sites = (site, int(self._sites[warp, cta])) if self._changes[warp, cta] else (site,)
            self._report(message, sites, self._lanes(warps[[index]], ctas[[index]])[0])
        return right

    def _require_barrier(self, site: int, warps: Indices, ctas: Indices) -> None:
        """Report a warp that does not know that its warpgroup's last setmaxnreg is over."""
        done, facts = self._changes[warps, ctas], self._ground.clocks.facts[KNOWN]
        lanes = self._lanes(warps, ctas)
        for number in range(WARPGROUP // WARP):
            other = warps // (WARPGROUP // WARP) * (WARPGROUP // WARP) + number
            there = (other < len(self._held)) & (other != warps) & (done > 0)
            other = np.where(there, other, warps)
            columns = self._ground.clocks.column[self._lanes(other, ctas)]
            known = facts[lanes[:, :, None], columns[:, None]].max(axis=(1, 2))
            seen = (known >= self._times[(done - 1) % 2, other, ctas]) & (self._changes[other, ctas] >= done)
            late = there & ~seen
            for index in np.flatnonzero(late)[:1].tolist():
                message = (
                    f"{self._ground.words.describe(site)} follows another setmaxnreg of its warpgroup, and nothing "
                    f"tells it that warp {int(other[index])} has executed that: a barrier of the warpgroup must stand "
                    "between the two"
                )
                sites = site, int(self._sites[warps[index], ctas[index]])
                self._report(message, sites, lanes[index])

    def _lanes(self, warps: Indices, ctas: Indices) -> Indices:
        """The lanes of warps, (warps, 32); of the last warp of a CTA its last lane repeats."""
        topology = self._ground.topology
        threads = np.minimum(warps[:, None] * WARP + np.arange(WARP), topology.threads - 1)
        lanes: Indices = threads * topology.ctas + ctas[:, None]
        return lanes

    def _report(self, message: str, sites: tuple[int, ...], lanes: Indices) -> None:
        self._ground.report("setmaxnreg", message, sites, self._ground.topology.group(np.unique(lanes)), None)

    def exited(self, cta: int, group: Group) -> None:
        """Check a CTA at its end: its warpgroups changed together and never held more registers than at launch."""
        if self._last_change < 0:
            return
        for first in range(0, len(self._held), WARPGROUP // WARP):
            self._require_all(cta, np.arange(first, min(first + WARPGROUP // WARP, len(self._held))))
        held = int(self._held[:, cta].sum())
        if held > self._launched:
            message = (
                f"the warps of a CTA are left with {held * WARP} registers and it was launched with "
                f"{self._launched * WARP}: a warp that asks for more waits forever"
            )
            lanes = group.take(group.cta == cta)
            self._ground.report("register-budget", message, (self._last_change,), lanes, None)

    def _require_all(self, cta: int, warps: Indices) -> None:
        """Report a setmaxnreg that some warps of a warpgroup have executed and others have not."""
        changes: Array = self._changes[warps, cta]
        most = warps[changes == changes.max()]
        rest = warps[(changes < changes.max()) | (self._held[warps, cta] != self._held[most[0], cta])]
        if rest.size:
            site = int(self._sites[most[0], cta])
            message = (
                f"{self._ground.words.describe(site)} is executed by warp {int(most[0])} of a warpgroup and not by "
                f"its {counted('warp', rest)}"
            )
            self._report(message, (site,), self._lanes(most[:1], np.array([cta]))[0])


def _launched_registers(threads: int, entry: Entry) -> int:
    """Registers per thread at launch, as ptxas chooses them (CUDA 13.5) where it obeys setmaxnreg.

    The number is that of .maxnreg, else what the CTAs per multiprocessor leave, but at most what the largest .inc asks
    for.
    """
    asked = [
        operand.value
        for instruction in entry.instructions
        if instruction.opcode == "setmaxnreg" and "inc" in instruction.modifiers
        for operand in instruction.operands
        if isinstance(operand, Integer)
    ]
    return min(_most_registers(threads, entry.directives), max(asked, default=_MOST_PER_THREAD))


def _most_registers(threads: int, directives: dict[str, tuple[int, ...]]) -> int:
    if "maxnreg" in directives:
        return directives["maxnreg"][0]
    most = int(np.prod(directives.get("reqntid") or directives.get("maxntid") or (threads,)))
    resident = directives.get("minnctapersm", (1,))[0]
    per_thread = REGISTER_FILE // (max(most, threads) * max(resident, 1))
    return min(per_thread, _MOST_PER_THREAD) // _UNIT * _UNIT
