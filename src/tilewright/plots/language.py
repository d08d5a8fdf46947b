"""The picture of a language model on a chip: its products under the roofline, and the time of each."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from tilewright.model.llm.time import Pass
from tilewright.plots.panels import behind, patches
from tilewright.plots.style import BLUE, GRAY, INK, ORANGE, SMALL, TEXT, figure, styled


@styled()
def intensities(found: Pass, predicted: Sequence[float], flops: float, bandwidth: float, title: str) -> Figure:
    """The time of each part of a pass by what bounds it, and the roofline with the products on it.

    predicted: seconds of each part in one layer. flops, bandwidth: of the chip, per second.
    """
    picture, (times, roof) = figure(9.2, 1.4 + 0.27 * len(found.work), ncols=2, width_ratios=(1.25, 1))
    rows = range(len(found.work))
    colors = {"compute": BLUE, "memory": ORANGE}
    for row, work in zip(rows, found.work, strict=True):
        share = work.seconds / found.seconds
        times.barh(row, work.seconds * 1e3, color=colors[work.light.bound], height=0.66)
        likely = predicted[row] * work.layers * 1e3
        times.plot([work.seconds * 1e3, likely], [row, row], color=INK, lw=0.8)
        (mark,) = times.plot(likely, row, "|", color=INK, ms=9, ls="", label="predicted")
        behind(times, likely, row, f"{share:.1%}")
    times.set_yticks(rows, [work.name for work in found.work])
    times.invert_yaxis()
    times.margins(x=0.14)
    times.set_xlabel("ms of all layers")
    bounds = {colors[bound]: f"at least, bound by {bound}" for bound in colors}
    times.legend(handles=[*patches(bounds), mark], loc="lower right", fontsize=SMALL)
    times.set_title(title, loc="left")
    ridge = flops / bandwidth
    points = [work.flops / work.nbytes for work in found.gemms]
    low, high = min([0.5, *points]) / 2, max([ridge, *points]) * 4
    roof.plot([low, ridge, high], [low * bandwidth / 1e12, flops / 1e12, flops / 1e12], color=INK, lw=1.4)
    for work, point in zip(found.gemms, points, strict=True):
        rate = min(flops, point * bandwidth) / 1e12
        roof.plot(point, rate, "o", color=colors[work.light.bound], ms=6, alpha=0.8)
    roof.axvline(ridge, color=GRAY, lw=0.8, ls="--")
    roof.annotate(
        f"ridge {ridge:.0f}", (ridge, low * bandwidth / 1e12), (-4, 0), textcoords="offset points", fontsize=TEXT,
        color=INK, ha="right",
    )  # fmt: skip
    roof.set_xscale("log")
    roof.set_yscale("log")
    roof.minorticks_off()
    roof.xaxis.set_major_formatter("{x:g}")
    roof.yaxis.set_major_formatter("{x:g}")
    roof.set_xlabel("FLOP per byte")
    roof.set_title("TFLOP/s at most", loc="left")
    for axes in (times, roof):
        axes.spines[["top", "right"]].set_visible(False)
    return picture
