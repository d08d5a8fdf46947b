"""Polling that nothing will end: what a wave in the same state did before, it does again and again."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from tilewright.emulator.lanes import Array, Group
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.program.blocks import Block
from tilewright.emulator.program.dataflow import PURE
from tilewright.emulator.ptx.syntax import Instruction

FIRST, LONGEST = 128, 8
"""The idle turn whose state is kept, and the most turns until it may come again."""
_MOST_BYTES = 1 << 28
"""Of a state; a larger one is not looked at."""
_SEEN = PURE | {"ld", "st", "atom", "red", "bra", "nanosleep", "fence", "membar", "vote", "activemask", "shfl", "match"}
"""Instructions that change nothing but registers and memory."""


class Stillness:
    """Whether a wave in which all that run poll will go on; `executed` counts how often its blocks were run."""

    def __init__(self, wave: Wave, executed: Array) -> None:
        self._wave, self._executed = wave, executed
        self._kept, self._before = b"", executed

    def is_certain(self, turn: int, polling: Iterable[tuple[int, Group]]) -> bool:
        """Whether the state has come again, in which these groups go on at these blocks.

        turn: of how many idle ones in a row, in which nothing was in flight and no barrier moved.
        """
        if turn == FIRST:
            self._kept, self._before = self._state(polling), self._executed.copy()
        elif FIRST < turn <= FIRST + LONGEST and self._kept:
            ran = np.flatnonzero(self._executed != self._before)
            if all(_is_seen(self._wave.program.blocks[index]) for index in ran.tolist()):
                return self._state(polling) == self._kept
            self._kept = b""
        return False

    def _state(self, polling: Iterable[tuple[int, Group]]) -> bytes:
        """A digest of all that decides what comes next; empty if that is too much."""
        wave, access = self._wave, self._wave.access
        memory = access.memory
        parts = [
            *wave.banks, access.shared.bytes, access.local.bytes,
            *(memory.bytes[each.start : each.end] for each in memory.allocations),
        ]  # fmt: skip
        if sum(part.nbytes for part in parts) > _MOST_BYTES:
            return b""
        digest = blake2b()
        for block, lanes in sorted((block, group.indices.tobytes()) for block, group in polling):
            digest.update(b"%d:%d:" % (block, len(lanes)) + lanes)
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
        for value in wave.uniforms:
            digest.update(np.asarray(value).tobytes())
        return digest.digest()


def _is_seen(block: Block) -> bool:
    """Whether all that a block changes is in the state."""
    return all(map(_changes_what_is_seen, block.instructions))


def _changes_what_is_seen(instruction: Instruction) -> bool:
    if instruction.opcode == "mbarrier":
        return instruction.action == "test_wait"
    return instruction.opcode in _SEEN and not {"async", "bulk"} & set(instruction.modifiers)
