"""Pieces of pictures: boxes, lattices, notes and arrows, drawn into one of matplotlib's Axes."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Patch, PathPatch, Rectangle
from matplotlib.path import Path

from tilewright.plots.style import GRAY, GRID, GROUND, INK, ON_BRIGHT, ON_COLOR, ORANGE, PALE, SMALL, TEXT

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
        tone = INK if pale else text_on(color)
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
    ground = {"facecolor": GROUND, "edgecolor": "none", "pad": 1.5} if side == "center" else None
    axes.text(column, row, text, ha=side, va="center", fontsize=size, color=INK, bbox=ground)


def key(axes: Axes, meanings: Mapping[str, str]) -> None:
    """Below everything, what each color means: on a dark page, colors have no names that fit."""
    axes.legend(
        handles=patches(meanings), loc="upper left", bbox_to_anchor=(0, 0), ncols=len(meanings), fontsize=SMALL,
        handlelength=1.2, borderaxespad=0, borderpad=0.2,
    )  # fmt: skip


def behind(axes: Axes, end: float, row: float, text: str, size: float = SMALL) -> None:
    """Behind the end of a bar, apart from it: a browser drops spaces at the beginning of a text."""
    axes.annotate(text, (end, row), (4, 0), textcoords="offset points", va="center", fontsize=size, color=INK)


def patches(meanings: Mapping[str, str]) -> list[Patch]:
    """What a legend shows of colors and their meanings."""
    return [Patch(facecolor=color, edgecolor=INK, linewidth=0.5, label=text) for color, text in meanings.items()]


def arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float], color: str = INK, bend: float = 0) -> None:
    """From one (row, column) to another."""
    style = f"arc3,rad={bend}"
    points = [(column, row) for row, column in (begin, end)]
    axes.add_patch(
        FancyArrowPatch(*points, arrowstyle="-|>", mutation_scale=9, color=color, linewidth=1.2, connectionstyle=style)
    )


def text_on(color: str) -> str:
    """The color of text that can be read on one of the colors, or on a pale one."""
    if color in PALE.values():
        return INK
    return ON_BRIGHT if color in (ORANGE, GRAY) else ON_COLOR
