"""The style of every picture: colors, light and dark, sizes, and the files that they are written to.

A picture is drawn once, in the colors below. An SVG file also says what they are on a dark page, so that it follows
its reader's choice; other files are light, or dark where that is asked for.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentValueError, UnavailableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

INK, GROUND, GRID = "#24292f", "#ffffff", "#d0d5d9"
"""Text and edges, what lies below everything, and lines that only guide the eye."""
BLUE, ORANGE, GREEN, RED, GRAY, PURPLE = "#3b7ea1", "#e69f00", "#4c9a2a", "#c8442e", "#9aa5ad", "#8e63a8"
BROWN, TEAL = "#8a5a3a", "#12908e"
"""Colors of things, which color-blind readers can tell apart."""
SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED, GRAY, BROWN, TEAL)
"""Their order where several things of one kind are drawn."""
PALE = {
    BLUE: "#d3e5ef", ORANGE: "#fbe7bd", GREEN: "#d9ecd0", RED: "#f6d5cf", GRAY: "#e9ecee", PURPLE: "#e7dbee",
    BROWN: "#e3d0c2", TEAL: "#c4eae6",
}  # fmt: skip
"""Of each color, the one for large areas, on which INK can be read."""
ON_COLOR, ON_BRIGHT = "#fefefe", "#1f2328"
"""Text on a color; on ORANGE and GRAY, which are bright, the second. They are the same on dark pages."""
FORMATS = (".png", ".svg", ".pdf")
"""Suffixes of files that are drawn."""
SMALL, TEXT = 7, 8.5
"""Sizes of text in points."""

_DARK = {
    INK: "#d1d7e0", GROUND: "#0d1117", GRID: "#3d444d",
    PALE[BLUE]: "#1d3a4c", PALE[ORANGE]: "#4d3a10", PALE[GREEN]: "#24401a", PALE[RED]: "#55271f",
    PALE[GRAY]: "#262c33", PALE[PURPLE]: "#3c2b48", PALE[BROWN]: "#40301f", PALE[TEAL]: "#0f3d3d",
}  # fmt: skip
"""What becomes of colors on a dark page; others stay."""

_PARAMETERS = {
    "svg.hashsalt": "tilewright",  # the same bytes each time
    "svg.fonttype": "none",  # text stays text, for search and screen readers
    "text.parse_math": False,  # a name with dollars is a name
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "savefig.dpi": 150,
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "legend.frameon": False,
    "grid.color": GRID,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}

_HASHED = re.compile(r'(?<=[#"])[mp][0-9a-f]{10}(?=[")])')
"""Names that matplotlib gives clip paths and markers in an SVG."""

_PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def require_matplotlib(path: Path) -> None:
    """Raise an error that names the remedy if matplotlib is missing, or if files of the suffix are not drawn."""
    if find_spec("matplotlib") is None:
        raise UnavailableError("--plot needs matplotlib, which is not installed: pip install matplotlib")
    if path.suffix not in FORMATS:
        raise ArgumentValueError(f"--plot={path} has a suffix that is not drawn: use .png, .svg or .pdf")


@contextmanager
def styled() -> Iterator[None]:
    """Figures are made and saved within this context, or in functions that have it as a decorator."""
    import matplotlib as mpl

    with mpl.rc_context(_PARAMETERS):
        yield


def figure(width: float, height: float, **grid: Any) -> "tuple[Figure, list[Axes]]":
    """A figure of this size in inches and its panels, row by row; grid: arguments of `Figure.subplots`."""
    found = _figure(width, height)
    return found, list(found.subplots(squeeze=False, **grid).flat)


def parted(width: float, height: float, *ratios: float, beside: bool = False) -> "tuple[Figure, list[SubFigure]]":
    """A figure and its parts, stacked or side by side; each gets its own panels."""
    grid: dict[str, Any] = (
        {"ncols": len(ratios), "width_ratios": ratios} if beside else {"nrows": len(ratios), "height_ratios": ratios}
    )
    found = _figure(width, height)
    return found, list(found.subfigures(squeeze=False, **grid).flat)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_log(axis: Any) -> None:
    """Label the ticks of a logarithmic axis with plain numbers."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def save(picture: "Figure", path: Path, *, dark: bool = False) -> None:
    """Write a figure into a file whose suffix names the format; dark: for a dark page, which an SVG always is, too."""
    if path.suffix == ".svg":
        path.write_text(svg(picture), encoding="utf-8")
        return
    if dark:
        _darken(picture)
    with styled():
        picture.savefig(path)


@styled()
def svg(picture: "Figure") -> str:
    """A figure as the text of an SVG for light and dark pages, the same bytes each time."""
    found = io.StringIO()
    picture.savefig(found, format="svg", metadata={"Date": None})
    # Names are hashes of places, whose last bits depend on the order of a set.
    names: dict[str, str] = {}
    text = _HASHED.sub(lambda name: names.setdefault(name[0], f"id{len(names)}"), found.getvalue())
    lines = [line.rstrip() for line in text.splitlines()]
    rules = (
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in _DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    end = next(number for number, line in enumerate(lines) if "</defs>" in line)
    return "\n".join([*lines[:end], f"  {style}", *lines[end:], ""])


def _darken(picture: "Figure") -> None:
    """Give everything drawn the colors of a dark page."""
    from matplotlib.colors import to_hex, to_rgba_array

    drawn: list[Any] = picture.findobj()
    grounds = [each.get_bbox_patch() for each in drawn if hasattr(each, "get_bbox_patch")]  # below text; not found
    for artist in (*drawn, *filter(None, grounds)):
        for name in _PROPERTIES:
            read, write = (getattr(artist, f"{verb}_{name}", None) for verb in ("get", "set"))
            if read is None or write is None:
                continue
            given = read()
            colors = to_rgba_array(given)
            new = [(*to_rgba_array(_DARK.get(to_hex(each), to_hex(each)))[0][:3], each[3]) for each in colors]
            if len(new):
                write(new[0] if len(new) == 1 else new)
