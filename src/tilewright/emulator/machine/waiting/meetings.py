"""Meetings, where lanes of a warp wait for each other: .aligned instructions and collectives with a member mask.

An .aligned instruction is executed by a whole warp, or for wgmma by a warpgroup, at one place. A collective with a
member mask (shfl, vote, match, redux, elect, bar.warp) waits until all threads of the mask that have not exited execute
one with the same qualifiers and the same mask, each at a place of its own (PTX ISA, "shfl.sync" and the others).
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.emulator.lanes import (
    FULL_WARP,
    WARP,
    WARPGROUP,
    Array,
    Group,
    Indices,
    Mask,
    Topology,
    lanes_of,
)
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.program.blocks import Block, has_member_mask, member_mask
from tilewright.emulator.ptx.syntax import Integer
from tilewright.emulator.semantics.collectives import Collective, bits_of, parties
from tilewright.emulator.semantics.scalars import Values
from tilewright.rounding import round_up


@dataclass(slots=True)
class _Call:
    """A block that has come to its collective with a member mask, and the collective's operands.

    steps: the block's function, which goes on when it is sent the result.
    operands: the member mask and the others.
    """

    block: Block
    group: Group
    steps: Generator[tuple[Any, ...], Any, Values]
    site: int
    collective: Collective
    operands: tuple[Any, ...]


class Meetings:
    """The lanes of a wave that wait at collectives for others.

    start: runs a block to its collective with a member mask; it belongs to the machine.
    end: sends lanes on from the end of a block; it belongs to the machine.
    """

    def __init__(
        self,
        wave: Wave,
        start: Callable[[Block, Group], Any],
        end: Callable[[Block, Group, Values], None],
    ) -> None:
        self._wave, self._start, self._end = wave, start, end
        self._waiting: dict[Hashable, dict[int, Group]] = {}  # by kind of collective, then by block
        self._living: Array | None = None  # (warps, ctas), the lanes that have not exited as bits

    def meet(self, block: Block, group: Group) -> list[tuple[Block, Group]]:
        """The lanes that can execute a collective now that a group has come to its block; the others wait."""
        width = WARPGROUP if any(instruction.opcode == "wgmma" for instruction in block.instructions) else WARP
        if (group.warps if width == WARP else group.warpgroups).complete:
            return [(block, group)]
        kind, blocks = _kind(block), self._wave.program.blocks
        here = self._waiting.pop(kind, {})
        earlier = [here[block.index]] if block.index in here else []
        here[block.index] = self._wave.topology.merge([group, *earlier])
        lanes = np.concatenate([group.indices for group in here.values()])
        if not has_member_mask(block.instructions[0]):
            late = self._lack_tiles(lanes, width)
        elif len(here) == 1:
            late = self._lack_members(here[block.index], self._masks(block, here[block.index]))
        else:
            order = np.argsort(lanes)
            masks = np.concatenate([self._masks(blocks[index], part) for index, part in here.items()])
            late = np.empty(lanes.size, np.bool_)
            late[order] = self._lack_members(self._wave.topology.group(lanes[order]), masks[order])
        ready, start = [], 0
        for index, group in here.items():
            stays = late[start : start + group.size]
            start += group.size
            if stays.any():
                self._waiting.setdefault(kind, {})[index] = group.take(stays)
            if not stays.all():
                ready.append((blocks[index], group.take(~stays)))
        return ready

    def execute(self, parts: list[tuple[Block, Group]]) -> None:
        """Run the blocks of lanes that have met; lanes with a member mask wait for each other at the collective."""
        if not parts or not has_member_mask(parts[0][0].instructions[0]):
            for block, group in parts:
                if not group.warps.complete:
                    self._wave.tell.converged(block, group)
                self._end(block, group, self._start(block, group))
            return
        calls = [self._call(block, group) for block, group in parts]
        group, operands = _together(self._wave.topology, calls)
        self._wave.tell.exchanged([(call.site, call.group) for call in calls], group, operands[0])
        result = calls[0].collective(group, *operands)
        for call in calls:
            places = slice(None) if call.group is group else np.searchsorted(group.indices, call.group.indices)
            self._go_on(call, _at(result, places))

    def _call(self, block: Block, group: Group) -> _Call:
        """Start a block; it comes to its collective at once."""
        steps = self._start(block, group)
        site, collective, *operands = next(steps)
        return _Call(block, group, steps, site, collective, tuple(operands))

    def _go_on(self, call: _Call, result: Any) -> None:
        """Let a block go on to its end with the result that the collective gives its lanes."""
        self._wave.block = call.block.index
        try:
            call.steps.send(result)
        except StopIteration as end:
            self._end(call.block, call.group, end.value)

    def release(self) -> list[tuple[int, Group]]:
        """Handle exits: all waiting lanes come to their block again, by its index."""
        waiting = [item for here in self._waiting.values() for item in here.items()]
        self._waiting.clear()
        self._living = None
        return waiting

    def waiting(self) -> list[tuple[Block, Group]]:
        """The waiting lanes, and the collective that starts their block."""
        blocks = self._wave.program.blocks
        return [(blocks[index], group) for here in self._waiting.values() for index, group in here.items()]

    def _masks(self, block: Block, group: Group) -> Array:
        """The member mask of each lane; it is read before the block, so it is a constant or in the register file."""
        operand, wave = member_mask(block.instructions[0]), self._wave
        if isinstance(operand, Integer):
            mask: Values = np.uint32(operand.value & FULL_WARP)
        elif operand in wave.program.slots:
            mask = wave.uniforms[wave.program.slots[operand]]
        else:
            assert operand is not None
            mask = wave.banks[2][wave.program.rows[operand], group.lanes]
        return lanes_of(mask, group.size)

    def _lack_members(self, group: Group, masks: Array) -> Mask:
        """The lanes that wait for another in their mask that has not exited and is not here with the same mask."""
        topology, warps = self._wave.topology, group.warps
        if self._living is None:
            alive = np.zeros((round_up(topology.threads, WARP), topology.ctas), np.bool_)
            alive[: topology.threads] = self._wave.alive.reshape(-1, topology.ctas)
            self._living = bits_of(alive.reshape(-1, WARP, topology.ctas))
        living, lack = warps.spread(self._living[group.thread // WARP, group.cta]), np.zeros(warps.shape, np.bool_)
        for mask, party in parties(warps, masks):
            lack |= party & (mask & living & ~bits_of(party)[:, None] != 0)
        return np.asarray(warps.collect(lack))

    def _lack_tiles(self, lanes: Indices, width: int) -> Mask:
        """The lanes that wait for another of their `width` threads that has not exited."""
        topology = self._wave.topology
        absent = self._wave.alive.copy()
        absent[lanes] = False
        by_thread = np.zeros((round_up(topology.threads, width), topology.ctas), np.bool_)
        by_thread[: topology.threads] = absent.reshape(-1, topology.ctas)
        missing: Mask = np.any(by_thread.reshape(-1, width, topology.ctas), axis=1)
        return missing[topology.thread[lanes] // width, topology.cta[lanes]]


def _kind(block: Block) -> Hashable:
    """The key by which lanes meet: the qualifiers if there is a member mask, else the place itself."""
    first = block.instructions[0]
    if not has_member_mask(first):
        return block.index
    return ("barrier" if first.opcode == "bar" else first.opcode, first.modifiers)


def _together(topology: Topology, calls: list[_Call]) -> tuple[Group, list[Any]]:
    """One group of those of several calls, and its operands."""
    if len(calls) == 1:
        return calls[0].group, list(calls[0].operands)
    lanes = np.concatenate([call.group.indices for call in calls])
    order = np.argsort(lanes)

    def join(values: tuple[Any, ...]) -> Any:
        if all(value is None or isinstance(value, str) for value in values):
            return values[0]
        parts = zip(values, calls, strict=True)
        return np.concatenate([lanes_of(False if v is None else v, call.group.size) for v, call in parts])[order]

    operands = zip(*(call.operands for call in calls), strict=True)
    return topology.group(lanes[order]), list(map(join, operands))


def _at(result: Any, places: slice | Indices) -> Any:
    """The part of a collective's result for some of its lanes: None, values, or a tuple of either."""
    if isinstance(result, tuple):
        return tuple(_at(part, places) for part in result)
    return None if result is None else result[places]
