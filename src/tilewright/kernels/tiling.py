"""What kernels with one CTA per tile of out have in common: how operands are walked, counted and limited."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from math import ceil
from typing import Any, Protocol, TypeVar

from tilewright.hardware import Hardware
from tilewright.kernels.family import Constants, Kernel, epilogue_constants
from tilewright.kernels.parameters import LaunchShape
from tilewright.problem import MAX_BATCH_DIMS, Matrix, Problem

MAX_EXTENT = 2**31 - 4096
"""Indices are signed 32-bit integers, also those past the end in the last tile: fewer than fit in shared memory."""


class TiledConfig(Protocol):
    """A Config that says how large a CTA's tile of out is."""

    @property
    def tile_m(self) -> int:
        """Rows of the tile."""

    @property
    def tile_n(self) -> int:
        """Columns of the tile."""


C = TypeVar("C", bound=TiledConfig)


class OneTilePerCta(Kernel):
    """A kernel whose CTAs make one tile of out each, and walk A and B along k or along m and n, as these are stored."""

    @abstractmethod
    def copy_elements(self, nbytes: int) -> int:
        """Elements of A or B that one copy brings where `nbytes` bytes are aligned everywhere."""

    def constants(self, config: Any, problem: Problem) -> Constants:
        """The Config's fields, and for A and B: whether along k, by how many elements, and threads side by side."""
        constants: Constants = {**asdict(config), "threads": config.threads, "smem_bytes": config.smem_bytes}
        a_k_major, b_k_major = problem.a.is_row_major, not problem.b.is_row_major
        for name, matrix, k_major, tile in (
            ("a", problem.a, a_k_major, config.tile_m),
            ("b", problem.b, b_k_major, config.tile_n),
        ):
            copy_elements = self.copy_elements(copy_bytes(matrix))
            constants[f"{name}_k_major"] = k_major
            constants[f"{name}_copy_elements"] = copy_elements
            constants[f"{name}_threads_per_row"] = (config.tile_k if k_major else tile) // copy_elements
        return constants | epilogue_constants(problem)

    def tile_count(self, config: Any, problem: Problem) -> int:
        """Tiles that cover out, batches included."""
        return tile_count(config, problem)

    def launch_shape(self, config: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out."""
        return LaunchShape(tile_count(config, problem), config.threads, 1, config.smem_bytes)


def copy_bytes(matrix: Matrix) -> int:
    """Widest access that is aligned everywhere when walking the matrix the way it is stored."""
    return matrix.vector_bytes("column" if matrix.is_row_major else "row")


def tile_count(config: TiledConfig, problem: Problem) -> int:
    """Tiles that cover out, batches included."""
    return ceil(problem.m / config.tile_m) * ceil(problem.n / config.tile_n) * problem.batch_count


def by_estimated_time(configs: Iterable[C], problem: Problem, hardware: Hardware) -> list[C]:
    """The Configs, the quickest first: full waves of CTAs times what a CTA computes and reads per step along k.

    Reading one element of A or B into the SM is taken to cost as much as 64 multiply-adds.
    """

    def time(config: C) -> int:
        waves = ceil(tile_count(config, problem) / hardware.sm_count)
        return waves * (config.tile_m * config.tile_n + 64 * (config.tile_m + config.tile_n))

    return sorted(configs, key=time)


def oversized(problem: Problem) -> str | None:
    """Why the kernels' 32-bit indices cannot count the problem's rows, columns or batches; None where they can."""
    extents = {"m": problem.m, "n": problem.n, "k": problem.k, "the batch": problem.batch_count}
    for name, extent in extents.items():
        if extent > MAX_EXTENT:
            return f"{name} is {extent} and at most {MAX_EXTENT} is counted: split the product"
    if len(problem.batch) > MAX_BATCH_DIMS:
        return f"batch {problem.batch} has {len(problem.batch)} dimensions and at most {MAX_BATCH_DIMS} are walked"
    return None
