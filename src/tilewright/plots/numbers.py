"""Pictures of numbers: the ranges of formats, and how errors of sums grow with their length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.precision.formats import Format
from tilewright.model.precision.sums import SumError
from tilewright.plots.panels import behind, patches
from tilewright.plots.style import BLUE, INK, PALE, SERIES, SMALL, TEXT, figure, styled


@styled()
def ranges(formats: Sequence[Format]) -> Figure:
    """From the least to the largest number of each format, in powers of two."""
    shown = [each for each in formats if each.exponent_bits <= 8]
    picture, (axes,) = figure(7.6, 0.9 + 0.27 * len(shown))
    for row, each in enumerate(shown):
        least, normal, most = map(log2, (each.least_subnormal, each.least_normal, each.most))
        axes.barh(row, normal - least, left=least, color=PALE[BLUE], height=0.6)
        axes.barh(row, most - normal, left=normal, color=BLUE, height=0.6)
        behind(axes, most, row, f"epsilon 2^{log2(each.epsilon):.0f}")
    axes.set_yticks(range(len(shown)), [each.name for each in shown], fontsize=TEXT)
    axes.invert_yaxis()
    axes.set_xlim(-152, 158)
    axes.set_xticks(range(-128, 129, 32), [f"2^{power}" for power in range(-128, 129, 32)])
    axes.axvline(0, color=INK, lw=0.6)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title("numbers that each format has", loc="left")
    meanings = patches({PALE[BLUE]: "subnormal numbers", BLUE: "normal ones"})
    axes.legend(handles=meanings, loc="lower right", fontsize=SMALL)
    return picture


@styled()
def growth(found: Mapping[str, Sequence[SumError]], numbers: str) -> Figure:
    """The total error by the length of the sum: a color for each type of inputs, a line for each type of sums.

    found: by "inputs in sums".
    """
    picture, (axes,) = figure(7.6, 4.2)
    inputs, sums = (list(dict.fromkeys(name.split(" in ", 1)[part] for name in found)) for part in (0, 1))
    styles = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
    for number, (name, errors) in enumerate(found.items()):
        of_inputs, of_sums = name.split(" in ", 1)
        color = SERIES[inputs.index(of_inputs) % len(SERIES)]
        line = styles[sums.index(of_sums) % len(styles)]
        width = 4.2 - 0.28 * number  # where lines coincide, all are seen
        axes.plot(
            [each.k for each in errors], [each.total for each in errors], color=color, ls=line, lw=width, label=name
        )
    _by_length(axes, [each.k for each in next(iter(found.values()))])
    axes.set_xlabel("products of a sum, k")
    axes.set_title(f"errors of dot products of {numbers}", loc="left")
    picture.legend(loc="outside right upper", title="inputs in sums", handlelength=4)
    return picture


@dataclass(frozen=True, slots=True)
class Growth:
    """Errors of sums of one kind of numbers.

    lengths: products of a sum. rows: by the name of a kind of sum, the errors at each length, by the way to add:
    "exact" or "hardware".
    """

    numbers: str
    lengths: Sequence[int]
    rows: Mapping[str, Mapping[str, Sequence[float]]]


@styled()
def sums_by_arithmetic(growths: Sequence[Growth]) -> Figure:
    """The error by the length of the sum, a panel for each kind of numbers: hardware as lines, exact as dots."""
    picture, panels = figure(7.6, 0.6 + 3.2 * len(growths), nrows=len(growths))
    for axes, growth_of in zip(panels, growths, strict=True):
        for color, (name, errors) in zip(SERIES, growth_of.rows.items(), strict=False):
            hardware, exact = ([error or nan for error in errors[way]] for way in ("hardware", "exact"))
            axes.plot(growth_of.lengths, hardware, color=color, lw=1.8, label=name)
            axes.plot(growth_of.lengths, exact, color=color, lw=0, marker="o", ms=3.5)
        _by_length(axes, growth_of.lengths)
        axes.set_title(f"errors of dot products of {growth_of.numbers}", loc="left")
    panels[-1].set_xlabel("products of a sum, k")
    handles, labels = panels[0].get_legend_handles_labels()
    title = "lines: as an H200 adds\ndots: rounded to nearest"
    picture.legend(handles, labels, loc="outside right upper", title=title, alignment="left")
    return picture


def _by_length(axes: Axes, lengths: Sequence[int]) -> None:
    """Logarithmic axes of errors by the lengths of sums."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{k:,}" for k in lengths])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("error, as a share of the result")
    axes.grid()
    axes.spines[["top", "right"]].set_visible(False)
