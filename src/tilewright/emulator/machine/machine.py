"""The machine: it runs the resident CTAs of a launch, group by group.

The group at the smallest block runs next, and groups at the same block merge, so divergent lanes meet again where their
paths do. Groups wait in four cases: at barriers; at a warp collective, for the rest of the warp; after a turn of a loop
that polls memory, until every other group has run; and, under lazy asynchrony, before a wait that retires asynchronous
reads, so a thread that overwrites the data too early gets to do so.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from tilewright.emulator.errors import (
    AsyncHazard,
    Deadlock,
    EmulatorError,
    KernelTrap,
    StepLimit,
    UndefinedBranch,
    UnsupportedInstruction,
)
from tilewright.emulator.lanes import Group, Mask, lanes_of
from tilewright.emulator.machine.bulk_copies import BulkCopies
from tilewright.emulator.machine.image_access import ImageAccess
from tilewright.emulator.machine.multimem import Multimem
from tilewright.emulator.machine.poison import Poison
from tilewright.emulator.machine.remote_stores import RemoteStores
from tilewright.emulator.machine.runtime_calls import ASSERTFAIL, failed_assertion, printed
from tilewright.emulator.machine.specials import Specials
from tilewright.emulator.machine.stack import Stack
from tilewright.emulator.machine.tensor_cores import TensorCores
from tilewright.emulator.machine.tensor_maps import TensorMaps
from tilewright.emulator.machine.thread_copies import ThreadCopies
from tilewright.emulator.machine.waiting.barriers import Barriers
from tilewright.emulator.machine.waiting.mbarriers import Mbarriers
from tilewright.emulator.machine.waiting.meetings import Meetings
from tilewright.emulator.machine.waiting.stillness import Stillness
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.program.blocks import Block, retires, waits
from tilewright.emulator.ptx.syntax import Label
from tilewright.emulator.semantics import collectives
from tilewright.emulator.semantics.scalars import Values

HEARTBEAT = 64
"""Steps after which the progress is reported again, even if no thread exits."""
PATIENCE = 100
"""Consecutive turns of polling loops alone after which the threads that wait at a try_wait give up."""
POLLING_ROUNDS = 20_000
"""Consecutive turns of polling loops alone after which the launch ends, although their registers change."""


class Machine:
    """The machine that runs a wave from start to exit.

    on_progress: called repeatedly with the share of the threads that have exited. Generated code calls the services
    that are attributes.
    """

    def __init__(self, wave: Wave, max_steps: int, on_progress: Callable[[float], None]) -> None:
        self._wave, self._program, self._words = wave, wave.program, wave.words
        self._max_steps, self._on_progress, self._clock = max_steps, on_progress, 0
        wave.push = self.push
        self.tell, self.banks, self.uniforms, self.access = wave.tell, wave.banks, wave.uniforms, wave.access
        self.parameters_address = np.uint64(wave.launch.parameters_address)
        self.specials, self.poison = Specials(wave, lambda: self._clock), Poison(wave)
        self.collectives, self._meetings = collectives, Meetings(wave, self._start_block, self._end_block)
        self.barriers, self.mbarriers = Barriers(wave), Mbarriers(wave)
        self.tensor_cores = TensorCores(wave)
        self.copies, self.bulk = ThreadCopies(wave, self.mbarriers), BulkCopies(wave, self.mbarriers)
        self.stack, self.images, self.multimem = Stack(wave), ImageAccess(wave), Multimem(wave)
        self.remote, self.tensor_maps = RemoteStores(wave, self.mbarriers), TensorMaps(wave)
        self._executed = np.zeros(len(self._program.blocks), np.int64)
        self._cut_short: tuple[Block, int, tuple[str, ...]] | None = None  # by an error: a block, and the instruction
        self._ready: dict[int, list[Group]] = {}
        self._polled: list[tuple[int, Group]] = []
        self._deferred: list[tuple[int, Group]] = []
        self._defers_first = False
        self._late: list[tuple[int, Group]] = []  # groups that are put off before a wait
        self._retiring_blocks = {block.index for block in self._program.blocks if retires(block.instructions[0])}
        self._progress, self._last_progress, self._idle_rounds = 0, 0, 0
        self._stillness = Stillness(wave, self._executed)

    def run(self) -> int:
        """Run until every thread has exited; returns the number of steps, which are blocks run by groups.

        A machine runs once. At the end, even by an error, it reports what it has run and releases its parts.

        Raises:
            EmulatorError: for any error of the kernel.
        """
        try:
            self._run()
        except BaseException as error:
            if isinstance(error, EmulatorError) and error.threads is None and error.lane is not None:
                error.threads = self._words.name(self._wave.topology.group(error.lane))
            with suppress(Exception):  # an observer's error must not hide this one
                self._tell_all_executions()
            raise
        else:
            self._tell_all_executions()
            return self._clock
        finally:
            vars(self).clear()

    def _run(self) -> None:
        with np.errstate(all="ignore"):
            self.push(0, self._wave.topology.group(slice(0, self._wave.topology.lanes)))
            try:
                while self._wave.alive.any():
                    if not self._ready:
                        self._resume()
                        continue
                    index = min(self._ready)
                    self._execute(self._program.blocks[index], self._wave.topology.merge(self._ready.pop(index)))
            except (KeyboardInterrupt, TimeoutError) as error:
                if self._wave.alive.any():
                    error.add_note(self._whereabouts(self._living()))
                raise
            while self._wave.asynchrony.complete_one():  # copies still in flight land in CTAs that have exited
                pass

    def _tell_all_executions(self) -> None:
        if self._cut_short is not None:
            self._tell_executions(*self._cut_short)
        for block, executions in zip(self._program.blocks, self._executed.tolist(), strict=True):
            self._tell_executions(block, executions)

    def _tell_executions(self, block: Block, executions: int, last: tuple[str, ...] = ()) -> None:
        """Tell how often a block was executed, to its end or to the first instruction that is written so."""
        ends = [place for place, instruction in enumerate(block.instructions) if last and str(instruction) in last]
        if executions:
            self.tell.ran(block.start, block.instructions[: ends[0] + 1] if ends else block.instructions, executions)

    def push(self, block: int, group: Group) -> None:
        """Let a group go on at a block; past the last block its threads exit."""
        if not group.size:
            return
        if block < len(self._program.blocks):
            self._progress += not self._program.blocks[block].in_polling_loop
        if block in self._retiring_blocks and not self._wave.asynchrony.at_once():
            self._late.append((block, group))
        elif block < len(self._program.blocks):
            self._ready.setdefault(block, []).append(group)
        else:
            self._exit(group)

    # Called by generated code, with the services that are attributes -------------------------------------------------

    def parameter(self, offset: int, dtype: type[np.generic]) -> Values:
        """A value of the parameter space."""
        return np.frombuffer(self._wave.launch.parameters, dtype, 1, offset)[0]

    def variable_address(self, name: str) -> Values:
        """The generic address of a module variable."""
        return np.uint64(self._wave.launch.variables[name])

    def trap(self, site: int, group: Group, active: Mask | None) -> None:
        """End the launch if a lane is active."""
        lanes = group.active(active)
        if lanes.size:
            raise KernelTrap(f"{self._words.name(lanes)}, executed {self._words.describe(site)}")

    def call_elsewhere(self, site: int, group: Group, active: Mask | None) -> None:
        """End the launch if a lane is active, which calls a function that the module only declares."""
        lanes = group.active(active)
        if not lanes.size:
            return
        call, who = self._words.instruction(site), f"{self._words.name(lanes)}, executed {self._words.describe(site)}"
        called = call.operands[0]
        assert isinstance(called, Label)
        if re.search(rf"(?<![\w$]){ASSERTFAIL}(?![\w$])", called.name):
            said = failed_assertion(self._wave, call, int(lanes.indices[0]))
            raise KernelTrap(f"{said}: {who}" if said else who)
        raise UnsupportedInstruction(
            f"{who}: the module declares this function and does not define it, and functions of the device's runtime, "
            "such as malloc, are not emulated"
        )

    def print(self, site: int, group: Group, active: Mask | None) -> None:
        """Print what each active lane prints."""
        call = self._words.instruction(site)
        for lane in group.active(active).indices.tolist():
            self._wave.launch.printed(printed(self._wave, call, lane))

    def require_target(self, site: int, group: Group, index: Values, count: Values) -> None:
        """End the launch if the index of a brx.idx lies beyond its list of `count` targets."""
        beyond = np.flatnonzero(lanes_of(index >= count, group.size))
        if beyond.size:
            lane, wrong = group.indices[beyond[:1]], lanes_of(index, group.size)[beyond[0]]
            who = self._words.name(self._wave.topology.group(lane))
            raise UndefinedBranch(
                f"{who}, executed {self._words.describe(site)} with index {wrong}, and its list has {count} targets",
                lane=lane,
            )

    # Scheduling ------------------------------------------------------------------------------------------------------

    def _execute(self, block: Block, group: Group) -> None:
        """Run a block for a group; a collective waits for all lanes that execute it together."""
        if block.collective:
            self._meetings.execute(self._meetings.meet(block, group))
        else:
            self._end_block(block, group, self._start_block(block, group))

    def _start_block(self, block: Block, group: Group) -> Any:
        """Call the function of a block for a group and return its result."""
        self._clock += 1
        if self._clock > self._max_steps:
            raise StepLimit(
                f"the launch has not ended within max_steps: {self._whereabouts(group)}; if the kernel does end, give "
                "Device.launch a larger max_steps"
            )
        if self._clock % HEARTBEAT == 0:
            self._on_progress(1 - self._wave.alive.mean())
        self._wave.asynchrony.step()
        self._executed[block.index] += group.warps.count
        self._wave.block = block.index
        if not group.warps.complete:
            self.tell.entered(block, group)
        try:
            return self._program.functions[block.index](self, group)
        except EmulatorError as error:
            error.lane = group.indices if error.lane is None else error.lane
            self._executed[block.index] -= group.warps.count
            self._cut_short = block, group.warps.count, error.locations[:1]
            raise

    def _end_block(self, block: Block, group: Group, taken: Values) -> None:
        """Send the lanes of a group on from the end of a block.

        taken: the lanes that take the branch there, None for all.
        """
        if waits(block):
            return
        last = block.instructions[-1]
        if taken is not None:
            self.tell.guarded(block.start + len(block.instructions) - 1, group, taken)
        if last.opcode == "bra":
            self._split(group, taken, partial(self._jump, block), block.index + 1)
        elif last.opcode in ("ret", "exit"):
            self._split(group, taken, self._exit, block.index + 1)
        else:
            self.push(block.index + 1, group)

    def _split(self, group: Group, taken: Values, act: Callable[[Group], None], otherwise: int) -> None:
        """Act on the lanes that take their branch (None: all), and push the others."""
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
        """Branch at the end of a block; if lanes may loop forever without others, the others run first."""
        target = block.successors[0]
        if block.polls:
            self._polled.append((target, group))
        elif block.defers:
            self._deferred.append((target, group))
        else:
            self.push(target, group)

    def _exit(self, group: Group) -> None:
        wave, block = self._wave, self._program.blocks[self._wave.block]
        site = block.start + len(block.instructions) - 1
        if (left := self.bulk.groups.unretired(group)).size:
            if not self.tell.hear("exited_early"):
                message = f"exited by {self._words.describe(site)} without waiting for their bulk stores"
                raise AsyncHazard(f"{self._words.name(left)}, {message} (cp.async.bulk.wait_group)", lane=left.indices)
            self.tell.exited_early(left, site)
            self.bulk.groups.complete(left.indices)
        self._progress += 1
        wave.milestones += 1
        wave.alive[group.lanes] = False
        wave.alive_threads -= np.bincount(group.cta, minlength=wave.topology.ctas)
        self.tell.exited(group, site)
        self.barriers.threads_exited()
        self._make_ready(self._meetings.release())
        self._on_progress(1 - wave.alive.mean())

    def _resume(self) -> None:
        """Handle the case that nothing is ready: complete an asynchronous operation and let polling groups look again.

        Groups that go round a loop with others in it may have work to do in the loop, and come first every second time.
        """
        deferred, self._deferred = self._deferred, []
        self._defers_first = bool(deferred) and not self._defers_first
        if self._defers_first:
            self._make_ready(deferred)
            return
        # At random, threads that were put off before a wait go on ahead of the next completion.
        early = bool(self._late) and self._wave.asynchrony.policy == "random" and self._wave.asynchrony.at_once()
        completed = not early and self._wave.asynchrony.complete_one()
        self._idle_rounds = 0 if completed or self._progress != self._last_progress else self._idle_rounds + 1
        self._last_progress = self._progress
        resumed, self._polled = [*self._polled, *deferred], []
        if completed:
            self._stillness.begin_anew()
        else:
            resumed, self._late = resumed + self._late, []
            meeting = [(block.index, group) for block, group in self._meetings.waiting()]
            still = not resumed or self._stillness.is_certain(resumed, meeting)
            if (still or self._idle_rounds > PATIENCE) and self.mbarriers.time_out():
                self._idle_rounds = 0
                self._stillness.begin_anew()
            elif still or self._idle_rounds > POLLING_ROUNDS:
                self._polled = resumed
                raise self._deadlock() if still else self._endless()
        self._make_ready(resumed)

    def _make_ready(self, groups: list[tuple[int, Group]]) -> None:
        for block, group in groups:
            self._ready.setdefault(block, []).append(group)

    def _living(self) -> Group:
        return self._wave.topology.group(np.flatnonzero(self._wave.alive))

    def _whereabouts(self, group: Group) -> str:
        """The place where the launch seems to spend its time while a group runs, in words."""
        busiest = self._program.blocks[int(self._executed.argmax())].instructions[0]
        return f"{self._words.name(group)} ran, and most often executed was what follows {busiest}"

    def _endless(self) -> StepLimit:
        waiting = "\n".join(f"  {line}" for line in self._waiting())
        return StepLimit(
            f"threads have polled {POLLING_ROUNDS:,} times, and nothing else has happened; a loop that counts or looks "
            f"at a clock may give up later, so let it give up sooner here:\n{waiting}",
            threads=self._words.name(self._living()),
        )

    def _deadlock(self) -> Deadlock:
        if not self._polled and not self.mbarriers.describe_waiting():
            self.tell.stuck(self._meetings.waiting())
        waiting = "\n".join(f"  {line}" for line in self._waiting())
        stuck, address = self._words.name(self._living()), self.mbarriers.waited_for()
        return Deadlock(f"no thread can go on:\n{waiting}", threads=stuck, address=address)

    def _waiting(self) -> list[str]:
        lines = self.barriers.describe_waiting() + self.mbarriers.describe_waiting() + self.mbarriers.describe_testing()
        for block, group in self._meetings.waiting():
            first = block.instructions[0]
            lines.append(
                f"{self._words.name(group)}, waiting at {first} for the other lanes of their warps or warpgroups"
            )
        for index, group in self._polled:
            loop = self._program.blocks[index].instructions[0]
            lines.append(f"{self._words.name(group)}, polling memory in the loop that starts with {loop}")
        return lines
