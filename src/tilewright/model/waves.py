"""Tile and wave quantization: how much of the machine's time goes to elements and slots that do not exist.

Tiles that reach beyond the result compute what nobody wants (tile quantization), and a last wave that is not full
leaves SMs idle (wave quantization). Source of the examples: A. Gordić, "Inside NVIDIA GPUs", figures 17, 20 and 21.
"""

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.hardware import REGISTERS
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

    Raises an ArgumentValueError for an extent below 1, and as `require_tile` does.
    """
    for name, value in (("m", m), ("n", n), ("slots", slots)):
        natural(name, value, 1, MOST_COUNTED)
    require_tile(tile_m, tile_n)
    tiles_m, tiles_n = ceil_div(m, tile_m), ceil_div(n, tile_n)
    return Waves(tiles_m, tiles_n, slots, 1 - m * n / (tiles_m * tile_m * tiles_n * tile_n))


def require_tile(tile_m: int, tile_n: int, ctas_per_sm: int = 1) -> None:
    """Raise an ArgumentValueError unless SMs can hold the sums of so many CTAs with such a tile, each in a register."""
    elements = natural("tile_m", tile_m, 1, REGISTERS) * natural("tile_n", tile_n, 1, REGISTERS)
    most = REGISTERS // natural("ctas_per_sm", ctas_per_sm, 1, REGISTERS)
    if elements > most:
        each = f", for each of {ctas_per_sm} CTAs" if ctas_per_sm > 1 else ""
        raise ArgumentValueError(
            f"tile_m={tile_m} by {tile_n} columns makes {elements:,} sums, and an SM has registers for {most:,}{each}: "
            "give a smaller tile"
        )
