"""The resident CTAs of a launch: register file, groups of lanes, and the loop that runs them.

The group at the smallest block runs next and groups that stand at the same block merge, so that divergent lanes meet
again where their paths do. Four kinds of group wait: at barriers; at a warp collective for the rest of the warp; after
a turn of a loop that looks at memory for everyone else to have run; and, under lazy asynchrony, before a wait that
retires asynchronous reads, so that whoever may overwrite what they read too early does so.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.emulator import collectives
from tilewright.emulator.access import Access
from tilewright.emulator.arithmetic import Values, lanes_of
from tilewright.emulator.asynchrony import Asynchrony
from tilewright.emulator.barriers import Barriers
from tilewright.emulator.blocks import Block, has_member_mask, retires
from tilewright.emulator.bulk_copies import BulkCopies
from tilewright.emulator.checker import Checker
from tilewright.emulator.codegen import waits
from tilewright.emulator.counters import Counts, MemoryCounter
from tilewright.emulator.errors import AsyncHazard, Deadlock, EmulatorError, KernelTrap, StepLimit, UndefinedBranch
from tilewright.emulator.lanes import Array, Group, Indices, Mask, Topology, in_words
from tilewright.emulator.launch_state import LaunchState
from tilewright.emulator.mbarrier import Mbarriers
from tilewright.emulator.meetings import Meetings
from tilewright.emulator.memory import SHARED_START, GlobalMemory
from tilewright.emulator.notices import Notices
from tilewright.emulator.program import Program, bank_dtype
from tilewright.emulator.ptx import round_up
from tilewright.emulator.ptx_variables import variable_at
from tilewright.emulator.remote_stores import RemoteStores
from tilewright.emulator.specials import Extent, Specials
from tilewright.emulator.tensor import Tensor
from tilewright.emulator.thread_copies import ThreadCopies

HEARTBEAT = 64
"""Steps after which the progress is told again, also where no thread exits."""
POLLING_ROUNDS = 20_000
"""Turns of nothing but polling loops after which the launch counts as deadlocked."""


class Machine:
    """Runs some CTAs, which are resident together, from start to exit.

    cta_numbers: linear indices in the grid (see Specials). parameters: the bytes of the parameter space and their
    address in global memory. variables: addresses of the module's variables. counters: by index of the instruction.
    """

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        *,
        grid: Extent,
        block: Extent,
        cluster: Extent,
        cta_numbers: Indices,
        shared_bytes: int,
        parameters: bytes,
        parameters_address: int,
        variables: dict[str, int],
        asynchrony: Asynchrony,
        counters: defaultdict[int, Counts],
        count_memory: bool,
        checks: LaunchState | None,
        max_steps: int,
        on_progress: Callable[[float], None],
    ) -> None:
        self.program, self.counters, self.asynchrony = program, counters, asynchrony
        self.cta_numbers, self._parameters, self._variables = cta_numbers, parameters, variables
        self._clock, self._max_steps = 0, max_steps
        self.parameters_address, self._on_progress = np.uint64(parameters_address), on_progress
        limit = SHARED_START + program.entry.dynamic_offset + shared_bytes
        threads, cluster_size = block[0] * block[1] * block[2], cluster[0] * cluster[1] * cluster[2]
        self.topology = Topology(cta_numbers.size, threads, cluster_size, round_up(limit, 1024))
        lanes = self.topology.lanes
        counter = MemoryCounter(counters) if count_memory else None
        self.checker = None if checks is None else Checker(self, checks)
        self.doubtful = [False] * len(program.suspects) if self.checker is None else self.checker.registers.doubtful
        self.access = Access(memory, self.topology, limit, program.entry, self.describe, counter, self.checker)
        total = program.entry.shared_bytes + shared_bytes
        self.specials = Specials(
            self.topology, grid, block, cluster, cta_numbers, (shared_bytes, total), lambda: self._clock
        )
        rows = program.bank_sizes
        self.banks: tuple[Array, ...] = (
            np.zeros((rows[1], lanes), np.bool_),
            *(np.zeros((rows[width], lanes), f"u{width}") for width in (2, 4, 8)),
        )
        self.uniforms: list[Values] = [np.dtype(bank_dtype(register)).type(0) for register in program.slots]
        self.alive = np.ones(lanes, np.bool_)
        self.alive_threads = np.full(self.topology.ctas, threads)
        self.block = 0
        self.collectives, self.meetings = collectives, Meetings(self)
        self.barriers, self.mbarriers = Barriers(self), Mbarriers(self)
        self.tensor, self.copies, self.bulk = Tensor(self), ThreadCopies(self), BulkCopies(self)
        self.remote, self.notices = RemoteStores(self), Notices(self)
        self._executed = np.zeros(len(program.blocks), np.int64)
        self._ready: dict[int, list[Group]] = {}
        self._polled: list[tuple[int, Group]] = []
        self._deferred: list[tuple[int, Group]] = []
        self._defers_first = False
        self._late: list[tuple[int, Group]] = []  # put off before a wait
        self._retiring_blocks = {block_.index for block_ in program.blocks if retires(block_.instructions[0])}
        self._progress, self._last_progress, self._idle_rounds = 0, 0, 0

    def run(self) -> int:
        """Run until every thread has exited; returns the number of steps, which are blocks run by groups.

        A machine runs once; it counts what it has run, and lets go of its memories, even where an error ends it.

        Raises:
            EmulatorError: whatever the kernel did wrong.
        """
        try:
            self._run()
            return self._clock
        except EmulatorError as error:
            if error.threads is None and error.lane is not None:
                error.threads = self.name(self.topology.group(error.lane)).rstrip(",")
            raise
        finally:
            for block, executions in zip(self.program.blocks, self._executed.tolist(), strict=True):
                self._count(block, executions)
            self._let_go()

    def _run(self) -> None:
        with np.errstate(all="ignore"):
            self.push(0, self.topology.group(slice(0, self.topology.lanes)))
            try:
                while self.alive.any():
                    if not self._ready:
                        self._resume()
                        continue
                    index = min(self._ready)
                    self._execute(self.program.blocks[index], self.topology.merge(self._ready.pop(index)))
            except (KeyboardInterrupt, TimeoutError) as error:
                if self.alive.any():
                    error.add_note(self._whereabouts(self.topology.group(np.flatnonzero(self.alive))))
                raise
            while self.asynchrony.complete_one():  # what is still in flight lands in CTAs that have exited
                pass

    def _count(self, block: Block, executions: int, last: tuple[str, ...] = ()) -> None:
        """Count the instructions of a block, to its end or to the one that is written so."""
        for site, instruction in enumerate(block.instructions if executions else (), block.start):
            self.counters[site].warp_instructions[instruction.name] += executions
            if last and str(instruction) in last:
                break

    def _let_go(self) -> None:
        """Free all that this is made of: the parts name each other, and would stay until Python looks for cycles."""
        for owner in filter(None, (self.checker, self.topology, self)):
            vars(owner).clear()

    def push(self, block: int, group: Group) -> None:
        """Let a group go on at a block; past the last block its threads exit."""
        if not group.size:
            return
        if block < len(self.program.blocks):
            self._progress += not self.program.blocks[block].in_polling_loop
        if block in self._retiring_blocks and not self.asynchrony.at_once():
            self._late.append((block, group))
        elif block < len(self.program.blocks):
            self._ready.setdefault(block, []).append(group)
        else:
            self._exit(group)

    # Called by generated code, with the services that are attributes -------------------------------------------------

    def parameter(self, offset: int, dtype: type[np.generic]) -> Values:
        """A value of the parameter space."""
        return np.frombuffer(self._parameters, dtype, 1, offset)[0]

    def variable_address(self, name: str) -> Values:
        """The generic address of a module variable."""
        return np.uint64(self._variables[name])

    def trap(self, site: int, group: Group, active: Mask | None) -> None:
        """End the launch if a lane is active; otherwise go on."""
        lanes = group.active(active)
        if lanes.size:
            raise KernelTrap(f"{self.name(lanes)} executed {self.describe(site)}")

    def require_target(self, site: int, group: Group, index: Values, count: Values) -> None:
        """End the launch if the index of a brx.idx lies beyond its list of `count` targets."""
        beyond = np.flatnonzero(lanes_of(index >= count, group.size))
        if beyond.size:
            lane, wrong = group.indices[beyond[:1]], lanes_of(index, group.size)[beyond[0]]
            raise UndefinedBranch(
                f"{self.name(self.topology.group(lane))} executed {self.describe(site)} with index {wrong}, and its "
                f"list has {count} targets",
                lane=lane,
            )

    # Messages --------------------------------------------------------------------------------------------------------

    def describe(self, site: int) -> str:
        """The instruction with this index and its source line."""
        return str(self.program.entry.instructions[site])

    def shared(self, offset: int) -> str:
        """An address of shared memory in words, with the variable there."""
        variable = variable_at(self.program.entry, offset - SHARED_START)
        return f"shared address {offset:#x}" + (f" ({variable})" if variable else "")

    def modifiers(self, site: int) -> tuple[str, ...]:
        """The modifiers of the instruction with this index."""
        return self.program.entry.instructions[site].modifiers

    def name(self, group: Group) -> str:
        """A group in words, by CTA numbers of the grid."""
        return f"{in_words(self.cta_numbers[group.cta], group.thread)},"

    # Scheduling ------------------------------------------------------------------------------------------------------

    def _execute(self, block: Block, group: Group) -> None:
        """Run a block for a group, where it is a collective once those who execute it together are there."""
        if block.collective:
            self.meetings.execute(self.meetings.meet(block, group))
        else:
            self.run_block(block, group)

    def run_block(self, block: Block, group: Group) -> None:
        """Run a block for a group and send its lanes on."""
        self.end_block(block, group, self.start_block(block, group))

    def start_block(self, block: Block, group: Group) -> Any:
        """Call the function of a block for a group; returns what this returns."""
        self._clock += 1
        if self._clock > self._max_steps:
            raise StepLimit(
                f"the launch has not ended within max_steps: {self._whereabouts(group)}; if the kernel does end, give "
                "Device.launch a larger max_steps"
            )
        if self._clock % HEARTBEAT == 0:
            self._on_progress(1 - self.alive.mean())
        self.asynchrony.step()
        self._executed[block.index] += group.warps.count
        self.block = block.index
        if self.checker is not None and not group.warps.complete:
            self.checker.convergence.enter(block, group)
        try:
            return self.program.functions[block.index](self, group)
        except EmulatorError as error:
            error.lane = group.indices if error.lane is None else error.lane
            self._executed[block.index] -= group.warps.count
            self._count(block, group.warps.count, error.locations[:1])
            raise

    def end_block(self, block: Block, group: Group, taken: Values) -> None:
        """Send the lanes of a group on from the end of a block; `taken`: whose branch there is taken, None for all."""
        if waits(block):
            return
        last = block.instructions[-1]
        if last.opcode == "bra":
            self._split(group, taken, partial(self._jump, block), block.index + 1)
        elif last.opcode in ("ret", "exit"):
            self._split(group, taken, self._exit, block.index + 1)
        else:
            self.push(block.index + 1, group)

    def _split(self, group: Group, taken: Values, act: Callable[[Group], None], otherwise: int) -> None:
        """Act on the lanes whose branch is taken (None: all), push the others."""
        if taken is None:
            act(group)
            return
        mask = lanes_of(taken, group.size)
        if mask.all():
            act(group)
        elif not mask.any():
            self.push(otherwise, group)
        else:
            act(group.take(mask))
            self.push(otherwise, group.take(~mask))

    def _jump(self, block: Block, group: Group) -> None:
        """Lanes branch at the end of a block; where they may do so for ever without others, these come first."""
        target = block.successors[0]
        if block.polls:
            self._polled.append((target, group))
        elif block.defers:
            self._deferred.append((target, group))
        else:
            self.push(target, group)

    def _exit(self, group: Group) -> None:
        if (left := self.bulk.groups.unretired(group)).size:
            last = self.program.blocks[self.block].instructions[-1]
            message = f"{self.name(left)} exited by {last} without waiting for their bulk stores"
            raise AsyncHazard(f"{message} (cp.async.bulk.wait_group)", lane=left.indices)
        self._progress += 1
        self.alive[group.lanes] = False
        self.alive_threads -= np.bincount(group.cta, minlength=self.topology.ctas)
        if self.checker is not None:
            self.checker.lifetimes.exited(group)
        self.barriers.threads_exited()
        self._make_ready(self.meetings.release())
        self._on_progress(1 - self.alive.mean())

    def _resume(self) -> None:
        """Nothing is ready: complete something asynchronous and let polling groups look again.

        Groups that go round a loop with others in it may have work to do in there, and come first every second time.
        """
        deferred, self._deferred = self._deferred, []
        self._defers_first = bool(deferred) and not self._defers_first
        if self._defers_first:
            self._make_ready(deferred)
            return
        completed = self.asynchrony.complete_one()
        self._idle_rounds = 0 if completed or self._progress != self._last_progress else self._idle_rounds + 1
        self._last_progress = self._progress
        resumed, self._polled = [*self._polled, *deferred], []
        if not completed:
            resumed, self._late = resumed + self._late, []
            if not resumed or self._idle_rounds > POLLING_ROUNDS:
                self._polled = resumed
                self._report_divergence()
                stuck = self.name(self.topology.group(np.flatnonzero(self.alive))).rstrip(",")
                waiting = "\n".join(f"  {line}" for line in self._waiting())
                address = self.mbarriers.waited_for()
                raise Deadlock(f"no thread can go on:\n{waiting}", threads=stuck, address=address)
        self._make_ready(resumed)

    def _make_ready(self, groups: list[tuple[int, Group]]) -> None:
        for block, group in groups:
            self._ready.setdefault(block, []).append(group)

    def _whereabouts(self, group: Group) -> str:
        """Where the launch seems to spend its time while a group runs."""
        busiest = self.program.blocks[int(self._executed.argmax())].instructions[0]
        return f"{self.name(group).rstrip(',')} ran, and most often executed was what follows {busiest}"

    def _report_divergence(self) -> None:
        """Where only warps wait for their own lanes, these have gone another way."""
        if self.checker is None or self._polled or self.mbarriers.describe_waiting():
            return
        for block, group in self.meetings.waiting():
            masked = has_member_mask(block.instructions[0])
            kind, rest = ("member-mask", "member mask") if masked else ("divergent-collective", "warps")
            message = (
                f"only {self.name(group)} executed {self.describe(block.start)}: the rest of their {rest} does not come"
            )
            self.checker.report(kind, (), message, (block.start,), group, None)

    def _waiting(self) -> list[str]:
        lines = self.barriers.describe_waiting() + self.mbarriers.describe_waiting() + self.mbarriers.describe_testing()
        for block, group in self.meetings.waiting():
            first = block.instructions[0]
            lines.append(f"{self.name(group)} waiting at {first} for the other lanes of their warps or warpgroups")
        for index, group in self._polled:
            loop = self.program.blocks[index].instructions[0]
            lines.append(f"{self.name(group)} polling memory in the loop that starts with {loop}")
        return lines
