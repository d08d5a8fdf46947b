"""The checks of the registers that wgmma changes: who touches them between issue and wait, or without wgmma.fence."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.lanes import WARPGROUP, Group, Indices

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class AccumulatorChecks:
    """By row of the register file and warpgroup (of all resident CTAs).

    issued: when the last wgmma on the row was issued, and its instruction. touched: the instruction, plus 1, that last
    accessed the row since the warpgroup's last wgmma.fence. fenced: the instruction, plus 1, of that fence.
    """

    def __init__(self, checker: "Checker", rows: int) -> None:
        topology = checker.topology
        self._checker, self._ctas = checker, topology.ctas
        warpgroups = -(-topology.threads // WARPGROUP) * topology.ctas
        self._issued = np.zeros((rows, warpgroups), np.int64)
        self._issuer = np.zeros((rows, warpgroups), np.int64)
        self._touched = np.zeros((rows, warpgroups), np.int64)
        self._retired = np.zeros(warpgroups, np.int64)
        self._fenced = np.zeros(warpgroups, np.int64)

    def touch(self, site: int, group: Group, row: int) -> None:
        """Lanes read or write the register of a row otherwise than by wgmma."""
        slots = self._slots(group)
        late = self._issued[row, slots] > self._retired[slots]
        if late.any():
            slot = int(slots[late.argmax()])
            self._report("accumulator-before-wait", site, int(self._issuer[row, slot]), slot, "accesses")
        self._touched[row, slots] = site + 1

    def fence(self, site: int, group: Group) -> None:
        """wgmma.fence."""
        slots = self._slots(group)
        self._touched[:, slots] = 0
        self._fenced[slots] = site + 1

    def multiply(self, site: int, group: Group, rows: slice | tuple[int, ...], time: int) -> None:
        """wgmma.mma_async on some rows."""
        slots = self._slots(group)
        index = (slice(rows.start, rows.stop), slots) if isinstance(rows, slice) else np.ix_(np.array(rows), slots)
        touched = self._touched[index]
        if touched.any():
            place = np.unravel_index(int((touched > 0).argmax()), touched.shape)
            self._report("wgmma-fence", site, int(touched[place]) - 1, int(slots[place[1]]), "changes")
        elif not self._fenced[slots].all():
            self._report("wgmma-fence", site, site, int(slots[self._fenced[slots].argmin()]), "changes")
        self._issued[index], self._issuer[index] = time, site

    def retire(self, lane: int, time: int) -> None:
        """The warpgroup of a lane has waited for its wgmmas up to a time."""
        topology = self._checker.topology
        slot = topology.thread[lane] // WARPGROUP * self._ctas + topology.cta[lane]
        self._retired[slot] = max(int(self._retired[slot]), time)

    def _slots(self, group: Group) -> Indices:
        """The warpgroups of a group."""
        slots: Indices = np.unique(group.thread // WARPGROUP * self._ctas + group.cta)
        return slots

    def _report(self, kind: str, site: int, other: int, slot: int, verb: str) -> None:
        checker = self._checker
        warpgroup, cta = divmod(slot, self._ctas)
        lanes = np.arange(WARPGROUP) * self._ctas + warpgroup * WARPGROUP * self._ctas + cta
        group = checker.topology.group(lanes[lanes < checker.topology.lanes])
        describe = checker.machine.describe
        past = "" if other == site else f" that {describe(other)} accesses too"
        if kind == "wgmma-fence" and other != site and (fence := int(self._fenced[slot])):
            past += (
                f", after {describe(fence - 1)}: if the source has it before that fence, the compiler has moved it, "
                "and the order of the PTX counts"
            )
        sites = (site,) if other == site else (site, other)
        checker.report(kind, (), f"{describe(site)} {verb} registers{past}", sites, group, None)
