"""The reason why a kernel does not take a problem, or TMA does not take an operand."""

from typing import NamedTuple

from tilewright.dtypes import FP8, int8
from tilewright.hardware import Hardware
from tilewright.problem import MAX_BATCH_DIMS, Problem
from tilewright.rounding import ceil_div


class Refusal(NamedTuple):
    """A reason in words, and the operand to blame if another layout of it would be taken, or a launch could make it."""

    reason: str
    operand: str | None = None

    @property
    def avoidable(self) -> bool:
        """Whether another layout of an operand would be taken."""
        return self.operand is not None

    def __str__(self) -> str:
        return self.reason


def column_sums_refused(problem: Problem, kernel: str) -> Refusal | None:
    """The reason why a kernel whose threads have no groups of rows sums no columns; None if none are asked for."""
    if problem.epilogue.sums_columns:
        return Refusal(f"{kernel} leaves no 16 rows to one warp, whose columns could be summed")
    return None


MOST_PRODUCTS = (2**31 - 1) // 128**2
"""How many products of int8 a sum in int32 holds, whatever they are."""

MOST_SHIFTED_PRODUCTS = (2**31 - 1) // (255 * 128)
"""The same if a has a zero point."""


def overflowing(problem: Problem) -> Refusal | None:
    """The reason why sums in int32 may overflow; None if they cannot."""
    expression = problem.epilogue.expression
    most = MOST_PRODUCTS if expression is None or not expression.has_zero else MOST_SHIFTED_PRODUCTS
    if problem.a.dtype is int8 and problem.k > most:
        return Refusal(
            f"k is {problem.k}, and sums of more than {most} products of int8 may overflow int32: split k, "
            f"and add the results"
        )
    return None


def narrow_out_refused(problem: Problem, hardware: Hardware) -> Refusal | None:
    """The reason why a GPU stores no fp8; None if it does, or out is none."""
    if problem.out.dtype in FP8 and hardware.capability < 89:
        return Refusal(
            f"out is {problem.out.dtype}, whose conversions need sm_89 or later, and {hardware.its_arch}: "
            f"take an out of bf16 or fp16"
        )
    return None


def straddling_blocks(problem: Problem) -> Refusal | None:
    """The reason why columns of b that a gate pairs do not begin blocks with scales together; None if they do."""
    if problem.recipe == "1x128_128x128" and problem.epilogue.is_stacked and problem.n // 2 % 128:
        return Refusal(
            f"half of b has {problem.n // 2} columns, and a block of 128 columns with one scale has some of each half: "
            f"use gate='interleaved', or pad each half to a multiple of 128"
        )
    return None


MAX_EXTENT = 2**31 - 4096
"""The largest extent: indices are signed 32-bit integers, with room for those past the end in the last tile."""


ROWS_OF_GROUP = 16
"""Rows that an epilogue adds for `column_sums` (cuda/epilogue/group_sums.cuh)."""


def oversized(problem: Problem) -> Refusal | None:
    """The reason why 32-bit indices cannot count the problem's rows, columns or batches; None if they can."""
    extents = (problem.m, problem.n, problem.k, problem.batch_count)
    if max(extents) > MAX_EXTENT:
        named = zip(("m", "n", "k", "the batch"), extents, strict=True)
        name, extent = next((name, extent) for name, extent in named if extent > MAX_EXTENT)
        return Refusal(f"{name} is {extent} and at most {MAX_EXTENT} is counted: split the product")
    groups = problem.batch_count * ceil_div(problem.m, ROWS_OF_GROUP)
    if problem.epilogue.sums_columns and groups > MAX_EXTENT:
        return Refusal(f"column_sums adds {groups} groups of {ROWS_OF_GROUP} rows and at most {MAX_EXTENT} are counted")
    if len(problem.batch) > MAX_BATCH_DIMS:
        return Refusal(
            f"batch {problem.batch} has {len(problem.batch)} dimensions and at most {MAX_BATCH_DIMS} are walked"
        )
    return None
