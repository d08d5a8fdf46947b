"""The picture of the speed of light: it moves with the clock, and power decides the clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tilewright.hardware import H200
from tilewright.model.chips import Chip, Rate
from tilewright.model.power import BY_DATA, LIMITS, MEASURED, Settled, allowed
from tilewright.plots.panels import behind
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, ORANGE, SERIES, SMALL, figure, styled


@styled()
def by_clock(chip: Chip, rate: Rate, measured: Sequence[Settled]) -> Figure:
    """TFLOP/s against the clock: the speed of light, and what was measured."""
    picture, (axes,) = figure(7.2, 4.0)
    boost, top = rate.clock / 1e6, chip.gpu.cuda_core_clock / 1e6
    low = top / 2
    axes.plot(
        [low, boost], [chip.flops(rate, mhz * 1e6) / 1e12 for mhz in (low, boost)],
        color=BLUE, lw=1.6, label=f"speed of light, {rate.operands}",
    )  # fmt: skip
    if top > boost:
        axes.plot(
            [boost, top], [chip.flops(rate, mhz * 1e6) / 1e12 for mhz in (boost, top)],
            color=BLUE, lw=1.6, ls="--", label="the same above the data sheet's clock",
        )  # fmt: skip
    peak = chip.flops(rate) / 1e12
    axes.plot(boost, peak, "o", color=BLUE)
    axes.annotate(
        f"{peak:.4g} at {boost:.0f} MHz", (boost, peak), (-6, 4), textcoords="offset points", ha="right", color=INK
    )
    if measured:
        axes.plot(
            [each.mhz for each in measured], [each.tflops for each in measured], "D", color=GREEN, markersize=4.5,
            label="measured, settled, clock as NVML reads it",
        )  # fmt: skip
    for each in measured:
        if each.tflops < 640 or each is measured[-1]:
            leftwards = each is measured[-1] or each.mhz > low + 0.7 * (top - low)
            side, shift = ("right", -7) if leftwards else ("left", 7)
            text = f"{each.m} x {each.n} x {each.k}, {each.watts:.0f} W"
            place: dict[str, Any] = {
                "xytext": (shift, -24 if each is measured[-1] else -3),
                "textcoords": "offset points",
                "ha": side,
            }
            axes.annotate(text, (each.mhz, each.tflops), fontsize=SMALL, color=INK, **place)
    of_data = [point for point in BY_DATA.values() if measured]
    axes.plot(
        [point.mhz for point in of_data], [point.tflops for point in of_data], "o", color=ORANGE, markersize=4.5,
        label="8192 x 8192 x 8192 by its data" if measured else None,
    )  # fmt: skip
    for point in of_data[:1] + of_data[2:5]:
        text = f"{point.data}, {point.watts:.0f} W"
        place = {"xytext": (7, -8), "textcoords": "offset points"}
        axes.annotate(text, (point.mhz, point.tflops), fontsize=SMALL, color=INK, **place)
    axes.set_xlim(low, top * 1.03)
    axes.set_ylim(0, peak * max(1.12, 1.05 * top / boost))
    axes.set_xlabel("MHz of the SMs")
    axes.set_ylabel("TFLOP/s")
    axes.grid(lw=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", fontsize=SMALL)
    axes.set_title(f"{chip.name}, {rate.operands}", loc="left")
    return picture


@styled()
def by_limit(watts: float) -> Figure:
    """TFLOP/s of an H200 against watts: what was measured by products and by data, and what follows at a limit."""
    picture, (axes,) = figure(7.2, 4.2)
    limits = list(range(LIMITS[0], LIMITS[1] + 1, 5))
    for color, (data, point) in zip(SERIES, BY_DATA.items(), strict=False):
        follows = [allowed(H200, limit, data).flops / 1e12 for limit in limits]
        axes.plot(limits, follows, color=color, lw=1.2, label=f"{data}, {point.joules_per_tflop:.2f} J/TFLOP")
        axes.plot(point.watts, point.tflops, "o", color=color, markersize=5)
    axes.plot(
        [each.watts for each in MEASURED], [each.tflops for each in MEASURED], "D", color=INK, markersize=3.5, ls="",
        label="products of 512 x 512 x 512 and larger, randn",
    )  # fmt: skip
    axes.axvline(watts, color=GRAY, lw=0.9, ls="--")
    axes.set_xlim(LIMITS[0], LIMITS[1] * 1.01)
    axes.set_ylim(0)
    axes.set_xlabel("watts: marks as measured at 700 W, lines the limit")
    axes.set_ylabel("TFLOP/s")
    axes.grid(lw=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    picture.legend(loc="outside lower left", fontsize=SMALL, ncols=3)
    axes.set_title("H200, bf16, by the measured joules of an operation", loc="left")
    return picture


@styled()
def by_data(cases: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """TFLOP/s of a product by what its operands hold, with the watts and the clock of each."""
    picture, (axes,) = figure(7.2, 0.9 + 0.36 * len(cases))
    places = range(len(cases))
    axes.barh(places, [case["tflops"] for case in cases], color=BLUE)
    for place, case in zip(places, cases, strict=True):
        read = "" if None in (case["watts"], case["mhz"]) else f", {case['watts']:.0f} W, {case['mhz']:.0f} MHz"
        behind(axes, case["tflops"], place, f"{case['tflops']:.0f}{read}")
    axes.set_yticks(places, [case["data"] for case in cases])
    axes.invert_yaxis()
    axes.set_xlim(0, max(case["tflops"] for case in cases) * 1.3)
    axes.set_xlabel("TFLOP/s")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return picture
