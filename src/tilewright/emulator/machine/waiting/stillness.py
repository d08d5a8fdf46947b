"""Polling that nothing will end: what a wave in the same state did before, it does again and again."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from tilewright.emulator.lanes import Array, Group
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.program.blocks import Block, is_warp_barrier
from tilewright.emulator.program.dataflow import PURE
from tilewright.emulator.ptx.specials import CLOCKS
from tilewright.emulator.ptx.syntax import Instruction, Operand, Special, Vector

_FIRST = 128
"""The turn from which states are compared: with the one at the last power of two, so that any period is found."""
_MOST_LOOKS = 8
"""How often memory is looked at for one such state, and registers until then."""
_MOST_BYTES = 1 << 28
"""Of memory; a larger one is not looked at."""
_SEEN = PURE | {
    "ld", "st", "atom", "red", "bra", "nanosleep", "fence", "membar", "vote", "activemask", "shfl", "match", "redux",
    "elect", "mapa", "isspacep",
}  # fmt: skip
"""Instructions that change registers, memory and where lanes are, by these alone."""

Places: TypeAlias = Iterable[tuple[int, Group]]
"""Groups and the blocks where they are."""


class Stillness:
    """Whether a wave in which all that run poll will go on; `executed` counts how often its blocks were run."""

    def __init__(self, wave: Wave, executed: Array) -> None:
        self._wave, self._executed = wave, executed
        self._turn, self._looks = 0, 0
        self._kept, self._memory, self._before = b"", b"", executed

    def begin_anew(self) -> None:
        """Forget all states, since something has changed that is in none."""
        self._turn = 0

    def is_certain(self, polling: Places, meeting: Places) -> bool:
        """Whether the whole state has come again since nothing was in flight; asked once in each such turn.

        polling: the groups that go on, all others wait. meeting: those of them that wait for lanes of their warp.
        """
        self._turn += 1
        if self._turn < _FIRST:
            return False
        if self._turn & (self._turn - 1) == 0:
            self._kept, self._memory, self._looks = self._registers(polling, meeting), b"", _MOST_LOOKS
            self._before = self._executed.copy()
            return False
        if not self._looks or self._registers(polling, meeting) != self._kept:
            return False
        if not self._is_all_seen():
            self._looks = 0
            return False
        memory, before = self._contents(), self._memory
        self._memory, self._looks = memory, self._looks - 1
        return memory == before != b""

    def _is_all_seen(self) -> bool:
        """Whether what was run since the kept state depends on the state alone, and changes nothing else."""
        blocks = self._wave.program.blocks
        return all(_is_seen(blocks[index]) for index in np.flatnonzero(self._executed != self._before).tolist())

    def _registers(self, *places: Places) -> bytes:
        """A digest of registers and of where lanes are."""
        digest, wave = blake2b(), self._wave
        for groups in places:
            for block, lanes in sorted((block, group.indices.tobytes()) for block, group in groups):
                digest.update(b"%d:%d:" % (block, len(lanes)) + lanes)
            digest.update(b"|")
        for bank in wave.banks:
            digest.update(np.ascontiguousarray(bank).data)
        for value in wave.uniforms:
            digest.update(np.asarray(value).tobytes())
        return digest.digest()

    def _contents(self) -> bytes:
        """A digest of all memory; empty if there is too much."""
        access = self._wave.access
        memory = access.memory
        parts = [access.shared.bytes, access.local.bytes]
        parts += [memory.bytes[each.start : each.end] for each in memory.allocations]
        if sum(part.nbytes for part in parts) > _MOST_BYTES:
            return b""
        digest = blake2b()
        for part in parts:
            digest.update(part.data)
        return digest.digest()


def _is_seen(block: Block) -> bool:
    return all(map(_depends_on_the_state, block.instructions))


def _depends_on_the_state(instruction: Instruction) -> bool:
    """Whether an instruction does the same in the same state, and changes nothing that is not in it."""
    if any(map(_reads_a_clock, instruction.operands)):
        return False
    if instruction.opcode == "mbarrier":
        return instruction.action == "test_wait"
    if instruction.opcode in _SEEN:
        return not {"async", "bulk"} & set(instruction.modifiers)
    return is_warp_barrier(instruction)


def _reads_a_clock(operand: Operand) -> bool:
    if isinstance(operand, Vector):
        return any(map(_reads_a_clock, operand.elements))
    return isinstance(operand, Special) and operand.name in CLOCKS
