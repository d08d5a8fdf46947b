"""Panels of lanes, banks, tiles and orders. Each draws its arguments into one matplotlib Axes and computes nothing."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from pictures.record import Request
from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import BANK_BYTES, BANKS
from tilewright.plots.panels import Box, blank, box, fill, lattice, note, text_on
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, ORANGE, PALE, PURPLE, RED, SMALL, TEXT

FIRST = "#86b6d1"
"""Of the first wave of an order."""


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
            tone, text = text_on(color), (str(lanes[0]) if len(lanes) == 1 else "all")
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
