"""How Volta's tensor cores make a 16x16x16 product of a warp: quad pairs, sets, steps and dot products of four.

Four lanes with neighboring numbers are a threadgroup, and threadgroups g and g + 4 are a quad pair, which has an 8 x 8
block of C. A `wmma` of 16x16x16 becomes HMMA.884 instructions in four sets, one for each four of k. In a set, each step
is one instruction, in which every threadgroup makes a part of its 4 x 8 elements of C.

Source: M. Raihan, N. Goli, T. Aamodt, "Modeling deep learning accelerator enabled GPUs", 2019, who measured it. A step
of sums in fp32 makes 2 x 4 elements in two clocks, so each lane has the multipliers of one dot product of four. For
sums in fp16, a step makes 4 x 4; its clocks are those that these multipliers take.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.hardware import WARP
from tilewright.model.chips import AnyChip, gpu_of
from tilewright.rounding import natural

Sums = Literal["fp32", "fp16"]

SETS = 4
"""Of a product of 16x16x16, one for each four of k."""
THREADGROUP, QUAD_PAIRS = 4, 4
"""Lanes of a threadgroup; quad pairs of a warp."""
_STEPS: dict[Sums, int] = {"fp32": 4, "fp16": 2}
_ROWS: dict[Sums, int] = {"fp32": 2, "fp16": 4}
_COLUMNS = 4
"""Of C that a threadgroup makes in a step: rows by the type of the sums, and columns."""


class Step(NamedTuple):
    """What a threadgroup does in one HMMA: a block of C gains the product of rows of A and columns of B over k.

    rows, columns, k: of the 16x16x16 product.
    """

    threadgroup: int
    set: int
    step: int
    rows: range
    columns: range
    k: range

    @property
    def fedps(self) -> int:
        """Dot products of four elements (four-element dot products), one for each element of the block."""
        return len(self.rows) * len(self.columns)

    @property
    def clocks(self) -> int:
        """Until the next step: each of the threadgroup's lanes has the multipliers of one dot product of four."""
        return self.fedps // THREADGROUP


def threadgroup_of(lane: int) -> int:
    """The threadgroup of a lane, 0 to 7; raises an ArgumentValueError for what is no lane."""
    return natural("lane", lane, 0, WARP - 1) // THREADGROUP


def quad_pair_of(lane: int) -> int:
    """The quad pair of a lane, 0 to 3: lanes 4q to 4q + 3, and those 16 above."""
    return threadgroup_of(lane) % QUAD_PAIRS


def steps(sums: Sums = "fp32") -> Iterator[Step]:
    """Every step of every threadgroup, in the order of the instructions: set by set, and step by step in each."""
    if sums not in _STEPS:
        raise ArgumentValueError(f"sums={sums!r} is no type of Volta's sums: use fp32 or fp16")
    rows = _ROWS[sums]
    halves = 4 // rows
    for number in range(SETS * _STEPS[sums]):
        at, step = divmod(number, _STEPS[sums])
        for threadgroup in range(8):
            quad_pair, upper = threadgroup % QUAD_PAIRS, threadgroup // QUAD_PAIRS
            row = quad_pair % 2 * 8 + upper * 4 + step % halves * rows
            column = quad_pair // 2 * 8 + step // halves * _COLUMNS
            yield Step(
                threadgroup, at, step, range(row, row + rows), range(column, column + _COLUMNS),
                range(at * 4, at * 4 + 4),
            )  # fmt: skip


def instructions(sums: Sums = "fp32") -> list[Step]:
    """The HMMA instructions of a 16x16x16 product, as the steps of threadgroup 0: 16, or 8 if sums are in fp16."""
    return [step for step in steps(sums) if step.threadgroup == 0]


def fma_per_clock(sums: Sums = "fp32") -> float:
    """Multiply-adds in a clock of the two tensor cores of an SM's quarter."""
    return 16**3 / sum(step.clocks for step in instructions(sums))


def flops(chip: AnyChip, sums: Sums = "fp32") -> float:
    """Operations per second of a GPU with such tensor cores in each quarter of its SMs."""
    gpu = gpu_of(chip)
    return 2.0 * fma_per_clock(sums) * 4 * gpu.sm_count * gpu.tensor_clock
