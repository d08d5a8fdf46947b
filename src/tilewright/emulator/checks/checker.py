"""All checks of a wave as one observer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.emulator.checks.accesses import AccessChecks
from tilewright.emulator.checks.accumulators import AccumulatorChecks
from tilewright.emulator.checks.agents import AgentChecks
from tilewright.emulator.checks.barriers import BarrierChecks
from tilewright.emulator.checks.convergence import ConvergenceChecks
from tilewright.emulator.checks.global_copies import GlobalCopyChecks
from tilewright.emulator.checks.grid_dependency import GridDependency
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.launch_state import LaunchState
from tilewright.emulator.checks.lifetimes import LifetimeChecks
from tilewright.emulator.checks.local_memory import LocalChecks
from tilewright.emulator.checks.mbarriers import MbarrierChecks
from tilewright.emulator.checks.member_masks import MemberMaskChecks
from tilewright.emulator.checks.operations import OperationChecks
from tilewright.emulator.checks.register_budget import RegisterBudget
from tilewright.emulator.checks.releases import Releases
from tilewright.emulator.checks.tensor_maps import TensorMapChecks
from tilewright.emulator.lanes import Array, Group, Indices, Mask, lanes_of
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.machine.operation import GlobalRegion, Operation, Queue
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import FlatMemory
from tilewright.emulator.program.blocks import Block, has_member_mask

_KINDS = {"ldmatrix": "ld", "stmatrix": "st", "tex": "ld", "suld": "ld", "sust": "st", "sured": "atom"}
"""Kinds of access that the checks treat like another kind."""


class Checker(Observer):
    """The observer that hands each event to the checks that it concerns."""

    def __init__(self, wave: Wave, state: LaunchState) -> None:
        self._ground = ground = Ground(wave, state)
        self._lifetimes, self._releases = LifetimeChecks(ground), Releases(ground)
        self._accesses = AccessChecks(ground, self._lifetimes, self._releases)
        self._locals = LocalChecks(ground, wave.program.entry)
        self._mbarriers = MbarrierChecks(ground, self._accesses, self._lifetimes)
        self._barriers = BarrierChecks(ground, self._lifetimes, self._releases, self._mbarriers)
        self._accumulators = AccumulatorChecks(ground, len(wave.program.watched))
        self._operations = OperationChecks(
            ground, self._accesses, self._mbarriers, AgentChecks(ground, self._lifetimes),
            GlobalCopyChecks(ground, self._releases), self._accumulators,
        )  # fmt: skip
        self._tensor_maps = TensorMapChecks(ground, self._releases)
        self._member_masks, self._convergence = MemberMaskChecks(ground), ConvergenceChecks(ground)
        self._budget = RegisterBudget(ground, wave.program)
        self._dependency = GridDependency(ground)

    def ended(self) -> None:
        vars(self._ground).clear()  # what an error's traceback holds of the checks is then small
        vars(self).clear()

    # Accesses --------------------------------------------------------------------------------------------------------

    def accessed(
        self, site: int, kind: str, space: str, group: Group, where: Indices, width: int, chosen: Indices | None
    ) -> None:
        lanes = group.indices if chosen is None else group.indices[chosen]
        if space == "global":
            self._dependency.access(site, lanes)
        if kind == "cp.async":
            return  # reported as an operation
        where, kind = lanes_of(where, lanes.size), _KINDS.get(kind, kind)
        if space == "local":
            self._locals.access(kind, site, lanes, where, width)
        else:
            self._accesses.access(kind, space, site, lanes, where, width)

    def stored(
        self, site: int, group: Group, memory: FlatMemory, where: Indices, values: list[Array], chosen: Indices | None
    ) -> None:
        self._accesses.stored(site, group, memory, where, values, chosen)

    # Asynchronous operations -----------------------------------------------------------------------------------------

    def issued(self, operation: Operation) -> None:
        if isinstance(operation.reads, GlobalRegion) or isinstance(operation.writes, GlobalRegion):
            self._dependency.access(operation.site, operation.lanes)
        self._operations.issued(operation)

    def waited(self, queue: str, lanes: Indices, below: Indices, reads_only: bool) -> None:
        self._operations.waited(queue, lanes, below, reads_only)

    def signal_promised(self, site: int, ends: Queue, lanes: Indices, offset: int, ctas: Indices) -> None:
        self._operations.signal_promised(site, ends, lanes, offset, ctas)

    # Barriers and fences ---------------------------------------------------------------------------------------------

    def mbarrier_made(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        self._mbarriers.made(site, lanes, offset, ctas)

    def mbarrier_ended(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        self._mbarriers.at(offset).invalidate(site, lanes, ctas)

    def mbarrier_used(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        self._mbarriers.at(offset).use(site, lanes, ctas)

    def mbarrier_arrived(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        self._mbarriers.arrived(site, lanes, offset, ctas)

    def mbarrier_completed(self, offset: int, over: Mask) -> None:
        self._mbarriers.at(offset).complete(over)

    def mbarrier_passed(self, site: int, group: Group, offset: int) -> None:
        self._mbarriers.passed(site, group, offset)

    def barrier_arrived(self, site: int, barrier: int | str, group: Group) -> None:
        self._barriers.arrived(site, barrier, group)

    def barrier_completed(self, barrier: int | str, over: Mask, exited_count: Mask) -> None:
        self._barriers.completed(barrier, over, exited_count)

    def barrier_passed(self, barrier: int | str, groups: Sequence[Group]) -> None:
        self._barriers.passed(barrier, groups)

    def fenced(self, site: int, group: Group, what: str, spaces: Sequence[str]) -> None:
        if what == "wgmma":
            self._accumulators.fence(site, group)
        elif what == "memory":
            self._releases.fence(site, group.indices)
        elif what == "mbarrier_init":
            self._mbarriers.fence(group.indices)
        elif self._ground.traits.asynchronous:
            self._ground.clocks.fence_proxies(group, self._ground.tick(), spaces)

    def tensor_map_acquired(self, site: int, group: Group, addresses: Array) -> None:
        self._tensor_maps.acquire(group, addresses)

    def tensor_map_released(self, site: int, group: Group) -> None:
        self._tensor_maps.release(group)

    def tensor_map_used(self, site: int, lanes: Indices, address: int) -> None:
        self._tensor_maps.use(site, lanes, address)

    def grids_awaited(self, group: Group) -> None:
        self._dependency.awaited(group)

    # Warps and registers ---------------------------------------------------------------------------------------------

    def exchanged(self, places: list[tuple[int, Group]], group: Group, mask: Any) -> None:
        self._member_masks.take_part(places, group, mask)

    def warp_synchronized(self, group: Group, mask: Any) -> None:
        self._member_masks.barrier(group, mask)

    def entered(self, block: Block, group: Group) -> None:
        self._convergence.enter(block, group)

    def converged(self, block: Block, group: Group) -> None:
        self._convergence.execute(block, group)

    def diverged(self, site: int, group: Group, message: str) -> None:
        self._ground.report("divergent-collective", message, (site,), group, None)

    def touched(self, site: int, group: Group, number: int) -> None:
        self._accumulators.touch(site, group, number)

    def used_without_value(self, site: int, group: Group, origin: int | None) -> None:
        if origin is not None and self._ground.words.instruction(origin).opcode != "shfl":
            self._accesses.used(site, group, origin)
            return
        describe, sites = self._ground.words.describe, (site,) if origin is None else (site, origin)
        what = "a register that no instruction has given a value"
        if origin is not None:
            what = f"what {describe(origin)} took from a thread that takes no part or has no value to give"
        self._ground.report("uninitialized-register", f"{describe(site)} uses {what}", sites, group, None)

    def registers_held(self, site: int, group: Group, count: int) -> None:
        self._budget.hold(site, group, count)

    # Ends ------------------------------------------------------------------------------------------------------------

    def exited(self, group: Group, site: int) -> None:
        for cta in np.unique(group.cta).tolist():
            if not self._ground.wave.alive_threads[cta]:
                self._budget.exited(cta, group)
        self._lifetimes.exited(group, site)

    def exited_early(self, group: Group, site: int) -> None:
        message = (
            f"{self._ground.words.describe(site)} ends threads that have not waited for their bulk stores: "
            "cp.async.bulk.wait_group must stand before it"
        )
        self._ground.report("exit-before-wait", message, (site,), group, None)

    def stuck(self, waiting: list[tuple[Block, Group]]) -> None:
        words = self._ground.words
        for block, group in waiting:
            masked = has_member_mask(block.instructions[0])
            kind, rest = ("member-mask", "member mask") if masked else ("divergent-collective", "warps")
            who = f"only {words.name(group)}, executed {words.describe(block.start)}"
            self._ground.report(kind, f"{who}: the rest of their {rest} does not come", (block.start,), group, None)
