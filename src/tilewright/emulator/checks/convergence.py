"""The check that a whole warp executes an .aligned instruction, or has returned before it.

Nothing orders the exit of one thread before a barrier of another. So the path of a thread tells whether it returned: a
thread that skips the instruction and does more than leave, in code that the others reach after it, was still there.
"""

from collections.abc import Sequence
from functools import cache, partial

import numpy as np

from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import WARP, Group, Mask
from tilewright.emulator.program.blocks import Block


class ConvergenceChecks:
    """The paths of a wave's lanes.

    latest: (lanes,), the last block in which each lane did something without its whole warp.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._latest = np.full(ground.topology.lanes, -1, np.int32)
        self._beyond = cache(partial(_blocks_beyond, ground.wave.program.blocks))

    def enter(self, block: Block, group: Group) -> None:
        """Record that lanes of incomplete warps run a block."""
        if block.instructions[0].opcode not in ("bra", "ret", "exit"):
            self._latest[group.lanes] = block.index

    def execute(self, block: Block, group: Group) -> None:
        """Check lanes of incomplete warps that execute the .aligned instruction at the beginning of a block."""
        ground, topology = self._ground, self._ground.topology
        gone = np.flatnonzero(~ground.wave.alive & (self._latest >= 0))
        gone = gone[self._beyond(block.index)[self._latest[gone]]]
        warps = np.unique(group.thread // WARP * topology.ctas + group.cta)
        gone = gone[np.isin(topology.thread[gone] // WARP * topology.ctas + topology.cta[gone], warps)]
        if gone.size:
            message = f"{ground.words.describe(block.start)} is skipped by some threads of a warp that executes it"
            ground.report("divergent-collective", message, (block.start,), topology.group(gone), None)


def _blocks_beyond(blocks: Sequence[Block], index: int) -> Mask:
    """The blocks that may follow a block and never lead back to it."""
    leads = np.zeros((len(blocks) + 1, len(blocks) + 1), np.bool_)
    for block in blocks:
        leads[block.index, block.successors] = True
    after, before = _reach(leads, index), _reach(leads.T, index)
    return after & ~before


def _reach(leads: Mask, start: int) -> Mask:
    """The nodes of a graph that can be reached from one node, including itself."""
    reached = np.zeros(len(leads), np.bool_)
    reached[start] = True
    while (further := leads[reached].any(axis=0) & ~reached).any():
        reached |= further
    return reached
