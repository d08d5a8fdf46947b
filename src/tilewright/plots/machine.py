"""Pictures of GPUs: the levels of memory of one, and what several multiply for each byte that they read."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from tilewright.model.chips import Chip
from tilewright.plots.style import BLUE, GRAY, GROUND, INK, SMALL, figure, plain_log, styled

_UNITS = ("B", "KiB", "MiB", "GiB")
_RIDGES = (37, 75, 150, 300)


@styled()
def memories(chip: Chip) -> Figure:
    """What each level of memory holds and delivers, in all SMs together."""
    picture, (axes,) = figure(7.2, 3.4)
    known = [level for level in chip.levels if level.name != "SMEM"]
    x, y = [level.bytes for level in known], [level.bytes_per_second / 1e12 for level in known]
    axes.plot(x, y, color=BLUE, marker="o", markersize=6, lw=1.2)
    for level, right, up in zip(known, x, y, strict=True):
        latency = f"{level.latency} clocks" if level.latency else ""
        text = ", ".join(filter(None, (level.name, f"{up:.3g} TB/s", latency)))
        if "SMEM" in level.name and chip.latencies and chip.latencies.dsmem:
            text += f"\nSMEM of another SM of the cluster, {chip.latencies.dsmem} clocks"
        axes.annotate(text, (right, up), (7, 5), textcoords="offset points", fontsize=SMALL, color=INK)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = [1 << power for power in range(24, 41, 4)]
    axes.set_xticks(ticks, [_size(tick) for tick in ticks])
    plain_log(axes.yaxis)
    axes.set_xlim(1 << 22, 1 << 41)
    axes.set_ylim(min(y) / 1.6, max(y) * 1.8)
    axes.set_xlabel("capacity")
    axes.set_ylabel("TB/s")
    axes.grid(lw=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"the levels of memory of {chip.name}, all SMs together", loc="left")
    return picture


@styled()
def ridges(chips: Sequence[Chip]) -> Figure:
    """Operations on 2-byte floats against bytes of GMEM, with lines of equal operations for each byte."""
    picture, (axes,) = figure(7.2, 4.2)
    places = {chip.name: (chip.gpu.memory_bandwidth / 1e12, chip.flops(chip.rate("fp16")) / 1e12) for chip in chips}
    low, high = 0.7, 12.0
    ground = {"facecolor": GROUND, "edgecolor": "none", "pad": 0.5}  # below text, which lines would strike through
    for ridge in _RIDGES:
        axes.plot([low, high], [low * ridge, high * ridge], color=GRAY, lw=0.8, ls="--", zorder=1)
        axes.text(0.92 * high, 0.92 * high * ridge, f"{ridge} FLOP/B", ha="right", va="center", fontsize=SMALL,
                  color=INK, bbox=ground)  # fmt: skip
    names: dict[tuple[float, float], list[str]] = {}
    for name, place in places.items():
        names.setdefault(place, []).append(name)
    for (x, y), here in names.items():
        axes.plot(x, y, "o", color=BLUE, markersize=6, zorder=4)  # above the ground of names
        axes.annotate(",\n".join(here), (x, y), (0, 6), textcoords="offset points", ha="center", color=INK, bbox=ground)
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("log")
    for axis in (axes.xaxis, axes.yaxis):
        plain_log(axis)
    axes.set_xlim(low, high)
    axes.set_ylim(60, high * _RIDGES[-1])
    axes.set_xticks([1, 2, 4, 8])
    axes.set_xlabel("GMEM, TB/s")
    axes.set_ylabel("tensor cores, 16 bits, TFLOP/s")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("how much there is to multiply for each byte", loc="left")
    return picture


def _size(count: int) -> str:
    power = min((count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count >> 10 * power} {_UNITS[power]}"
