"""Panels of lanes, banks, tiles and orders. Each draws its arguments into one matplotlib Axes and computes nothing.

Colors come from one palette that color-blind readers can tell apart; every panel has a white background.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import FancyArrowPatch, PathPatch, Rectangle
from matplotlib.path import Path

from pictures.record import Request
from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import BANK_BYTES, BANKS

BLUE, ORANGE, GREEN, RED, GRAY, PURPLE = "#3b7ea1", "#e69f00", "#4c9a2a", "#c8442e", "#9aa5ad", "#8e63a8"
PALE = {BLUE: "#d3e5ef", ORANGE: "#fbe7bd", GREEN: "#d9ecd0", RED: "#f6d5cf", GRAY: "#e9ecee", PURPLE: "#e7dbee"}
FIRST = "#86b6d1"
INK, GRID = "#24292f", "#d0d5d9"
SMALL, TEXT = 7, 8.5

Box = tuple[float, float, float, float]
"""Row, column, height, width: in elements, rows downwards."""


def blank(axes: Axes, width: float, height: float, title: str = "") -> None:
    """No frame; x from 0 to width, y downwards from 0 to height, one scale for both."""
    axes.set_axis_off()
    axes.set_xlim(-0.01 * width, 1.01 * width)
    axes.set_ylim(1.01 * height, -0.01 * height)
    axes.set_aspect("equal")
    if title:
        axes.set_title(title, fontsize=TEXT, color=INK, loc="left")


def box(axes: Axes, place: Box, color: str, text: str = "", *, pale: bool = False, size: float = TEXT) -> None:
    """A filled rectangle with text in its middle."""
    row, column, height, width = place
    face = PALE[color] if pale else color
    axes.add_patch(Rectangle((column, row), width, height, facecolor=face, edgecolor=INK, linewidth=0.6))
    if text:
        tone = INK if pale or color in (ORANGE, GRAY) else "white"
        middle = (column + width / 2, row + height / 2)
        axes.text(*middle, text, ha="center", va="center", fontsize=size, color=tone)


def fill(axes: Axes, places: Sequence[Box], color: str) -> None:
    """Rectangles without edges, as one path; the list may be empty."""
    if not places:
        return
    vertices = [
        point
        for row, column, height, width in places
        for point in (
            (column, row), (column + width, row), (column + width, row + height), (column, row + height), (column, row)
        )
    ]  # fmt: skip
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * len(places)
    axes.add_patch(PathPatch(Path(vertices, codes), facecolor=color, edgecolor="none"))


def lattice(axes: Axes, place: Box, rows: int, columns: int, color: str = GRID, width: float = 0.4) -> None:
    """Lines that divide a box into rows and columns, with its edges, as one path."""
    row, column, high, wide = place
    levels, sides = ([start + length * i / parts for i in range(parts + 1)] for start, length, parts in (
        (row, high, rows), (column, wide, columns)
    ))  # fmt: skip
    across = [point for level in levels for point in ((column, level), (column + wide, level))]
    down = [point for side in sides for point in ((side, row), (side, row + high))]
    codes = [Path.MOVETO, Path.LINETO] * ((len(across) + len(down)) // 2)
    axes.add_patch(PathPatch(Path(across + down, codes), facecolor="none", edgecolor=color, linewidth=width))


def note(axes: Axes, row: float, column: float, text: str, *, size: float = TEXT, side: str = "left") -> None:
    """Text that begins at a place, ends there with side="right", or is centered there and hides what is below."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if side == "center" else None
    axes.text(column, row, text, ha=side, va="center", fontsize=size, color=INK, bbox=ground)


def arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float], color: str = INK, bend: float = 0) -> None:
    """From one (row, column) to another."""
    style = f"arc3,rad={bend}"
    points = [(column, row) for row, column in (begin, end)]
    axes.add_patch(
        FancyArrowPatch(*points, arrowstyle="-|>", mutation_scale=9, color=color, linewidth=1.2, connectionstyle=style)
    )


