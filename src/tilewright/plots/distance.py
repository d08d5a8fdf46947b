"""Pictures of what is far: rows and banks of DRAM, and the clocks until a load's value is there."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.memory.dram import BANKS_PER_CHANNEL
from tilewright.model.memory.dsmem import Level
from tilewright.plots.panels import arrow, behind, blank, box, fill, lattice, note
from tilewright.plots.style import (
    BLUE,
    GRAY,
    GREEN,
    GRID,
    GROUND,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SMALL,
    figure,
    styled,
)


@styled()
def rows_and_strides(
    strides: Sequence[int],
    bounds: Mapping[int, Sequence[float]],
    measured: Mapping[int, Mapping[int, float]],
    title: str,
) -> Figure:
    """A bank with an open row, and the bandwidth for reading a sector at each stride.

    bounds: the most bytes per second at each stride, for each number of bytes that L2 may fetch; measured: by stride.
    """
    picture, (bank, rates) = figure(9, 3.6, ncols=2, width_ratios=(1, 1.3))
    _bank(bank)
    for (fetch, bound), color, marker in zip(bounds.items(), (BLUE, ORANGE, GREEN), "osD", strict=True):
        most = [rate / 1e12 for rate in bound]
        rates.plot(strides, most, color=color, lw=1.6, label=f"at most, if L2 fetches {fetch} bytes")
        if known := measured.get(fetch):
            found = [rate / 1e12 for rate in known.values()]
            rates.plot(list(known), found, marker, ls="", color=color, mec=INK, ms=5, label="  measured")
    rates.set_xscale("log", base=2)
    rates.set_xticks(strides, [f"{stride:,}" for stride in strides])
    rates.minorticks_off()
    rates.set_xlabel("bytes from one sector to the next")
    rates.set_ylabel("TB/s of sectors that are wanted")
    rates.set_title(title, loc="left")
    rates.spines[["top", "right"]].set_visible(False)
    rates.set_ylim(0)
    rates.grid(axis="y", color=GRID, lw=0.4)
    rates.legend(loc="upper right", fontsize=SMALL)
    return picture


def _bank(axes: Axes) -> None:
    blank(axes, 34, 22, f"one of {BANKS_PER_CHANNEL} banks of a channel")
    rows, columns = 8, 20
    fill(axes, [(1, 7, rows * 1.3, columns)], PALE[GRAY])
    fill(axes, [(1 + 3 * 1.3, 7, 1.3, columns)], BLUE)
    lattice(axes, (1, 7, rows * 1.3, columns), rows, columns)
    box(axes, (14, 7, 2, columns), BLUE, "row buffer: 1 KiB, 32 sectors", pale=True, size=SMALL)
    box(axes, (18.5, 14, 2, 6), GREEN, "a sector", pale=True, size=SMALL)
    arrow(axes, (1 + 4 * 1.3, 24), (14, 24))
    arrow(axes, (14, 10), (1 + 4 * 1.3, 10))
    arrow(axes, (16, 17), (18.5, 17))
    note(axes, 12.5, 24.6, "activate", size=SMALL)
    note(axes, 12.5, 9.3, "write back", size=SMALL, side="right")
    note(axes, 1 + 3.5 * 1.3, 6.6, "open row", size=SMALL, side="right")
    axes.set_aspect("auto")


@styled()
def clocks_to(found: Sequence[Level], measured: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """The clocks until the value of a load is there, level by level.

    measured: by level, the median, the least and the most of all SMs.
    """
    picture, (axes,) = figure(7, 0.9 + 0.38 * len(found))
    colors = {"SMEM": BLUE, "L1": BLUE, "DSMEM": GREEN, "L2": PURPLE}
    places = range(len(found))
    axes.barh(places, [level.clocks for level in found], color=[colors.get(level.name, RED) for level in found])
    for place, level in enumerate(found):
        case = measured.get(level.name)
        end = max(level.clocks, case["most"] if case else 0)
        behind(axes, end, place, f"{level.clocks}, {level.nanoseconds:.0f} ns")
        if case is not None:
            middle, label = case["median"], "measured: median, least and most of all SMs"
            reach = [[middle - case["least"]], [case["most"] - middle]]
            axes.errorbar(
                middle, place, xerr=reach, fmt="D", color=INK, mec=GROUND, ms=5.5, lw=1.6, capsize=4,
                label=label if case is next(iter(measured.values())) else None,
            )  # fmt: skip
    axes.set_yticks(places, [level.name for level in found])
    axes.invert_yaxis()
    axes.set_xlim(0, max(level.clocks for level in found) * 1.15)
    axes.set_xlabel("clocks from a load to its value")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if measured:
        axes.legend(loc="upper right", fontsize=SMALL)
    return picture
