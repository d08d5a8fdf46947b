"""What a tiled product costs: the one model that ranks Configs and predicts times.

A wave is a round of tiles, one for each SM or cluster that works at once:

    clocks = waves * (steps * (multiply + deliver) + clocks of a tile)

with the steps along k of a tile, the clocks that a step's multiply-adds take, and those in which its elements of A and
B reach the SM, as far as multiplying does not hide them.
"""

from dataclasses import dataclass

from tilewright.hardware import Unit
from tilewright.rounding import ceil_div

TILE_CLOCKS: dict[Unit, int] = {"wgmma": 1500, "mma": 0, "cuda_cores": 0}
"""What a tile takes beside its steps. With `delivery` it puts the measured winners first; it is no figure of a GPU."""


def delivery(unit: Unit, macs: int, element_bytes: int) -> float:
    """Bytes per clock that reach an SM of `macs` multiply-adds per clock, beside what multiplying hides.

    For wgmma a constant; elsewhere an element takes as long as 64 multiply-adds. No rates of the hardware either.
    """
    return 300.0 if unit == "wgmma" else macs * element_bytes / 64


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a kernel cuts out on a GPU, as far as it decides the time.

    rows, columns: of out that a CTA, or the CTAs of a cluster, make in one round.
    at_once: CTAs or clusters that work at once.
    step_clocks: multiplication and delivery of a step along k.
    tile_clocks: what a tile takes beside its steps.
    """

    rows: int
    columns: int
    at_once: int
    step_clocks: float
    tile_clocks: float

    def clocks(self, m: int, n: int, batch_count: int, steps: int) -> float:
        """Clocks of all waves for `batch_count` results of (m, n), each summed in `steps`."""
        tiles = ceil_div(m, self.rows) * ceil_div(n, self.columns) * batch_count
        return waves(tiles, self.at_once) * (steps * self.step_clocks + self.tile_clocks)


def waves(tiles: int, at_once: int) -> int:
    """Rounds that `tiles` take when `at_once` are worked on."""
    return ceil_div(tiles, at_once)


def multiply_clocks(tile_m: int, tile_n: int, k: int, macs: float) -> float:
    """Clocks of an SM of `macs` multiply-adds per clock for (tile_m, k) times (k, tile_n)."""
    return tile_m * tile_n * k / macs
