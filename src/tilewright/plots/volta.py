"""The picture of Volta's tensor cores: who makes which part of a 16x16x16 product, and in which step."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.volta.tensor_core import Step
from tilewright.plots.panels import blank, box, lattice, note
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, SMALL, figure, styled

_QUAD_PAIRS = (BLUE, ORANGE, GREEN, PURPLE)
_SIDE, _GAP = 16, 2


@styled()
def sets_and_steps(found: Sequence[Step], threadgroup: int) -> Figure:
    """C by threadgroups, and the first set of one of them, step by step."""
    mine = [step for step in found if step.threadgroup == threadgroup and step.set == 0]
    picture, panels = figure(9.6, 2.6, ncols=1 + len(mine), width_ratios=(1.15, *[1.0] * len(mine)))
    whole, *others = panels
    blank(whole, _SIDE, _SIDE, "C by threadgroups")
    for number in range(8):
        own = [step for step in found if step.threadgroup == number]
        row, column = min(step.rows.start for step in own), min(step.columns.start for step in own)
        height = max(step.rows.stop for step in own) - row
        width = max(step.columns.stop for step in own) - column
        text = f"{number}: lanes {4 * number} to {4 * number + 3}"
        box(whole, (row, column, height, width), _QUAD_PAIRS[number % 4], text, pale=True, size=SMALL - 1)
    lattice(whole, (0, 0, _SIDE, _SIDE), _SIDE, _SIDE)
    note(whole, _SIDE + 0.8, 0, "of one color: a quad pair", size=SMALL)
    for axes, step in zip(others, mine, strict=True):
        _step(axes, step)
    return picture


def _step(axes: Axes, step: Step) -> None:
    """A left of C and B above it, with what the step reads and adds to."""
    size = _SIDE + _GAP + _SIDE
    blank(axes, size, size, f"set {step.set}, step {step.step}: {step.clocks} clocks")
    low = _SIDE + _GAP
    for name, row, column in (("A", low, 0), ("B", 0, low), ("C", low, low)):
        box(axes, (row, column, _SIDE, _SIDE), GRAY, pale=True)
        note(axes, row + _SIDE - 2, column + _SIDE - 1, name, size=SMALL, side="right")
    rows, columns, depth = (len(span) for span in (step.rows, step.columns, step.k))
    box(axes, (low + step.rows.start, step.k.start, rows, depth), BLUE)
    box(axes, (step.k.start, low + step.columns.start, depth, columns), ORANGE)
    box(axes, (low + step.rows.start, low + step.columns.start, rows, columns), RED)
    for row, column in ((low, 0), (0, low), (low, low)):
        lattice(axes, (row, column, _SIDE, _SIDE), 4, 4, INK, 0.3)
