"""The checks of wgmma's registers: no thread may access accumulators and fragments of A between issue and wait.

The same holds between wgmma.fence and issue. Reads count like writes, since the manual speaks of accesses. Only wgmmas
may follow each other on one accumulator or read one fragment without a wait. Source: PTX ISA, "wgmma.fence",
"wgmma.wait_group".
"""

from typing import Any

import numpy as np

from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import WARPGROUP, Array, Group, Indices
from tilewright.rounding import ceil_div


class AccumulatorChecks:
    """The registers of a wave that wgmma uses, by number (Program.watched) and by warpgroup.

    changed: when the last wgmma with the register as accumulator was issued.
    used: when the last wgmma with the register as fragment of A was issued.
    issuer: the instruction that issued the later of the two.
    touched: the instruction, plus 1, that last accessed the register since the warpgroup's last wgmma.fence.
    fenced: the instruction, plus 1, of that fence.
    multiplied: whether any wgmma followed that fence.
    """

    def __init__(self, ground: Ground, registers: int) -> None:
        topology = ground.topology
        self._ground, self._ctas = ground, topology.ctas
        warpgroups = ceil_div(topology.threads, WARPGROUP) * topology.ctas
        self._changed, self._used, self._issuer, self._touched = (
            np.zeros((registers, warpgroups), np.int64) for _ in range(4)
        )
        self._retired = np.zeros(warpgroups, np.int64)
        self._fenced, self._multiplied = np.zeros(warpgroups, np.int64), np.zeros(warpgroups, np.bool_)
        self._has_fragments = False  # whether any wgmma had A in registers

    def touch(self, site: int, group: Group, number: int) -> None:
        """Check that an instruction other than wgmma may read or write a register."""
        slots = self._slots(group)
        self._require_retired(site, self._changed, (number, slots), slots)
        self._require_retired(site, self._used, (number, slots), slots)
        self._touched[number, slots] = site + 1

    def fence(self, site: int, group: Group) -> None:
        """wgmma.fence."""
        slots = self._slots(group)
        self._touched[:, slots] = 0
        self._fenced[slots], self._multiplied[slots] = site + 1, False

    def multiply(
        self, site: int, group: Group, rows: slice | tuple[int, ...], fragments: tuple[int, ...], time: int
    ) -> None:
        """wgmma.mma_async with some accumulators and some fragments of A."""
        slots = self._slots(group)
        index = (slice(rows.start, rows.stop), slots) if isinstance(rows, slice) else np.ix_(np.array(rows), slots)
        touched = self._has_touched(site, index, slots, "changes")
        if fragments:
            self._has_fragments = True
            of_a = np.ix_(np.array(fragments), slots)
            touched |= self._has_touched(site, of_a, slots, "reads")
            self._require_retired(site, self._changed, of_a, slots)
        if self._has_fragments:
            self._require_retired(site, self._used, index, slots)
        if not touched and not self._fenced[slots].all():
            self._report("wgmma-fence", site, site, int(slots[self._fenced[slots].argmin()]), "changes")
        self._changed[index], self._issuer[index] = time, site
        self._multiplied[slots] = True
        if fragments:
            self._used[of_a], self._issuer[of_a] = time, site

    def retire(self, lanes: Indices, time: int) -> None:
        """Record that the warpgroups of lanes have waited for their wgmmas up to a time."""
        topology = self._ground.topology
        slots = topology.thread[lanes] // WARPGROUP * self._ctas + topology.cta[lanes]
        self._retired[slots] = np.maximum(self._retired[slots], time)

    def _has_touched(self, site: int, index: Any, slots: Indices, verb: str) -> bool:
        """Report an access of some registers since the fence, if there was one."""
        touched = self._touched[index]
        if not touched.any():
            return False
        constant = self._ground.traits.constants[touched - 1] & (self._fenced[slots] > 0) & ~self._multiplied[slots]
        for kind, mask in (
            ("wgmma-fence", (touched > 0) & ~constant),
            ("wgmma-serialization", (touched > 0) & constant),
        ):
            if mask.any():
                place = np.unravel_index(int(mask.argmax()), mask.shape)
                self._report(kind, site, int(touched[place]) - 1, int(slots[place[-1]]), verb)
        self._touched[index] = np.where(constant, 0, touched)
        return True

    def _require_retired(self, site: int, issued: Array, index: Any, slots: Indices) -> None:
        """Report the use of some registers that wgmmas issued at these times may still access."""
        late = issued[index] > self._retired[slots]
        if late.any():
            place = np.unravel_index(int(late.argmax()), late.shape)
            other = int(self._issuer[index][place])
            self._report("accumulator-before-wait", site, other, int(slots[place[-1]]), "accesses")

    def _slots(self, group: Group) -> Indices:
        """The warpgroups of a group."""
        slots: Indices = np.unique(group.thread // WARPGROUP * self._ctas + group.cta)
        return slots

    def _report(self, kind: str, site: int, other: int, slot: int, verb: str) -> None:
        ground = self._ground
        warpgroup, cta = divmod(slot, self._ctas)
        lanes = np.arange(WARPGROUP) * self._ctas + warpgroup * WARPGROUP * self._ctas + cta
        group = ground.topology.group(lanes[lanes < ground.topology.lanes])
        describe = ground.words.describe
        past = "" if other == site else f" that {describe(other)} accesses too"
        if kind == "wgmma-serialization":
            past = f" that {describe(other)} sets to a constant after {describe(int(self._fenced[slot]) - 1)}"
            past += ": ptxas serializes here"
        elif kind == "wgmma-fence" and other != site and (fence := int(self._fenced[slot])):
            past += (
                f", after {describe(fence - 1)}: if the source has it before that fence, the compiler has moved it, "
                "and the order of the PTX counts"
            )
        sites = (site,) if other == site else (site, other)
        ground.report(kind, f"{describe(site)} {verb} registers{past}", sites, group, None)
