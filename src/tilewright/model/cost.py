"""The cost of a tiled product: what ranks the Configs of `mma` and `simt`; `wgmma_time` does it for `wgmma`.

A wave is a round of tiles, one for each SM or cluster:

    clocks = waves * steps * (multiply + deliver)

steps: the steps along k of a tile.
multiply: the clocks of a step's multiply-adds.
deliver: the clocks in which a step's elements of A and B reach the SM, as far as multiplying does not hide them.
"""

from dataclasses import dataclass

from tilewright.rounding import ceil_div


def delivery(macs: int, element_bytes: int) -> float:
    """Bytes per clock that reach an SM of `macs` multiply-adds per clock, besides those that multiplying hides.

    An element takes as long as 64 multiply-adds. That is fitted, and not a fact of a GPU.
    """
    return macs * element_bytes / 64


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles into which a kernel cuts out, and their clocks on a GPU.

    rows, columns: the part of out that a CTA, or the CTAs of a cluster, make in one round.
    at_once: the number of CTAs or clusters that work at the same time.
    step_clocks: clocks of a step along k, for multiplication and delivery.
    """

    rows: int
    columns: int
    at_once: int
    step_clocks: float

    def clocks(self, m: int, n: int, batch_count: int, steps: int) -> float:
        """Clocks of all waves for `batch_count` results of shape (m, n), each summed in `steps` steps."""
        tiles = ceil_div(m, self.rows) * ceil_div(n, self.columns) * batch_count
        return waves(tiles, self.at_once) * steps * self.step_clocks


def waves(tiles: int, at_once: int) -> int:
    """The number of rounds for `tiles` tiles, `at_once` of them per round."""
    return ceil_div(tiles, at_once)


def multiply_clocks(tile_m: int, tile_n: int, k: int, macs: float) -> float:
    """Clocks that an SM of `macs` multiply-adds per clock takes for (tile_m, k) times (k, tile_n)."""
    return tile_m * tile_n * k / macs
