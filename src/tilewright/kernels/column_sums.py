"""Kernel `column_sums`: adds what a product's epilogue has summed over groups of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import fp32
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import ROWS_OF_GROUP, Refusal, oversized
from tilewright.problem import Matrix, Problem, output_key
from tilewright.rounding import ceil_div

THREADS, COLUMNS = 1024, 32
"""Threads and columns of a CTA. The order of additions follows from them, so they are no Config."""


@dataclass(frozen=True, slots=True)
class ColumnSumsConfig:
    """The Config of `column_sums`, which leaves nothing to choose."""


class ColumnSumsKernel(Kernel):
    """Adds the sums of groups. In its Problem they are b, a row each, and out has one row."""

    name = "column_sums"
    unit = "cuda_cores"
    summary = "the sums of groups of rows, added in a fixed order"
    config_type = ColumnSumsConfig
    header = "kernels/column_sums.cuh"
    rules = (("tile_n == 32", "each lane of a warp has a column"),)

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `column_sums` cannot count the groups or the columns."""
        return oversized(problem)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[ColumnSumsConfig]:
        """One."""
        return (ColumnSumsConfig(),)

    def features(self, problem: Problem) -> None:
        """None: one translation unit is for all problems."""

    def derive(self, config: ColumnSumsConfig, features: Any) -> Constants:
        """The Constants, always the same."""
        return Constants(tile_m=1, tile_n=COLUMNS, tile_k=1, threads=THREADS, smem_bytes=0, epilogue=None)

    def tile_count(self, constants: Constants, problem: Problem) -> int:
        """One for each 32 columns."""
        return ceil_div(problem.n, COLUMNS)

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each 32 columns; it waits for earlier grids itself where the GPU knows of that."""
        return LaunchShape(self.tile_count(constants, problem), constants.threads, 1, 0, hardware.launches_overlap)

    def entry(self, config: ColumnSumsConfig, problem: Problem) -> str:
        """The kernel's name."""
        return self.name


def summing(problem: Problem) -> Problem | None:
    """The Problem of `column_sums` that ends a product's; None if the product sums no columns."""
    if not problem.epilogue.sums_columns:
        return None
    sums = dict(problem.epilogue.written())[output_key("column_sums")]
    columns = problem.columns
    groups = problem.batch_count * ceil_div(problem.m, ROWS_OF_GROUP)
    return Problem(1, columns, groups, Matrix(fp32, 0, 0), Matrix(fp32, columns, 1), sums._replace(batch_strides=()))
