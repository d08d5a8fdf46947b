"""The check that a whole warp executes an .aligned instruction, or has returned before it.

Nothing orders the exit of one thread before a barrier of another, so where a thread went tells whether it returned: one
that passes the instruction by, and does more than leave in code that the others reach after it, was still there.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.blocks import Block
from tilewright.emulator.lanes import WARP, Group, Mask

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class ConvergenceChecks:
    """Of the lanes of one machine. latest: (lanes,), the last block in which each, without its warp, did something."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._latest = np.full(checker.topology.lanes, -1, np.int32)
        self._beyond = cache(partial(_blocks_beyond, checker.machine.program.blocks))

    def enter(self, block: Block, group: Group) -> None:
        """Lanes of incomplete warps run a block."""
        if block.instructions[0].opcode not in ("bra", "ret", "exit"):
            self._latest[group.lanes] = block.index

    def execute(self, block: Block, group: Group) -> None:
        """Lanes of incomplete warps execute the .aligned instruction at the beginning of a block."""
        checker, topology = self._checker, self._checker.topology
        gone = np.flatnonzero(~checker.machine.alive & (self._latest >= 0))
        gone = gone[self._beyond(block.index)[self._latest[gone]]]
        warps = np.unique(group.thread // WARP * topology.ctas + group.cta)
        gone = gone[np.isin(topology.thread[gone] // WARP * topology.ctas + topology.cta[gone], warps)]
        if gone.size:
            message = f"{checker.machine.describe(block.start)} is passed by by threads of a warp that executes it"
            checker.report("divergent-collective", (), message, (block.start,), topology.group(gone), None)


def _blocks_beyond(blocks: Sequence[Block], index: int) -> Mask:
    """Which blocks may follow a block and never lead to it again."""
    leads = np.zeros((len(blocks) + 1, len(blocks) + 1), np.bool_)
    for block in blocks:
        leads[block.index, block.successors] = True
    after, before = _reach(leads, index), _reach(leads.T, index)
    return after & ~before


def _reach(leads: Mask, start: int) -> Mask:
    """Which nodes of a graph can be reached from one, itself included."""
    reached = np.zeros(len(leads), np.bool_)
    reached[start] = True
    while (further := leads[reached].any(axis=0) & ~reached).any():
        reached |= further
    return reached
