"""The picture of the speed of light: it moves with the clock, and power decides the clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tilewright.model.chips import Chip, Rate
from tilewright.model.power import Settled
from tilewright.plots.panels import behind
from tilewright.plots.style import BLUE, GREEN, INK, RED, SMALL, figure, styled


@styled()
def by_clock(chip: Chip, rate: Rate, measured: Sequence[Settled], allowed: float | None) -> Figure:
    """TFLOP/s against the clock: the speed of light, what was measured, and what a power limit allows."""
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
            side, shift = ("right", -7) if each.mhz > low + 0.7 * (top - low) else ("left", 7)
            text = f"{each.m} x {each.n} x {each.k}, {each.watts:.0f} W"
            place: dict[str, Any] = {
                "xytext": (shift, 5 if each is measured[-1] else -3),
                "textcoords": "offset points",
                "ha": side,
            }
            axes.annotate(text, (each.mhz, each.tflops), fontsize=SMALL, color=INK, **place)
    if allowed is not None:
        axes.axhline(allowed / 1e12, color=RED, lw=1.2, label="what the power limit allows, by measured joules")
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
