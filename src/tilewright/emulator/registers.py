"""The checks of registers: values that were never given, and how many the warps of a CTA hold (setmaxnreg)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arithmetic import lanes_of
from tilewright.emulator.lanes import WARP, Group

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

REGISTER_FILE = 65536
"""32-bit registers of a multiprocessor, sm_70 to sm_90."""
_MOST_PER_THREAD = 255
_UNIT = 8


class RegisterChecks:
    """unset: (registers, lanes), whether a register that some path leaves without a value has none yet."""

    def __init__(self, checker: "Checker", suspects: int, directives: dict[str, tuple[int, ...]]) -> None:
        topology = checker.topology
        self._checker = checker
        self.unset = np.ones((suspects, topology.lanes), np.bool_)
        warps = -(-topology.threads // WARP)
        launched = _launched_registers(topology.threads, directives)
        self._launched = launched * warps
        self._held = np.full((warps, topology.ctas), launched)
        self._last_change = -1

    def require(self, site: int, group: Group, index: int, active: Any) -> None:
        """The active lanes of a group use a register."""
        missing = self.unset[index, group.lanes]
        if active is not None:
            missing = missing & active
        if missing.any():
            describe = self._checker.machine.describe(site)
            message = f"{describe} uses a register that no instruction has given a value"
            self._checker.report("uninitialised-register", (), message, (site,), group.take(missing), None)

    def give(self, group: Group, index: int, active: Any) -> None:
        """The active lanes of a group give a register a value."""
        self.unset[index, group.lanes] &= False if active is None else ~lanes_of(active, group.size)

    def move(self, group: Group, index: int, source: int) -> None:
        """A register gets what another holds, be it nothing."""
        self.unset[index, group.lanes] = self.unset[source, group.lanes]

    def hold(self, site: int, group: Group, count: int) -> None:
        """setmaxnreg: the warps of a group hold this many registers per thread from now on."""
        self._held[group.thread // WARP, group.cta] = count
        self._last_change = site

    def exited(self, cta: int, group: Group) -> None:
        """A CTA is done: its warps together cannot have held more registers than it was launched with."""
        held = int(self._held[:, cta].sum())
        if self._last_change >= 0 and held > self._launched:
            message = (
                f"the warps of a CTA are left with {held * WARP} registers and it was launched with "
                f"{self._launched * WARP}: a warp that asks for more waits for ever"
            )
            lanes = group.take(group.cta == cta)
            self._checker.report("register-budget", (), message, (self._last_change,), lanes, None)


def _launched_registers(threads: int, directives: dict[str, tuple[int, ...]]) -> int:
    """Registers per thread at launch: as .maxnreg says, else as many as the CTAs per multiprocessor leave."""
    if "maxnreg" in directives:
        return directives["maxnreg"][0]
    most = int(np.prod(directives.get("reqntid") or directives.get("maxntid") or (threads,)))
    resident = directives.get("minnctapersm", (1,))[0]
    per_thread = REGISTER_FILE // (max(most, threads) * max(resident, 1))
    return min(per_thread, _MOST_PER_THREAD) // _UNIT * _UNIT
