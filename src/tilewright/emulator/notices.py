"""What generated code tells the checks, where there are any."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.emulator.arithmetic import Values
from tilewright.emulator.lanes import Group, Mask

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


class Notices:
    """Of one machine."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    def proxy_fence(self, group: Group, active: Mask | None, spaces: Sequence[str]) -> None:
        """fence.proxy.async of shared memory, global memory or both."""
        if (checker := self._machine.checker) is not None:
            lanes = group.active(active)
            checker.proxy_fence(lanes, spaces)
            if "shared" in spaces:
                self._machine.mbarriers.fence(lanes.indices, publishes=False)

    def mbarrier_fence(self, group: Group, active: Mask | None) -> None:
        """fence.mbarrier_init."""
        if self._machine.checker is not None:
            self._machine.mbarriers.fence(group.active(active).indices, publishes=True)

    def memory_fence(self, site: int, group: Group, active: Mask | None) -> None:
        """membar, and fence with a memory order."""
        if (checker := self._machine.checker) is not None:
            checker.fence(site, group, active)

    def warp_barrier(self, group: Group, mask: Values) -> None:
        """bar.warp.sync, after the lanes have met."""
        if (checker := self._machine.checker) is not None:
            checker.member_masks.barrier(group, mask)

    def touch_watched(self, site: int, group: Group, number: int, active: Values | None) -> None:
        """An accumulator of wgmma, or a fragment of its A, is read or written by another instruction."""
        if (checker := self._machine.checker) is not None:
            checker.accumulators.touch(site, group.active(active), number)

    def require_register(self, site: int, group: Group, number: int, active: Values | None) -> None:
        """A register that may have no value is used."""
        if (checker := self._machine.checker) is not None:
            checker.registers.require(site, group, number, active)

    def leave_registers(
        self, group: Group, numbers: Sequence[int], origins: Sequence[int], unset: Values, active: Values | None
    ) -> None:
        """The active lanes make registers from others, and these have no value where `unset` holds."""
        if (checker := self._machine.checker) is not None:
            checker.registers.leave(group, numbers, origins, unset, active)

    def accumulate_registers(
        self, site: int, group: Group, numbers: Sequence[int], keep: Values, active: Values | None
    ) -> None:
        """The active lanes make registers from what these had where `keep` holds."""
        if (checker := self._machine.checker) is not None:
            checker.registers.accumulate(site, group, numbers, keep, active)

    def lose_register(self, site: int, group: Group, number: int, unset: Values) -> None:
        """A shuffle leaves a register without a value where `unset` holds."""
        if (checker := self._machine.checker) is not None:
            checker.registers.lose(site, group, number, unset)

    def unset(self, group: Group, number: int) -> Values:
        """In which lanes a register has no value."""
        checker = self._machine.checker
        return False if checker is None else checker.registers.unset[number, group.lanes]

    def hold_registers(self, site: int, group: Group, count: int, active: Values | None) -> None:
        """setmaxnreg."""
        if (checker := self._machine.checker) is not None:
            checker.budget.hold(site, group, count, active)
