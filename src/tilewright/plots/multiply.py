"""Pictures of wgmma: its clocks by columns, and what swapping its operands changes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tilewright.model.swap_ab import SwapAdvice
from tilewright.model.wgmma_time import WgmmaTime
from tilewright.plots.style import BLUE, GRAY, GREEN, GROUND, INK, ORANGE, PALE, RED, figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled()
def clocks_by_n(times: Sequence[WgmmaTime], measured: Mapping[int, float], title: str) -> Figure:
    """Clocks of multiplying and of reading by n, the slower of both, and measurements."""
    picture, (axes,) = figure(7.2, 3.4)
    ns = [time.n for time in times]
    full = next((time.n for time in times if time.bound == "tensor cores"), ns[-1])
    if full > ns[0]:
        axes.axvspan(0, full, color=PALE[ORANGE], lw=0, label="waits for operands")
    axes.plot(ns, [time.clocks for time in times], color=PALE[BLUE], lw=6, label="the instruction: the slower")
    axes.plot(ns, [time.multiply for time in times], color=BLUE, lw=1.4, label="multiplying")
    axes.plot(ns, [time.read for time in times], color=RED, lw=1.4, label="reading operands")
    if measured:
        axes.plot(list(measured), list(measured.values()), "o", color=INK, ms=5, label="measured")
    _finish(axes, "columns n", "clocks", ns[-1], title, legend_at=0.25)
    axes.set_xticks(range(0, ns[-1] + 1, 32))
    return picture


@styled()
def swapping(found: Sequence[SwapAdvice], name: str) -> Figure:
    """Clocks for a block of weights by rows of activations, as it is and swapped, and the clocks of HBM."""
    picture, (axes,) = figure(7.2, 3.4)
    rows = [each.m for each in found]
    axes.step(rows, [each.unswapped for each in found], where="mid", color=GRAY, lw=1.8, label="as it is: rows to 64")
    axes.step(rows, [each.swapped for each in found], where="mid", color=GREEN, lw=1.8, label="swapped: rows to 8")
    axes.axhline(found[0].hbm, color=RED, lw=1.4, ls="--", label="HBM brings the block")
    title = f"{name}: clocks of an SM for 64 rows by 32 bytes of weights"
    _finish(axes, "rows of activations", "clocks", rows[-1], title, legend_at=0)
    axes.set_xticks(range(0, rows[-1] + 1, 16))
    return picture


def _finish(axes: "Axes", across: str, up: str, most: int, title: str, legend_at: float) -> None:
    axes.set_xlim(0, most)
    axes.set_ylim(0)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="upper left", bbox_to_anchor=(legend_at, 1), frameon=True, facecolor=GROUND, edgecolor="none", framealpha=1
    )
