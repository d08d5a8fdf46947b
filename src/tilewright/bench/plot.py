"""A bar chart of a record: TFLOP/s with intervals, by shape and contender."""

from pathlib import Path
from typing import Any

from tilewright.errors import ArgumentValueError, UnavailableError

_LOGARITHMIC = 20
"""If the fastest is more than this many times the slowest, the scale is logarithmic."""

_LETTERS_PER_INCH, _SWATCH = 13, 7
"""Letters of the legend's text per inch, and the width of a swatch with its blanks in letters."""


def pyplot(path: Path) -> Any:
    """matplotlib's pyplot, ready to draw into a file whose suffix names the format (PNG, SVG, PDF).

    Raises RuntimeError, which names the extra, if matplotlib is not installed, and ValueError for an unknown suffix.
    """
    try:
        import matplotlib
    except ImportError:
        raise UnavailableError(
            "--plot needs matplotlib, which is not installed: pip install 'tilewright[plot]'"
        ) from None
    matplotlib.use("agg")
    matplotlib.rcParams["text.parse_math"] = False  # a name with dollars is a name
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, for search and screen readers
    from matplotlib import backend_bases, pyplot

    if path.suffix.removeprefix(".") not in backend_bases.FigureCanvasBase.filetypes:
        raise ArgumentValueError(f"--plot={path} has a suffix that matplotlib does not know: use .png, .svg or .pdf")
    return pyplot


def draw(record: dict[str, Any], path: Path) -> bool:
    """Draw a record of `tilewright bench`. Returns False, and draws nothing, if it holds no measurement."""
    plt = pyplot(path)
    products = record["products"]
    protocols = [name for name in record["protocols"] if _bars(products, name)]
    if not protocols:
        return False
    width = min(40.0, max(7.0, 2.5 + 1.2 * len(products)))
    figure, axes = plt.subplots(
        len(protocols), 1, figsize=(width, 1.4 + 3.2 * len(protocols)), sharex=True, squeeze=False, layout="constrained"
    )
    names = dict.fromkeys(name for protocol in protocols for name in _bars(products, protocol))
    colors = {name: f"C{number}" for number, name in enumerate(names)}
    for axis, protocol in zip(axes[:, 0], protocols, strict=True):
        _panel(axis, _bars(products, protocol), len(products), colors)
        axis.set_title(_titles().get(protocol, protocol), loc="left", fontsize=10)
    axes[-1, 0].set_xticks(range(len(products)), [_tick(product) for product in products], fontsize=8)
    drawn = {name: bar for axis in axes[:, 0] for bar, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = max(1, int(width * _LETTERS_PER_INCH / (max(map(len, drawn)) + _SWATCH)))
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    figure.suptitle(f"{record['gpu']}, {record['data']} data, {record['date'][:10]}", x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def _titles() -> dict[str, str]:
    return {"burst": "burst: right after idle", "settled": "settled: at the power limit"}


def _bars(products: list[dict[str, Any]], protocol: str) -> dict[str, list[tuple[int, dict[str, float]]]]:
    """By contender, the rates with intervals, each with the number of its product; the baseline comes first."""
    bars: dict[str, list[tuple[int, dict[str, float]]]] = {product["baseline"]: [] for product in products}
    for number, product in enumerate(products):
        for entry in product["contenders"]:
            if entry.get(protocol):
                bars.setdefault(entry["contender"], []).append((number, entry[protocol]["tflops_interval"]))
    return {name: rates for name, rates in bars.items() if rates}


def _panel(
    axis: Any, bars: dict[str, list[tuple[int, dict[str, float]]]], products: int, colors: dict[str, str]
) -> None:
    present = [[name for name in bars if number in dict(bars[name])] for number in range(products)]
    thickness = 0.84 / max(map(len, present))
    for name, rates in bars.items():
        places, medians, below, above = [], [], [], []
        for number, rate in rates:
            here = present[number]  # a product's bars stand together around its tick
            places.append(number + (here.index(name) - (len(here) - 1) / 2) * thickness)
            medians.append(rate["median"])
            below.append(rate["median"] - rate["low"])
            above.append(rate["high"] - rate["median"])
        whiskers = {"yerr": (below, above), "capsize": 2, "error_kw": {"lw": 0.9}}
        axis.bar(places, medians, 0.92 * thickness, label=name, color=colors[name], **whiskers)
    axis.set_ylabel("TFLOP/s")
    all_medians = [rate["median"] for rates in bars.values() for _, rate in rates]
    if max(all_medians) > _LOGARITHMIC * min(all_medians):
        axis.set_yscale("log")
        axis.set_ylabel("TFLOP/s, logarithmic")
        axis.set_ylim(bottom=min(all_medians) / 2)
        for formatted in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            formatted(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else "")
    axis.set_xlim(-0.6, products - 0.4)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _tick(product: dict[str, Any]) -> str:
    lines = [f"{product['m']} x {product['n']} x {product['k']}", f"{product['dtype']} {product['layout']}"]
    lines += [product["label"]] if product.get("label") else []
    return "\n".join([*lines, "interrupted"] if product["interrupted"] else lines)
