"""The common base of kernels with one CTA per tile of out: how operands are walked, counted and limited."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tilewright.dtypes import DType
from tilewright.hardware import Hardware
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.problem import Matrix, Problem
from tilewright.rounding import ceil_div

WHOLE_PAIRS = (
    "not stacked or not b_k_major or threads % (2 * b_threads_per_row) == 0",
    "columns of a stacked b are copied in pairs: take an even number of warps",
)
"""A rule of kernels that copy columns of b which are contiguous along k."""


class Tile(Protocol):
    """The size of a CTA's tile of out: a Config, or Constants."""

    @property
    def tile_m(self) -> int:
        """Rows of the tile."""

    @property
    def tile_n(self) -> int:
        """Columns of the tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledConstants(Constants):
    """The Constants of tiled kernels: whether A and B are walked along k, by how many elements, and threads per row."""

    group_m: int
    a_k_major: bool
    a_copy_elements: int
    a_threads_per_row: int
    b_k_major: bool
    b_copy_elements: int
    b_threads_per_row: int


class TiledFeatures(NamedTuple):
    """The compiled-in features of a Problem: how A and B are stored and aligned, and the epilogue."""

    layout: str
    Input: DType
    InputB: DType
    a_k_major: bool
    a_copy_bytes: int
    b_k_major: bool
    b_copy_bytes: int
    epilogue: EpilogueConstants


class TiledKernel(Kernel):
    """A kernel whose CTAs make one tile of out each, and walk A and B along k or along m and n, as they are stored."""

    neighbors = 2
    """Columns of sums that a thread has beside each other."""

    @abstractmethod
    def copy_elements(self, nbytes: int, dtype: DType) -> int:
        """The elements of A or B in one copy, if `nbytes` bytes are aligned everywhere."""

    def features(self, problem: Problem) -> TiledFeatures:
        """The storage and alignment of A and B, and the epilogue."""
        a, b = problem.a, problem.b
        a_bytes, b_bytes = self.copy_widths(problem)
        epilogue = EpilogueConstants.of(problem, neighbors=self.neighbors)
        return TiledFeatures(
            problem.layout, a.dtype, b.dtype, a.is_row_major, a_bytes, not b.is_row_major, b_bytes, epilogue
        )

    def copy_widths(self, problem: Problem) -> tuple[int, int]:
        """The bytes of A and of B that are copied at once."""
        a, b = problem.a, problem.b
        apart = problem.epilogue.is_stacked and b.is_row_major  # neighbors in a tile are no neighbors in memory
        return copy_bytes(a), b.dtype.nbytes if apart else copy_bytes(b)

    def walked(self, config: Any, features: TiledFeatures) -> dict[str, Any]:
        """The fields of TiledConstants and of the Config, by name."""
        a_elements = self.copy_elements(features.a_copy_bytes, features.Input)
        b_elements = self.copy_elements(features.b_copy_bytes, features.InputB)
        return values_of(config) | {
            "threads": config.threads,
            "smem_bytes": config.smem_bytes(features.Input.nbytes),
            "epilogue": features.epilogue,
            "a_k_major": features.a_k_major,
            "a_copy_elements": a_elements,
            "a_threads_per_row": (config.tile_k if features.a_k_major else config.tile_m) // a_elements,
            "b_k_major": features.b_k_major,
            "b_copy_elements": b_elements,
            "b_threads_per_row": (config.tile_k if features.b_k_major else config.tile_n) // b_elements,
        }

    def tile_count(self, constants: Constants, problem: Problem) -> int:
        """Tiles that cover out, batches included, each once for every CTA that sums a part of it."""
        return tile_count(constants, problem) * constants.split_k

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out, or a cluster; it waits for earlier grids itself where the GPU knows of that."""
        tiles, dependent = self.tile_count(constants, problem), hardware.launches_overlap
        return LaunchShape(tiles, constants.threads, constants.cluster, constants.smem_bytes, dependent, keeps_l1=True)


def copy_bytes(matrix: Matrix) -> int:
    """The widest access that is aligned everywhere when walking the matrix as it is stored."""
    return matrix.vector_bytes("column" if matrix.is_row_major else "row")


def tile_count(tile: Tile, problem: Problem) -> int:
    """Tiles that cover out, batches included."""
    return ceil_div(problem.m, tile.tile_m) * ceil_div(problem.n, tile.tile_n) * problem.batch_count
