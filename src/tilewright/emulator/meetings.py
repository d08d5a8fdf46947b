"""Where lanes of a warp wait for each other: at .aligned instructions, and at collectives with a member mask.

An .aligned instruction is executed by a whole warp, one of wgmma by a warpgroup, at one place. A collective with a
member mask (shfl, vote, match, redux, elect, bar.warp) waits until all threads of the mask that have not exited execute
one with the same qualifiers and the same mask, each at a place of its own (PTX ISA, "shfl.sync" and the others).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arithmetic import Values, lanes_of
from tilewright.emulator.blocks import Block, has_member_mask, member_mask
from tilewright.emulator.collectives import Collective
from tilewright.emulator.lanes import FULL_WARP, WARP, WARPGROUP, Array, Group, Indices, Mask, Topology
from tilewright.emulator.ptx import Integer, round_up

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


@dataclass(slots=True)
class _Joint:
    """One collective at several places: who has yet to come to theirs, and the operands of each group that has.

    group, result: of all of them together, once they are there.
    """

    expected: list[tuple[Block, Group]]
    brought: list[tuple[Group, tuple[Any, ...]]] = field(default_factory=list)
    group: Group | None = None
    result: Any = None


class Meetings:
    """Who waits at collectives for other lanes."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._waiting: dict[Hashable, dict[int, Group]] = {}  # by kind of collective, then by block
        self._joint: _Joint | None = None

    def meet(self, block: Block, group: Group) -> list[tuple[Block, Group]]:
        """Who executes a collective now that a group has come to the one that its block begins with; others wait."""
        width = WARPGROUP if any(instruction.opcode == "wgmma" for instruction in block.instructions) else WARP
        if (group.warps if width == WARP else group.warpgroups).complete:
            return [(block, group)]
        kind, blocks = _kind(block), self._machine.program.blocks
        here = self._waiting.pop(kind, {})
        earlier = [here[block.index]] if block.index in here else []
        here[block.index] = self._machine.topology.merge([group, *earlier])
        lanes = np.concatenate([group.indices for group in here.values()])
        if has_member_mask(block.instructions[0]):
            late = self._lack_members(lanes, np.concatenate([self._masks(blocks[i], g) for i, g in here.items()]))
        else:
            late = self._lack_tiles(lanes, width)
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
        """Run the blocks of lanes that have met."""
        if parts:
            (block, group), *expected = parts
            self._joint = _Joint(expected) if expected else None
            self._machine.run_block(block, group)

    def exchange(self, site: int, group: Group, collective: Collective, mask: Values, *operands: Any) -> Any:
        """What a collective with a member mask gives to the lanes of a group.

        The block of each place where lanes have met calls it. The call from the first place runs the block of the
        second, and so on; the call from the last has the operands of all, and computes.
        """
        joint = self._joint
        if joint is None:
            return self._compute(site, group, collective, mask, *operands)
        joint.brought.append((group, (mask, *operands)))
        if joint.expected:
            index = self._machine.block
            self._machine.run_block(*joint.expected.pop())
            self._machine.block = index
        else:
            self._joint = None
            joint.group, together = _together(self._machine.topology, joint.brought)
            joint.result = self._compute(site, joint.group, collective, *together)
        assert joint.group is not None
        places = np.searchsorted(joint.group.indices, group.indices)
        if isinstance(joint.result, tuple):
            return tuple(None if part is None else part[places] for part in joint.result)
        return None if joint.result is None else joint.result[places]

    def release(self) -> list[tuple[int, Group]]:
        """Threads have exited: all who wait come to their block again, by its index."""
        waiting = [item for here in self._waiting.values() for item in here.items()]
        self._waiting.clear()
        return waiting

    def waiting(self) -> list[tuple[Block, Group]]:
        """Who waits, and at the block that starts with which collective."""
        blocks = self._machine.program.blocks
        return [(blocks[index], group) for here in self._waiting.values() for index, group in here.items()]

    def _compute(self, site: int, group: Group, collective: Collective, mask: Values, *operands: Any) -> Any:
        if (checker := self._machine.checker) is not None:
            checker.member_masks.take_part(site, group, mask)
        return collective(group, mask, *operands)

    def _masks(self, block: Block, group: Group) -> Array:
        """The member mask of each lane: it is read before the block, so it is a constant or in the register file."""
        operand, machine = member_mask(block.instructions[0]), self._machine
        if isinstance(operand, Integer):
            mask: Values = np.uint32(operand.value & FULL_WARP)
        elif operand in machine.program.slots:
            mask = machine.uniforms[machine.program.slots[operand]]
        else:
            assert operand is not None
            mask = machine.banks[2][machine.program.rows[operand], group.lanes]
        return lanes_of(mask, group.size)

    def _lack_members(self, lanes: Indices, masks: Array) -> Mask:
        """Which lanes wait for one that their mask names: it has not exited, and is not among those with this mask."""
        topology = self._machine.topology
        alive = np.zeros((round_up(topology.threads, WARP), topology.ctas), np.bool_)
        alive[: topology.threads] = self._machine.alive.reshape(-1, topology.ctas)
        bits = np.left_shift(np.uint32(1), np.arange(WARP, dtype=np.uint32))[:, None]
        living = (alive.reshape(-1, WARP, topology.ctas) * bits).sum(axis=1, dtype=np.uint32).reshape(-1)
        warp = topology.thread[lanes] // WARP * topology.ctas + topology.cta[lanes]
        _, party = np.unique(warp << WARP | masks, return_inverse=True)
        here = np.bincount(party, weights=2.0 ** (topology.thread[lanes] % WARP)).astype(np.uint32)
        return np.asarray(masks & living[warp] & ~here[party] != 0)

    def _lack_tiles(self, lanes: Indices, width: int) -> Mask:
        """Which lanes wait for another of their `width` threads that has not exited."""
        topology = self._machine.topology
        absent = self._machine.alive.copy()
        absent[lanes] = False
        by_thread = np.zeros((round_up(topology.threads, width), topology.ctas), np.bool_)
        by_thread[: topology.threads] = absent.reshape(-1, topology.ctas)
        missing: Mask = np.any(by_thread.reshape(-1, width, topology.ctas), axis=1)
        return missing[topology.thread[lanes] // width, topology.cta[lanes]]


def _kind(block: Block) -> Hashable:
    """Lanes meet at collectives of one kind: qualifiers where there is a member mask, else the place itself."""
    first = block.instructions[0]
    if not has_member_mask(first):
        return block.index
    return ("barrier" if first.opcode == "bar" else first.opcode, first.modifiers)


def _together(topology: Topology, brought: list[tuple[Group, tuple[Any, ...]]]) -> tuple[Group, list[Any]]:
    """One group of several, and its operands."""
    lanes = np.concatenate([group.indices for group, _ in brought])
    order = np.argsort(lanes)

    def join(values: tuple[Any, ...]) -> Any:
        if all(value is None or isinstance(value, str) for value in values):
            return values[0]
        parts = zip(values, brought, strict=True)
        return np.concatenate([lanes_of(False if v is None else v, group.size) for v, (group, _) in parts])[order]

    operands = zip(*(operands for _, operands in brought), strict=True)
    return topology.group(lanes[order]), list(map(join, operands))
