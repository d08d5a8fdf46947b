"""The CTAs that run together, and the state that the parts of a machine share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.emulator.lanes import Array, Extent, Group, Indices, Topology
from tilewright.emulator.machine.access import Access
from tilewright.emulator.machine.asynchrony import Asynchrony
from tilewright.emulator.machine.bound.images import Bound
from tilewright.emulator.machine.bound.multicasts import Multicast
from tilewright.emulator.machine.observer import Observers
from tilewright.emulator.machine.words import Words
from tilewright.emulator.memory import SHARED_START, GlobalMemory
from tilewright.emulator.program.program import Program
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
from tilewright.emulator.semantics.scalars import Values
from tilewright.rounding import round_up

_STRIDE_UNIT = 1024
"""The alignment of the CTAs' shared memories in bytes, so swizzles act on all of them alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """The state that all waves of a launch share.

    shared_bytes: dynamic shared memory of a CTA.
    parameters: the bytes of the parameter space, which also lie at `parameters_address` in global memory.
    variables: addresses of the module's variables.
    images: textures and surfaces by their handles.
    multicasts: the multimem addresses.
    arithmetic: how tensor cores add.
    printed: called with what kernels print.
    """

    program: Program
    memory: GlobalMemory
    grid: Extent
    block: Extent
    cluster: Extent
    shared_bytes: int
    parameters: bytes
    parameters_address: int
    variables: dict[str, int]
    images: Mapping[int, Bound]
    multicasts: Sequence[Multicast]
    asynchrony: Asynchrony
    arithmetic: Arithmetic
    printed: Callable[[str], object]


class Wave:
    """The resident CTAs of a launch and the state of their threads.

    cta_numbers: linear indices in the grid (see Specials).
    banks: the register file, (rows, lanes), of predicates and of registers of 2, 4 and 8 bytes.
    uniforms: the registers with one value for the whole launch.
    alive: (lanes,), whether each lane has not exited.
    alive_threads: (ctas,), the number of such threads.
    block: the index of the block that runs.
    push: lets a group go on at a block.
    milestones: how often a phase of mbarriers or a barrier has ended, or threads have exited.
    """

    def __init__(self, launch: Launch, cta_numbers: Indices) -> None:
        program = launch.program
        self.launch, self.program, self.cta_numbers, self.asynchrony = launch, program, cta_numbers, launch.asynchrony
        threads, cluster_size = prod(launch.block), prod(launch.cluster)
        limit = SHARED_START + program.entry.dynamic_offset + launch.shared_bytes
        self.topology = Topology(cta_numbers.size, threads, cluster_size, round_up(limit, _STRIDE_UNIT))
        lanes, rows = self.topology.lanes, program.bank_sizes
        self.words, self.tell = Words(program.entry, self.topology, cta_numbers), Observers()
        self.access = Access(launch.memory, self.topology, limit, self.words, self.tell)
        self.banks: tuple[Array, ...] = (
            np.zeros((rows[1], lanes), np.bool_),
            *(np.zeros((rows[width], lanes), f"u{width}") for width in (2, 4, 8)),
        )
        self.uniforms: list[Values] = program.initial_uniforms()
        self.alive = np.ones(lanes, np.bool_)
        self.alive_threads = np.full(self.topology.ctas, threads)
        self.block, self.milestones = 0, 0
        self.push: Callable[[int, Group], None] = _nowhere

    def let_go(self) -> None:
        """Free everything that this holds: its parts form reference cycles, which Python frees late."""
        for owner in (self.tell, self.topology, self):
            vars(owner).clear()


def _nowhere(block: int, group: Group) -> None:
    raise AssertionError(f"no machine runs this wave: {block}, {group}")
