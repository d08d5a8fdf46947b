"""Pictures of fragments: the lanes that hold a matrix, register by register."""

from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.fragments.fragment import Fragment
from tilewright.model.fragments.instructions import Fragments
from tilewright.plots.panels import Box, blank, fill, lattice, note, patches, text_on
from tilewright.plots.style import INK, PALE, SERIES, SMALL, figure, styled
from tilewright.rounding import ceil_div

MOST_BESIDE = 44
"""Columns of all matrices that are drawn beside each other."""
NUMBERED, ADDRESSED = 1.2, 6.0
"""Columns that the text left of a matrix takes: the numbers of rows, and the lanes with their addresses."""
TINY = 5.5
"""The size of numbers in points."""
MATRIX_ROWS = 8
"""Of each matrix that ldmatrix and stmatrix move."""
MOST_ROWS, MOST_COLUMNS = 32, 32
"""What a picture shows of a matrix; the rest goes on alike."""

Label: TypeAlias = tuple[Box, tuple[int, ...], str]
"""Where lanes are written, the lanes, and the color of their numbers if one of them stands out."""


@styled()
def held_by_lanes(found: Fragments, lane: int | None) -> Figure:
    """Each matrix of an instruction with the lanes that hold its elements, a color a register.

    lane: the one that stands out, if any.
    """
    parts = [(each, rows) for each in found.fragments for rows in _row_spans(each, found.addressed)]
    margin = ADDRESSED if found.addressed else NUMBERED
    widths = [max(min(each.columns, MOST_COLUMNS), 8) + margin for each, _ in parts]
    heights = [len(rows) + 3 for _, rows in parts]
    scale = 0.26
    if sum(widths) > MOST_BESIDE and not found.addressed:  # below each other, so that numbers can be read
        size = scale * max(widths) + 0.6, scale * sum(heights) + 1.1
        picture, panels = figure(*size, nrows=len(parts), height_ratios=heights)
    else:
        count = min(len(parts), 2) if found.addressed else len(parts)
        lines = ceil_div(len(parts), count)
        size = scale * sum(widths[:count]) + 0.5 * count + 0.4, scale * lines * max(heights) + 1.0
        picture, panels = figure(*size, nrows=lines, ncols=count, width_ratios=widths[:count])
    for axes, (fragment, rows) in zip(panels, parts, strict=True):
        _matrix(axes, fragment, rows, lane)
        for row in rows:
            text = f"{row}: lane {row}'s address" if found.addressed else str(row)
            note(axes, row - rows.start + 0.5, -0.2, text, size=TINY, side="right")
        shown = min(fragment.columns, MOST_COLUMNS)
        for column in range(shown):
            axes.text(column + 0.5, -0.2, str(column), ha="center", va="bottom", fontsize=TINY, color=INK)
        axes.set_xlim(-margin, shown + 0.1)
        axes.set_ylim(axes.get_ylim()[0], -1.0)
    picture.legend(handles=patches(_registers(found)), loc="outside lower left", ncols=4, fontsize=SMALL)
    inside = "inside: lanes" + (f", strong: lane {lane}" if lane is not None else "")
    text = f"{found.name}\n{inside}; outside: rows and columns; color: register"
    picture.suptitle(text, x=0.01, ha="left", fontsize=SMALL + 2, color=INK)
    return picture


def _registers(found: Fragments) -> dict[str, str]:
    """The registers that each color stands for."""
    count = max(each.registers for each in found.fragments)
    names: dict[str, list[str]] = {}
    for register in range(count):
        names.setdefault(PALE[SERIES[register % len(SERIES)]], []).append(str(register))
    several = {color: each if len(each) < 4 else [*each[:2], "...", each[-1]] for color, each in names.items()}
    return {color: f"register{'s' * (len(each) > 1)} {', '.join(each)}" for color, each in several.items()}


def _row_spans(fragment: Fragment, addressed: bool) -> list[range]:
    """The rows of each panel: of one matrix of ldmatrix or stmatrix, or those that a picture shows of another one."""
    if addressed:
        return [range(start, start + MATRIX_ROWS) for start in range(0, fragment.rows, MATRIX_ROWS)]
    return [range(min(fragment.rows, MOST_ROWS))]


def _matrix(axes: Axes, fragment: Fragment, shown_rows: range, lane: int | None) -> None:
    rows, columns = len(shown_rows), min(fragment.columns, MOST_COLUMNS)
    part = f", rows {shown_rows.start} to {shown_rows[-1]}" if rows == MATRIX_ROWS < fragment.rows else ""
    blank(axes, columns, rows, f"{fragment.matrix}: {fragment.rows} x {fragment.columns}{part}")
    filled: dict[str, list[Box]] = {}
    labels: dict[tuple[float, float], Label] = {}
    for place, (register, lanes) in registers_in_place(fragment).items():
        row, column, high, wide = place[0] - shown_rows.start, *place[1:]
        if not 0 <= row < rows or column >= columns:
            continue
        color = SERIES[register % len(SERIES)]
        shown = (row, column, min(high, rows - row), min(wide, columns - column))
        filled.setdefault(color if lane in lanes else PALE[color], []).append(shown)
        labels[row, column] = shown, lanes, text_on(color)
    for color, places in filled.items():
        fill(axes, places, color)
    for box, lanes, strong in _merged(labels):
        row, column, high, wide = box
        text = ",".join(map(str, lanes)) if wide > 1 else "\n".join(map(str, lanes))
        tone = strong if lane in lanes else INK
        axes.text(column + wide / 2, row + high / 2 + 0.03, text, ha="center", va="center", fontsize=TINY, color=tone)
    if all(box[2] == 1 for box, *_ in labels.values()):
        lattice(axes, (0, 0, rows, columns), rows, 1)
    lattice(axes, (0, 0, rows, columns), 1, 1, INK, 0.7)
    if rows == MOST_ROWS < fragment.rows or columns < fragment.columns:
        note(axes, rows + 0.9, 0, f"the first {rows} rows and {columns} columns", size=SMALL)
        axes.set_ylim(rows + 1.6, -0.1)


def _merged(labels: dict[tuple[float, float], Label]) -> list[Label]:
    """Boxes of the same lanes that are neighbors in a row as one, so that each number is written once."""
    merged: list[Label] = []
    for _, (box, lanes, strong) in sorted(labels.items()):
        if merged:
            (row, column, high, wide), before, tone = merged[-1]
            if before == lanes and (row, high) == (box[0], box[2]) and column + wide == box[1]:
                merged[-1] = (row, column, high, wide + box[3]), lanes, tone
                continue
        merged.append((box, lanes, strong))
    return merged


def registers_in_place(fragment: Fragment) -> dict[Box, tuple[int, tuple[int, ...]]]:
    """Where each register lies in the matrix: its number, and the lanes that hold these elements in it."""
    found: dict[Box, tuple[int, tuple[int, ...]]] = {}
    for lane in range(fragment.lanes):
        for register, places in enumerate(fragment.held(lane)):
            (row, column), (last_row, last_column) = places[0], places[-1]
            box = (row, column, last_row - row + 1, last_column - column + 1)
            found[box] = (register, (*found.get(box, (register, ()))[1], lane))
    return found
