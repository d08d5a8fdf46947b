"""Time lines, and the ring of a producer and its consumers that they show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tilewright.plots.panels import text_on
from tilewright.plots.style import BLUE, GRAY, GREEN, GROUND, INK, ORANGE, SMALL, TEXT

LOAD, MULTIPLY, STORE, WAIT = BLUE, GREEN, ORANGE, GRAY
"""Colors of activities."""

Span = tuple[float, float, str, str]
"""Begin, end, text and color."""

MULTIPLY_ADDS_A_CLOCK = 2048
"""Rate of one SM of Hopper on 2-byte floats."""

LOAD_CLOCKS, STORE_CLOCKS = 1000, 900
"""Invented durations of a load from L2 or memory and of a tile's store, for the pictures."""


def timeline(axes: Axes, rows: Mapping[str, Sequence[Span]], title: str, unit: str = "") -> None:
    """One row for each name, with a bar for each span."""
    end = max(span[1] for spans in rows.values() for span in spans)
    for row, spans in enumerate(rows.values()):
        for begin, stop, text, color in spans:
            axes.add_patch(
                Rectangle((begin, row + 0.1), stop - begin, 0.8, facecolor=color, edgecolor=GROUND, linewidth=0.8)
            )
            if text:
                axes.text(
                    (begin + stop) / 2, row + 0.52, text, ha="center", va="center", fontsize=SMALL, color=text_on(color)
                )
    axes.set_xlim(0, end)
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([row + 0.5 for row in range(len(rows))], list(rows), fontsize=TEXT, color=INK)
    axes.tick_params(left=False, labelsize=TEXT, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if unit:
        axes.set_xlabel(unit, fontsize=SMALL, color=INK)
        axes.tick_params(axis="x", labelsize=SMALL)
    else:
        axes.set_xticks([])
        axes.set_xlabel("time", fontsize=SMALL, color=INK, loc="right")
    axes.set_title(title, fontsize=TEXT, color=INK, loc="left")


@dataclass(frozen=True)
class Ring:
    """The timing of an SM that makes one tile after another through a ring.

    stages: slots. multiply: clocks of the tensor cores per k-block. blocks: k-blocks per tile.
    ahead: the producer continues with the next tile while the results are stored.
    overlapped: the consumers do so too.
    """

    stages: int
    multiply: float
    blocks: int
    tiles: int
    ahead: bool = True
    overlapped: bool = False

    def rows(self) -> dict[str, list[Span]]:
        """A row for each slot, and one for the stores."""
        rows: dict[str, list[Span]] = {f"slot {slot}": [] for slot in range(self.stages)}
        stores: list[Span] = []
        free = [0.0] * self.stages
        issued = done = stored = 0.0
        for number in range(self.blocks * self.tiles):
            slot, (tile, block) = number % self.stages, divmod(number, self.blocks)
            issued = max(issued, free[slot])
            if block == 0 and not self.ahead:
                issued = max(issued, stored)
            arrived = issued + LOAD_CLOCKS
            begin = max(arrived, done, 0 if self.overlapped else stored)
            done = free[slot] = begin + self.multiply
            text = f"{tile}.{block}" if self.tiles > 1 else str(block)
            rows[f"slot {slot}"] += [(issued, arrived, text, LOAD), (begin, done, text, MULTIPLY)]
            if block == self.blocks - 1:
                stored = max(done, stored) + STORE_CLOCKS
                stores.append((stored - STORE_CLOCKS, stored, f"tile {tile}", STORE))
        return rows | {"store": stores}


def multiply_clocks(tile_m: int, tile_n: int, tile_k: int) -> float:
    """Clocks that the tensor cores of an SM take for a k-block of a tile."""
    return tile_m * tile_n * tile_k / MULTIPLY_ADDS_A_CLOCK
