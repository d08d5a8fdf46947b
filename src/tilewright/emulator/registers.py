"""The checks of registers: values that were never given, and how many the warps of a CTA hold (setmaxnreg)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.lanes import WARP, Group
from tilewright.emulator.program import Program

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

REGISTER_FILE = 65536
"""32-bit registers of a multiprocessor, sm_70 to sm_90."""
_MOST_PER_THREAD = 255
_UNIT = 8


class RegisterChecks:
    """unset: (registers, lanes), whether a suspect has no value now. doubtful: whether it has none in some lane."""

    def __init__(self, checker: "Checker", program: Program) -> None:
        topology, suspects = checker.topology, len(program.suspects)
        self._checker = checker
        self.unset = np.zeros((suspects, topology.lanes), np.bool_)
        self.unset[: program.without_value] = True
        self.doubtful = [number < program.without_value for number in range(suspects)]
        self._lost: list[int | None] = [None] * suspects  # the shuffle that left a register without a value, if one did
        warps = -(-topology.threads // WARP)
        launched = _launched_registers(topology.threads, program.entry.directives)
        self._launched = launched * warps
        self._held = np.full((warps, topology.ctas), launched)
        self._last_change = -1

    def require(self, site: int, group: Group, index: int, active: Any) -> None:
        """The active lanes of a group use a register."""
        missing = self.unset[index, group.lanes]
        if active is not None:
            missing = missing & active
        if missing.any():
            describe = self._checker.machine.describe
            what, sites = "a register that no instruction has given a value", [site]
            if (shuffle := self._lost[index]) is not None:
                what = f"what {describe(shuffle)} took from a thread that takes no part or has no value to give"
                sites.append(shuffle)
            message = f"{describe(site)} uses {what}"
            self._checker.report("uninitialised-register", (), message, tuple(sites), group.take(missing), None)

    def accumulate(self, site: int, group: Group, indices: Sequence[int], keep: Any, active: Any) -> None:
        """The active lanes of a group give registers values, made from those they had where `keep` holds."""
        doubtful = [index for index in indices if self.doubtful[index]]  # in some lane, be it of another group
        if not doubtful or not (missing := self.unset[doubtful][:, group.lanes]).any():
            return  # as for all products of a tile but the first
        for index in np.asarray(doubtful)[missing.any(axis=1)].tolist():
            self.require(site, group, index, keep if active is None else keep & active)
            self.leave(group, (index,), (), False, active)

    def lose(self, site: int, group: Group, index: int, unset: Any) -> None:
        """A shuffle gives a register no value in some lanes of a group."""
        self._write(group, index, unset, None, site)

    def leave(self, group: Group, indices: Sequence[int], origins: Sequence[int], unset: Any, active: Any) -> None:
        """The active lanes of a group make registers from others, and these have no value where `unset` holds."""
        lost = next((self._lost[origin] for origin in origins if self.doubtful[origin]), None)
        for index in indices:
            self._write(group, index, unset, active, lost)

    def _write(self, group: Group, index: int, unset: Any, active: Any, lost: int | None) -> None:
        kept = self.unset[index, group.lanes]
        self.unset[index, group.lanes] = unset if active is None else np.where(active, unset, kept)
        self.doubtful[index] = bool(self.unset[index].any())
        if np.any(unset):
            self._lost[index] = lost

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
