"""The common base of kernels with one CTA per tile of out: how operands are walked, counted and limited."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import Hardware, Unit
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.cost import Prepared
from tilewright.model.prediction import Breakdown, Power, Prediction, at_least, breakdown, predict, prepare_in
from tilewright.model.ranking.ranking import Ranking
from tilewright.model.tiling.tiles import Tiles
from tilewright.problem import Matrix, Problem
from tilewright.rounding import ceil_div, round_up


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

    @abstractmethod
    def copy_elements(self, nbytes: int, dtype: DType) -> int:
        """The elements of A or B in one copy, if `nbytes` bytes are aligned everywhere."""

    def features(self, problem: Problem) -> TiledFeatures:
        """The storage and alignment of A and B, and the epilogue."""
        a, b = problem.a, problem.b
        a_bytes, b_bytes = self.copy_widths(problem)
        epilogue = EpilogueConstants.of(problem)
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

    def tile_count(self, constants: Tile, problem: Problem) -> int:
        """Tiles that cover out, batches included."""
        return tile_count(constants, problem)

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out; it waits for earlier grids itself where the GPU knows of that."""
        tiles, dependent = tile_count(constants, problem), hardware.launches_overlap
        return LaunchShape(tiles, constants.threads, 1, constants.smem_bytes, dependent, keeps_l1=True)

    @abstractmethod
    def offered(self, problem: Problem) -> tuple[Any, ...]:
        """A Config for each tile size that suits the problem's alignment."""

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The offered ones, the quickest by `ranked_seconds` first; Configs of equal time keep their order.

        Where memory alone takes longer than they do, what they take without that decides.
        """
        return [config for *_, config in self._ranked(problem, hardware)]

    def best(self, problem: Problem, hardware: Hardware) -> Any:
        """The first of `configs`."""
        return self._ranked(problem, hardware)[0][-1]

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time by which it is ranked."""
        return self._ranked(problem, hardware)[0][0]

    def _ranked(self, problem: Problem, hardware: Hardware) -> "list[tuple[float, float, Any]]":
        """What `predict` says of the offered Configs, their times without memory's, and they, in order.

        m is rounded up to 8, of which tiles are multiples, so that choices are shared. An empty sum still has tiles to
        store.
        """
        return _ranked(self, problem._replace(m=round_up(problem.m, 8), k=max(problem.k, 1)), hardware)

    def predict(self, config: Any, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time that the model gives a Config, with its narrow accesses."""
        predicted = predict(problem, self._prepared(config, power, problem, hardware), hardware)
        return predicted._replace(seconds=max(predicted.seconds, sum(self.narrow_seconds(config, problem, hardware))))

    def narrow_seconds(self, config: Any, problem: Problem, hardware: Hardware) -> tuple[float, float]:
        """What a launch takes before its narrow accesses and for them; zeros if they are wide."""
        return 0.0, 0.0

    def breakdown(self, config: Any, problem: Problem, hardware: Hardware, power: Power = "settled") -> Breakdown:
        """The parts of that time, and its limits."""
        found = breakdown(problem, self._prepared(config, power, problem, hardware), self.unit, hardware)
        begun, accessed = self.narrow_seconds(config, problem, hardware)
        if accessed == 0:
            return found
        looped = found.parts.main_loop + max(0.0, begun + accessed - sum(found.parts))
        limits = {**found.limits, "accesses of single elements": min(accessed, looped + found.parts.tail)}
        return found._replace(parts=found.parts._replace(main_loop=looped), limits=limits)

    def _prepared(self, config: Any, power: Power, problem: Problem, hardware: Hardware) -> Prepared:
        return _prepared(config, power, self.unit, problem.a.dtype, hardware)


@lru_cache(maxsize=2)  # asked for twice in a row where kernels contend
def _ranked(kernel: TiledKernel, problem: Problem, hardware: Hardware) -> list[tuple[float, float, Any]]:
    offered = kernel.offered(problem)
    ranking = _ranking(offered, kernel.unit, problem.a.dtype, hardware)
    times = ranking.times(problem.m, problem.n, problem.k, problem.batch_count)
    longer = np.maximum(times, at_least(problem, ranking.prepared, hardware)) / 1e6
    ways = zip(longer.tolist(), times.tolist(), offered, strict=True)
    found = [
        (max(seconds, sum(kernel.narrow_seconds(config, problem, hardware))), us, config)
        for seconds, us, config in ways
    ]
    return sorted(found, key=itemgetter(0, 1))


@lru_cache(maxsize=256)
def _ranking(configs: tuple[Tile, ...], unit: Unit, dtype: DType, hardware: Hardware) -> Ranking:
    return Ranking(_tiles_of(configs, hardware), unit, dtype, hardware)


@lru_cache(maxsize=256)
def _prepared(config: Tile, power: Power, unit: Unit, dtype: DType, hardware: Hardware) -> Prepared:
    return prepare_in(power, _tiles_of((config,), hardware), unit, dtype, hardware)


def _tiles_of(configs: Sequence[Tile], hardware: Hardware) -> Tiles:
    """Configs as the model sees them: each CTA on an SM of its own, and k counted by elements."""
    tile_m, tile_n = np.array([(config.tile_m, config.tile_n) for config in configs], np.float64).T
    one = np.ones_like(tile_m)
    no = one < 1
    at_once = one * hardware.sm_count
    return Tiles(tile_m, tile_n, one, one, one, one, one, at_once, tile_m, tile_n, no, no, no, no)


def copy_bytes(matrix: Matrix) -> int:
    """The widest access that is aligned everywhere when walking the matrix as it is stored."""
    return matrix.vector_bytes("column" if matrix.is_row_major else "row")


def tile_count(tile: Tile, problem: Problem) -> int:
    """Tiles that cover out, batches included."""
    return ceil_div(problem.m, tile.tile_m) * ceil_div(problem.n, tile.tile_n) * problem.batch_count
