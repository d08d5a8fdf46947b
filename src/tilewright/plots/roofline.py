"""The picture of a roofline: a roof for each level of memory, and the kernel on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tilewright.model.roofline import Roof
from tilewright.plots.style import GRAY, INK, SMALL, figure, plain_log, styled
from tilewright.plots.tilings import COLORS


@styled()
def roofs(found: Sequence[Roof], predicted: Mapping[str, float], title: str) -> Figure:
    """TFLOP/s that each level allows by operations for each byte, where the kernel is, and what is predicted for it."""
    picture, (axes,) = figure(8.8, 4.2)
    peak = found[0].peak / 1e12
    places = [each for roof in found for each in (roof.intensity, roof.ridge)]
    left, right = min(places) / 3, max(places) * 3
    lowest = min(roof.bytes_per_second * left / 1e12 for roof in found)
    axes.plot([min(roof.ridge for roof in found), right], [peak, peak], color=INK, lw=1.4)
    axes.annotate(f"{peak:.4g} TFLOP/s", (right, peak), (-4, 4), textcoords="offset points", ha="right")
    for roof in found:
        color = COLORS[roof.level]
        slope = roof.bytes_per_second / 1e12
        axes.plot([left, roof.ridge], [left * slope, peak], color=color, lw=1.6)
        axes.plot([roof.intensity] * 2, [lowest, roof.allowed / 1e12], color=color, lw=0.8, ls=":")
        axes.plot(roof.intensity, roof.allowed / 1e12, "o", color=color, markersize=6, zorder=3)
        label = f"{roof.level}, {slope:.3g} TB/s\nridge {roof.ridge:.3g}, here {roof.intensity:.4g} FLOP/B"
        axes.plot([], [], color=color, marker="o", label=label)
    names: dict[float, list[str]] = {}
    for power, rate in predicted.items():
        names.setdefault(rate, []).append(power)
    for rate, powers in names.items():
        axes.axhline(rate, color=GRAY, lw=0.9, ls="--", zorder=1)
        text = f"predicted, {' and '.join(powers)}"
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "top", "fontsize": SMALL}
        axes.annotate(text, (right, rate), (-4, -2), **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    axes.set_xlim(left, right)
    axes.set_ylim(lowest, peak * 2)
    axes.set_xlabel("operations for each byte of the level")
    axes.set_ylabel("TFLOP/s")
    axes.grid(lw=0.4)
    picture.legend(loc="outside right upper", fontsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")
    return picture
