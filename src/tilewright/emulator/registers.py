"""The checks of registers: values that were never given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.lanes import Group
from tilewright.emulator.program import Program

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class RegisterChecks:
    """unset: (registers, lanes), whether a suspect has no value now. doubtful: whether it has none in some lane."""

    def __init__(self, checker: "Checker", program: Program) -> None:
        topology, suspects = checker.topology, len(program.suspects)
        self._checker = checker
        self.unset = np.zeros((suspects, topology.lanes), np.bool_)
        self.unset[: program.without_value] = True
        self.doubtful = [number < program.without_value for number in range(suspects)]
        self._lost: list[int | None] = [None] * suspects  # the shuffle that left a register without a value, if one did

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