def lanes_on_matrix(axes: Axes, request: Request, shape: tuple[int, int], row_bytes: int, title: str) -> None:
    """The upper left (rows, columns) of a matrix in GMEM: sectors that a warp touches, and which lane reads what.

    Bytes of a touched sector that nobody asked for are pale.
    """
    rows, columns = shape
    element = row_bytes // columns
    blank(axes, columns, rows)
    sectors = sorted({offset // SECTOR_BYTES for offset in request.offsets.tolist()})
    by_place: dict[int, list[int]] = {}
    for lane, offset in zip(request.lanes, request.offsets.tolist(), strict=True):
        by_place.setdefault(offset, []).append(lane)
    for turn, color in enumerate((BLUE, ORANGE)):
        here = sectors[turn::2]
        touched = [divmod(sector * SECTOR_BYTES, row_bytes) for sector in here]
        wanted = [divmod(offset, row_bytes) for offset in by_place if offset // SECTOR_BYTES in here]
        fill(axes, [(row, at / element, 1, SECTOR_BYTES / element) for row, at in touched], PALE[color])
        fill(axes, [(row, at / element, 1, request.width / element) for row, at in wanted], color)
        for row, at in wanted:
            lanes = by_place[row * row_bytes + at]
            middle = ((at + request.width / 2) / element, row + 0.53)
            tone, text = ("white" if color == BLUE else INK), (str(lanes[0]) if len(lanes) == 1 else "all")
            axes.text(*middle, text, ha="center", va="center", fontsize=4.3, color=tone)
    lattice(axes, (0, 0, rows, columns), rows, columns)
    count = f"{len(sectors)} sector{'s' if len(sectors) > 1 else ''}"
    axes.set_title(
        f"{title}\n{count}, {len(by_place)} x {request.width} bytes used", fontsize=TEXT, color=INK, loc="left"
    )


def rows_on_banks(axes: Axes, offsets: Iterable[int], width: int, title: str, row_of: Callable[[int], str]) -> None:
    """Accesses that are served together, `width` bytes at each SMEM offset, on the 32 banks; conflicts are red.

    row_of: what stands before each offset's row.
    """
    found = list(offsets)
    groups: dict[str, list[int]] = {}
    for offset in found:
        groups.setdefault(row_of(offset), []).append(offset)
    each = max(1, width // BANK_BYTES)
    words = {offset // BANK_BYTES + i for offset in found for i in range(each)}
    asked = np.bincount([word % BANKS for word in sorted(words)], minlength=BANKS)
    blank(axes, BANKS, len(groups) + 1)
    alone: list[Box] = []
    shared: list[Box] = []
    for row, (name, members) in enumerate(groups.items()):
        note(axes, row + 0.5, -0.4, name, size=SMALL, side="right")
        for bank in {(offset // BANK_BYTES + i) % BANKS for offset in members for i in range(each)}:
            (shared if asked[bank] > 1 else alone).append((row, bank, 1, 1))
    for places, color in ((alone, BLUE), (shared, RED)):
        fill(axes, sorted(places), color)
    lattice(axes, (0, 0, len(groups), BANKS), len(groups), BANKS)
    note(axes, len(groups) + 0.5, -0.4, "bank", size=SMALL, side="right")
    for bank in range(0, BANKS, 4):
        axes.text(bank, len(groups) + 0.5, str(bank), fontsize=SMALL, color=INK, va="center")
    most = int(asked.max())
    served = (
        f"{most} wavefronts, as a bank serves one word at a time" if most > 1 else "1 wavefront: no bank is used twice"
    )
    axes.set_title(f"{title}\n{served}", fontsize=TEXT, color=INK, loc="left")


class Product:
    """A, B and out of one product, drawn so that a row of A and a column of B meet in their element of out.

    m, n, k: the extents that are drawn, in elements; `gap` parts the matrices.
    """

    def __init__(self, axes: Axes, m: float, n: float, k: float, title: str = "") -> None:
        self.axes, self.k = axes, k
        self.gap = gap = 0.07 * max(m, n, k)
        blank(axes, k + gap + n, k + gap + m, title)
        axes.set_ylim(axes.get_ylim()[0], -gap)
        wholes = {"A": self._a((0, 0, m, k)), "B": self._b((0, 0, k, n)), "out": self._out((0, 0, m, n))}
        for name, place in wholes.items():
            box(axes, place, GRAY, pale=True)
            note(axes, place[0] - 0.35 * gap, place[1], name)

    def _a(self, place: Box) -> Box:
        row, column, height, width = place
        return row + self.k + self.gap, column, height, width

    def _b(self, place: Box) -> Box:
        row, column, height, width = place
        return row, column + self.k + self.gap, height, width

    def _out(self, place: Box) -> Box:
        row, column, height, width = place
        return row + self.k + self.gap, column + self.k + self.gap, height, width

    def a(self, place: Box, color: str, text: str = "", *, pale: bool = False, size: float = TEXT) -> None:
        """A part of A."""
        box(self.axes, self._a(place), color, text, pale=pale, size=size)

    def b(self, place: Box, color: str, text: str = "", *, pale: bool = False, size: float = TEXT) -> None:
        """A part of B."""
        box(self.axes, self._b(place), color, text, pale=pale, size=size)

    def out(self, place: Box, color: str, text: str = "", *, pale: bool = False, size: float = TEXT) -> None:
        """A part of out."""
        box(self.axes, self._out(place), color, text, pale=pale, size=size)

    def parts(self, place: Box, rows: int, columns: int) -> None:
        """Lines that divide a part of out."""
        lattice(self.axes, self._out(place), rows, columns, INK)


def lanes_of_elements(axes: Axes, holders: Sequence[Sequence[int]], title: str) -> None:
    """A matrix with the lane that holds each element, neighbors of one lane together; lanes 0 to 3 stand out."""
    rows, columns = len(holders), len(holders[0])
    blank(axes, columns, rows)
    places: dict[str, list[Box]] = {}
    for row, lanes in enumerate(holders):
        column = 0
        for lane, same in groupby(lanes):
            width = len(list(same))
            shade = (BLUE, ORANGE, GREEN, PURPLE)[lane % 4]
            places.setdefault(shade if lane < 4 else PALE[shade], []).append((row, column, 1, width))
            axes.text(column + width / 2, row + 0.53, str(lane), ha="center", va="center", fontsize=5.5, color=INK)
            column += width
    for color, boxes in places.items():
        fill(axes, boxes, color)
    lattice(axes, (0, 0, rows, columns), rows, 1)
    axes.set_title(title, fontsize=TEXT, color=INK, loc="left")


def order(axes: Axes, places: Sequence[tuple[int, int]], shape: tuple[int, int], wave: int, title: str) -> None:
    """A grid of tiles and the way through it; a wave of tiles has one shade, the first the darkest."""
    rows, columns = shape
    blank(axes, columns, rows, title)
    shades = (FIRST, PALE[BLUE], PALE[ORANGE], PALE[GREEN], PALE[PURPLE])
    for number, shade in enumerate(shades):
        last = None if number == len(shades) - 1 else (number + 1) * wave
        together = sorted(places[number * wave : last])
        runs = groupby(enumerate(together), lambda item: (item[1][0], item[1][1] - item[0]))  # of neighbors in a row
        rows_of_wave = [[place for _, place in members] for _, members in runs]
        fill(axes, [(*run[0], 1, len(run)) for run in rows_of_wave], shade)
    lattice(axes, (0, 0, rows, columns), rows, columns)
    way = [(column + 0.5, row + 0.5) for row, column in places]
    axes.add_collection(LineCollection([way], colors=INK, linewidths=0.7))
    axes.plot(*way[0], "o", color=INK, markersize=3)
