"""The record of `tilewright ladder` as a bar chart: TFLOP/s of GPUs, traffic with L2 in the emulator."""

from pathlib import Path
from typing import Any

from tilewright.cli.ladder.table import Rungs, published, timed_or_counted, title
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, RED, figure, save, styled

_COLORS = {"CUDA cores": GRAY, "warp tensor cores": BLUE, "Hopper": GREEN}
_SETTLED_ALPHA = 0.45


@styled()
def draw(record: dict[str, Any], path: Path) -> bool:
    """Draw a record of `tilewright ladder`; returns whether a rung ran, without which there is nothing to draw."""
    rungs = timed_or_counted(record["rungs"])
    if not rungs:
        return False
    settled = any("settled" in rung.get("measured", {}) for rung in rungs)
    height = 0.52 if settled else 0.32
    picture, (axes,) = figure(9, 1.7 + height * len(rungs))
    for road in dict.fromkeys(rung["road"] for rung in rungs):
        axes.barh(0, 0, color=_color(road), label=road)  # for the legend, at a fixed place
    if record["backend"] == "gpu":
        _measured(axes, rungs, settled)
    else:
        _counted(axes, rungs)
    axes.set_yticks(range(len(rungs)), [rung["name"] for rung in rungs])
    axes.set_ylim(len(rungs) - 0.4, -0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title(record), loc="left")
    picture.legend(loc="outside lower center", ncols=3, fontsize=9)
    save(picture, path)
    return True


def _measured(axes: Any, rungs: Rungs, settled: bool) -> None:
    """Draw bars of TFLOP/s, paler ones for the settled state below them, and marks for cuBLAS and published figures."""
    thickness = 0.4 if settled else 0.8
    lines = {"burst": -0.2 if settled else 0.0, "settled": 0.2}
    for number, rung in enumerate(rungs):
        for protocol, found in rung["measured"].items():
            place, rate, color = number + lines[protocol], found["tflops"], _color(rung["road"])
            axes.barh(place, rate, thickness, color=color, alpha=1 if protocol == "burst" else _SETTLED_ALPHA)
            _label(axes, f"{rate:#.3g}".rstrip("."), place)
        if note := rung.get("note"):
            axes.annotate(f"  {note}", (rung["tflops"], number + lines["burst"]), va="center", fontsize=6.5)
    if settled:
        axes.barh(0, 0, color=INK, alpha=_SETTLED_ALPHA, label="paler: settled, at the power limit")
    cublas = [
        (found["tflops"] / found["ratio"]["median"], number + lines[protocol])
        for number, rung in enumerate(rungs)
        for protocol, found in rung["measured"].items()
        if "ratio" in found
    ]
    marked = [
        (end, number)
        for number, rung in enumerate(rungs)
        if (known := published(rung))
        for end in (known.tflops, known.upto)
        if end is not None
    ]
    for marks, label, color in ((cublas, "cuBLAS, same data", RED), (marked, "published, of other GPUs", INK)):
        if marks:
            axes.plot(*zip(*marks, strict=True), "|", color=color, markersize=11, markeredgewidth=1.6, label=label)
    axes.set_xlabel("TFLOP/s" if settled else "TFLOP/s, right after idle")


def _counted(axes: Any, rungs: Rungs) -> None:
    values = [rung["rereads"] for rung in rungs]
    axes.barh(range(len(rungs)), values, color=[_color(rung["road"]) for rung in rungs])
    axes.set_xscale("log")
    axes.set_xlim(left=min(1.0, *values) / 1.2)
    for place, value in enumerate(values):
        _label(axes, f"{value:.1f}", place)
    axes.set_xlabel("times that A, B and out cross between the SMs and L2")


def _color(road: str) -> str:
    return _COLORS.get(road, GRAY)


def _label(axes: Any, text: str, place: float) -> None:
    """Write a number in the column behind the bars, clear of all marks."""
    axes.annotate(text, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
