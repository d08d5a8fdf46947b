"""What kernels with one CTA per tile of out have in common: how operands are walked, counted and limited."""

from collections.abc import Iterable
from math import ceil
from typing import Protocol, TypeVar

from tilewright.hardware import Hardware
from tilewright.problem import MAX_BATCH_DIMS, Problem

INT32_MAX = 2**31 - 1


class TiledConfig(Protocol):
    """A Config that says how large a CTA's tile of out is."""

    @property
    def tile_m(self) -> int:
        """Rows of the tile."""

    @property
    def tile_n(self) -> int:
        """Columns of the tile."""


C = TypeVar("C", bound=TiledConfig)


def cta_count(config: TiledConfig, problem: Problem) -> int:
    """CTAs that cover out, batches included."""
    return ceil(problem.m / config.tile_m) * ceil(problem.n / config.tile_n) * problem.batch_count


def by_estimated_time(configs: Iterable[C], problem: Problem, hardware: Hardware) -> list[C]:
    """The Configs, the quickest first: full waves of CTAs times what a CTA computes and reads per step along k.

    Reading one element of A or B into the SM is taken to cost as much as 64 multiply-adds.
    """

    def time(config: C) -> int:
        waves = ceil(cta_count(config, problem) / hardware.sm_count)
        return waves * (config.tile_m * config.tile_n + 64 * (config.tile_m + config.tile_n))

    return sorted(configs, key=time)


def oversized(problem: Problem) -> str | None:
    """Why the kernels' 32-bit indices cannot count the problem's rows, columns or batches; None where they can."""
    extents = {"m": problem.m, "n": problem.n, "k": problem.k, "the batch": problem.batch_count}
    for name, extent in extents.items():
        if extent > INT32_MAX:
            return f"{name} is {extent} and at most {INT32_MAX} is counted: split the product"
    if len(problem.batch) > MAX_BATCH_DIMS:
        return f"batch {problem.batch} has {len(problem.batch)} dimensions and at most {MAX_BATCH_DIMS} are walked"
    return None
