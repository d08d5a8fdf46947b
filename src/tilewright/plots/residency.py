"""Pictures of what is on the SMs at once: CTAs by their registers, and the waves of a product's tiles."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from tilewright.errors import ArgumentValueError
from tilewright.model.occupancy import Occupancy
from tilewright.model.waves import Waves
from tilewright.plots.panels import Box, blank, fill, key, lattice
from tilewright.plots.style import BLUE, GRID, INK, ORANGE, PALE, RED, SMALL, TEXT, figure, styled

MOST_TILES = 1 << 18
"""The most tiles of a picture, which takes some seconds."""
FINEST = 64
"""The most tiles along a side that get lines between them."""


@styled()
def by_registers(found: Mapping[int, Occupancy], registers: int, title: str) -> Figure:
    """Warps per SM for each number of registers, and the kernel's own."""
    picture, (axes,) = figure(7.2, 3.0)
    counts = sorted(found)
    axes.step(counts, [found[count].warps for count in counts], where="mid", color=BLUE, lw=1.6)
    here = found[registers]
    axes.plot(registers, here.warps, "o", color=RED, zorder=3)
    text = f"{registers} registers: CTAs on an SM: {here.ctas},\nlimited by {' and '.join(here.limits)}"
    right = registers > 128
    axes.annotate(
        text, (registers, here.warps), (-8 if right else 8, 10), textcoords="offset points", fontsize=TEXT,
        ha="right" if right else "left",
    )  # fmt: skip
    axes.set_xlim(0, counts[-1] + 1)
    axes.set_xticks(range(0, counts[-1] + 1, 32))
    axes.set_ylim(0, here.most_warps * 1.25)
    axes.set_yticks(range(0, here.most_warps + 1, 16))
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("registers per thread")
    axes.set_ylabel(f"warps on an SM, of {here.most_warps}")
    axes.set_title(title, loc="left")
    return picture


@styled()
def last_wave(found: Waves, rows: float, columns: float, title: str) -> Figure:
    """The tiles of a result by wave, row by row, with what lies outside, and the tiles of each wave.

    rows, columns: the result's extents, in tiles. Raises an ArgumentValueError for more tiles than can be seen.
    """
    if found.tiles > MOST_TILES:
        raise ArgumentValueError(
            f"{found.tiles} tiles are more than a picture shows: take larger tiles, for {MOST_TILES} at most"
        )
    picture, (result, slots) = figure(8.6, 4.2, ncols=2, width_ratios=(1, 1))
    blank(result, found.tiles_n, found.tiles_m, title)
    idle = found.slots - found.last
    shades = (PALE[BLUE], BLUE)
    colors = [shades[number % 2] for number in range(found.count)]
    if idle:
        colors[-1] = ORANGE
    for number, color in enumerate(colors):
        tiles = range(number * found.slots, min((number + 1) * found.slots, found.tiles))
        fill(result, _runs(tiles, found.tiles_n), color)
    if max(found.tiles_m, found.tiles_n) <= FINEST:
        lattice(result, (0, 0, found.tiles_m, found.tiles_n), found.tiles_m, found.tiles_n, width=0.6)
    outside: list[Box] = [
        (0, columns, found.tiles_m, found.tiles_n - columns),
        (rows, 0, found.tiles_m - rows, columns),
    ]
    fill(result, [place for place in outside if place[2] and place[3]], RED)
    waves = range(1, found.count + 1)
    full = [found.slots] * (found.count - 1)
    slots.bar(waves, [*full, found.last], color=colors, width=0.9)
    slots.axhline(found.slots, color=INK, lw=0.8)
    slots.set_title(f"waves: {found.count}; in the last, {idle} of {found.slots} slots idle", loc="left")
    slots.set_ylim(0, found.slots * 1.08)
    slots.set_xlim(0.4, max(found.count, 3) + 0.6)
    slots.locator_params(axis="x", integer=True)
    slots.set_xlabel("wave")
    slots.set_ylabel("tiles at once")
    slots.spines[["top", "right"]].set_visible(False)
    slots.tick_params(labelsize=SMALL)
    slots.grid(axis="y", color=GRID, lw=0.4)
    slots.set_axisbelow(True)
    meanings = {
        shade: _numbered([number for number, color in enumerate(colors, 1) if color == shade])
        for shade in shades
        if shade in colors
    }
    if idle:
        meanings[ORANGE] = f"the last, {found.last:,} of {found.tiles:,} tiles"
    if found.wasted:
        meanings[RED] = f"outside the result: {found.wasted:.1%}"
    key(result, meanings)
    return picture


def _numbered(waves: list[int]) -> str:
    """Every second wave, in a few words."""
    shown = ", ".join(map(str, waves[:2])) + ", ..." * (len(waves) > 2)
    return f"wave{'s' * (len(waves) > 1)} {shown}"


def _runs(tiles: range, columns: int) -> list[Box]:
    """Neighbors in a row as one box each."""
    boxes: list[Box] = []
    at = tiles.start
    while at < tiles.stop:
        row, column = divmod(at, columns)
        width = min(columns - column, tiles.stop - at)
        boxes.append((row, column, 1, width))
        at += width
    return boxes
