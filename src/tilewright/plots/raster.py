"""The filmstrip of schedules: the tiles of each wave, and the parts of A and B that it reads."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.schedules import Schedule
from tilewright.plots.panels import blank, fill, lattice, note, patches
from tilewright.plots.style import BLUE, GREEN, INK, ORANGE, PALE, SMALL, figure, styled

MOST_WAVES = 8
"""Frames of a strip; a schedule may have more waves."""
NARROWEST = 6.2
"""Inches that the legend takes."""
FINEST = 32
"""The most tiles along a side that get lines between them."""


@styled()
def filmstrip(found: Sequence[Schedule], extents: tuple[int, int], title: str) -> Figure:
    """A strip for each schedule and a frame for each wave, of a result of `extents` tiles."""
    waves = min(max(len(schedule.waves) for schedule in found), MOST_WAVES)
    picture, panels = figure(max(1.25 * waves + 1.2, NARROWEST), 1.45 * len(found) + 0.5, nrows=len(found), ncols=waves)
    for number, schedule in enumerate(found):
        strip = panels[number * waves : (number + 1) * waves]
        for wave, axes in enumerate(strip):
            if wave < len(schedule.waves):
                _frame(axes, schedule, wave, extents)
            else:
                axes.set_axis_off()
        rest = len(schedule.waves) - waves
        text = f"{schedule.name}: {sum(schedule.operands):,}" + (
            f" in all, of {rest} more waves too" if rest > 0 else ""
        )
        strip[0].set_title(text, loc="left", fontsize=SMALL + 1, color=INK)
    picture.suptitle(title, x=0.01, ha="left", fontsize=SMALL + 1, color=INK)
    meanings = {
        BLUE: "the tiles of a wave", PALE[BLUE]: "of earlier ones", GREEN: "rows of A", ORANGE: "columns of B",
    }  # fmt: skip
    picture.legend(
        handles=patches(meanings),
        title="below each frame: how many rows and columns it reads; behind the order's name: the sum of these",
        loc="outside lower left", ncols=len(meanings), fontsize=SMALL, title_fontsize=SMALL, alignment="left",
    )  # fmt: skip
    return picture


def _frame(axes: Axes, schedule: Schedule, wave: int, extents: tuple[int, int]) -> None:
    rows, columns = extents
    edge = max(extents) / 8  # the width of A on the left and the height of B above
    blank(axes, columns + 2 * edge, rows + 2 * edge)
    tiles = schedule.waves[wave]
    before = [tile for earlier in schedule.waves[:wave] for tile in earlier]
    fill(axes, [(m, n, 1, 1) for m, n in before], PALE[BLUE])
    fill(axes, [(m, n, 1, 1) for m, n in tiles], BLUE)
    fill(axes, [(m, -1.4 * edge, 1, edge) for m in {m for m, _ in tiles}], GREEN)
    fill(axes, [(-1.4 * edge, n, edge, 1) for n in {n for _, n in tiles}], ORANGE)
    if max(extents) <= FINEST:
        lattice(axes, (0, 0, rows, columns), rows, columns, width=0.3)
    lattice(axes, (0, 0, rows, columns), 1, 1, INK, 0.6)
    note(axes, rows + 0.7 * edge, columns / 2, str(schedule.operands[wave]), size=SMALL, side="center")
    axes.set_xlim(-1.6 * edge, columns + 0.2 * edge)
    axes.set_ylim(rows + 1.5 * edge, -1.6 * edge)
