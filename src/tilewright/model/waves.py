"""Tile and wave quantization: how much of the machine's time goes to elements and slots that do not exist.

Tiles that reach beyond the result compute what nobody wants (tile quantization), and a last wave that is not full
leaves SMs idle (wave quantization). Source of the examples: A. Gordić, "Inside NVIDIA GPUs", figures 17, 20 and 21.
"""

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.rounding import MOST_COUNTED, ceil_div, natural


@dataclass(frozen=True, slots=True)
class Waves:
    """How tiles of a result fall into waves.

    tiles_m, tiles_n: tiles along m and n. slots: how many work at once, on all SMs. wasted: the share of the tiles'
    elements that lie outside the result.
    """

    tiles_m: int
    tiles_n: int
    slots: int
    wasted: float

    @property
    def tiles(self) -> int:
        """All tiles."""
        return self.tiles_m * self.tiles_n

    @property
    def exact(self) -> float:
        """Waves if the last one could be a part of one: what a profiler calls waves per SM."""
        return self.tiles / self.slots

    @property
    def count(self) -> int:
        """Waves that run."""
        return ceil_div(self.tiles, self.slots)

    @property
    def last(self) -> int:
        """Tiles of the last wave."""
        return self.tiles - (self.count - 1) * self.slots

    @property
    def busy(self) -> float:
        """The share of all slots of all waves that have a tile."""
        return self.tiles / (self.count * self.slots)

    @property
    def useful(self) -> float:
        """The share of the waves' time that computes elements of the result, if all tiles take equally long."""
        return self.busy * (1 - self.wasted)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = ("tiles", "exact", "count", "last", "busy", "useful")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def waves(m: int, n: int, tile_m: int, tile_n: int, slots: int) -> Waves:
    """The Waves of an m x n result in tiles of tile_m x tile_n, of which `slots` are computed at once.

    Raises an ArgumentValueError for an extent below 1.
    """
    for name, value in (("m", m), ("n", n), ("tile_m", tile_m), ("tile_n", tile_n), ("slots", slots)):
        natural(name, value, 1, MOST_COUNTED)
    tiles_m, tiles_n = ceil_div(m, tile_m), ceil_div(n, tile_n)
    return Waves(tiles_m, tiles_n, slots, 1 - m * n / (tiles_m * tile_m * tiles_n * tile_n))
