"""The chart of a record: at each product, how many times faster than the best peer each contender is.

Records of few rows, with a streaming read of the weights, have the one of rows_plot.py.
"""

from collections import defaultdict
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.bench.charts.marks import explain, head, legend_columns, marks
from tilewright.bench.charts.rows import rows_chart
from tilewright.bench.contenders import OURS, READ, is_ours, is_peer
from tilewright.bench.standing import BEST_PEER, best_peer, in_most, is_by_rows, ratio_to, standings, timed
from tilewright.measure.statistics import Interval
from tilewright.plots.style import GRAY, GRID, INK, figure, save, styled
from tilewright.rounding import three_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROWEST, _WIDEST = (0.95, 1.05), (0.7, 1.4)
"""The axis of ratios shows the first range at least and the second at most; beyond it a ratio is written."""

_SEVERAL = f"{OURS}, some Config"
"""The name in the legend of contenders that few products have, as after `--configs`."""


class Point(NamedTuple):
    """The ratio of a contender to the reference, at a product's row."""

    row: int
    ratio: Interval


def draw(record: dict[str, Any], path: Path) -> bool:
    """Draw a record of `tilewright bench`. Returns False, and draws nothing, if it holds no ratio."""
    picture = chart(record)
    if picture is not None:
        save(picture, path)
    return picture is not None


@styled()
def chart(record: dict[str, Any]) -> "Figure | None":
    """The figure that `draw` writes; None if the record holds no ratio."""
    if is_by_rows(record):
        return rows_chart(record)
    protocols = [name for name in record["protocols"] if any(_reference(each, name) for each in record["products"])]
    products = [each for each in record["products"] if any(_reference(each, name) for name in protocols)]
    if not products:
        return None
    series = {protocol: _series(products, protocol) for protocol in protocols}
    names = list(dict.fromkeys(name for each in series.values() for name in each))
    ours = [name for name in names if is_ours(name) or name == _SEVERAL]
    others = sorted(name for name in names if name not in ours)
    styles = marks(ours, others)
    width = 3.2 + 4.2 * len(protocols)
    legend = max(0, ceil(len(names) / legend_columns(names, width)) - 2)  # two rows always have room
    size = (width, 1.7 + max(0.27, 0.09 * len(ours)) * len(products) + 0.22 * legend)
    picture, axes = figure(*size, ncols=len(protocols), sharey=True)
    for axis, protocol in zip(axes, protocols, strict=True):
        _panel(axis, series[protocol], styles)
        _name_references(axis, products, protocol)
        axis.set_title(_title(record, protocol), loc="left", fontsize=9.5)
        axis.set_xlabel(f"times {_reference_name(products)}; right: that peer, TFLOP/s", fontsize=8.5)
    axes[0].set_yticks(range(len(products)), [_tick(product) for product in products], fontsize=8)
    axes[0].set_ylim(len(products) - 0.4, -0.6)
    explain(picture, [*ours, *others])
    head(picture, record)
    return picture


def _reference(product: dict[str, Any], protocol: str) -> str | None:
    """Who has the ratio 1: the best peer, or the baseline if ours are alone."""
    peer = best_peer(product, protocol)
    baseline: str | None = product["baseline"]
    return peer or (baseline if baseline in timed(product, protocol) else None)


def _reference_name(products: list[dict[str, Any]]) -> str:
    names = {entry["contender"] for product in products for entry in product["contenders"]}
    peers = sorted(filter(is_peer, names))
    return f"the {BEST_PEER}" if len(peers) > 1 else "".join(peers) or "the baseline"


def _series(products: list[dict[str, Any]], protocol: str) -> dict[str, list[Point]]:
    """By contender, ours first, its ratios to the reference of each product, which itself has none."""
    usual = in_most(products, protocol)
    found: dict[str, list[Point]] = defaultdict(list)
    for row, product in enumerate(products):
        reference = _reference(product, protocol)
        for name in timed(product, protocol):
            ratio = ratio_to(product, protocol, name, reference) if reference and name != reference else None
            if ratio is not None:
                found[name if name in usual or not is_ours(name) else _SEVERAL].append(Point(row, ratio))
    return dict(sorted(found.items(), key=lambda each: not (is_ours(each[0]) or each[0] == _SEVERAL)))


def _panel(axis: Any, series: dict[str, list[Point]], styles: dict[str, tuple[str, str]]) -> None:
    ours = [name for name in series if styles[name][1] != GRAY]
    every = [ratio for name in ours for _, ratio in series[name] if _WIDEST[0] < ratio.median < _WIDEST[1]]
    low = max(_WIDEST[0], min([_NARROWEST[0], *(ratio.low - 0.02 for ratio in every)]))
    high = min(_WIDEST[1], max([_NARROWEST[1], *(ratio.high + 0.02 for ratio in every)]))
    axis.set_xlim(low, high)
    axis.axvline(1, color=INK, lw=0.9, zorder=1)
    for name, points in series.items():
        mark, color = styles[name]
        shift = (ours.index(name) - (len(ours) - 1) / 2) * 0.22 if name in ours else 0.0
        inside = [point for point in points if low <= point.ratio.median <= high]
        rows = [point.row + shift for point in inside]
        medians = [point.ratio.median for point in inside]
        spread = [[p.ratio.median - p.ratio.low for p in inside], [p.ratio.high - p.ratio.median for p in inside]]
        solid = {"color": color, "marker": mark, "linestyle": "", "label": name, "zorder": 3 if name in ours else 2}
        if name in ours:
            axis.errorbar(medians, rows, xerr=spread, markersize=4.5, elinewidth=1.2, **solid)
        else:
            axis.plot(medians, rows, markersize=5, alpha=0.75, **solid)
        for point in points:
            if point not in inside:
                _write_beyond(axis, point, shift, color, low, high)
    axis.grid(axis="x", alpha=0.3)
    axis.hlines(
        range(1 + max((p.row for points in series.values() for p in points), default=0)),
        low,
        high,
        color=GRID,
        lw=0.6,
        zorder=0,
    )
    axis.tick_params(labelsize=8)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _write_beyond(axis: Any, point: Point, shift: float, color: str, low: float, high: float) -> None:
    """Write a ratio that is outside the axis at its edge."""
    below = point.ratio.median < low
    text = f"\u25c2 {point.ratio.median:.2f}" if below else f"{point.ratio.median:.2f} \u25b8"
    place = (low if below else high, point.row + shift)
    axis.annotate(text, place, color=color, fontsize=7, va="center", ha="left" if below else "right")


def _name_references(axis: Any, products: list[dict[str, Any]], protocol: str) -> None:
    """Name at the right of each row who has the ratio 1, with its rate."""
    for row, product in enumerate(products):
        if (name := _reference(product, protocol)) is not None:
            text = f"{name} {three_digits(timed(product, protocol)[name]['tflops'])}"
            axis.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), fontsize=7, va="center", color=INK)


def _title(record: dict[str, Any], protocol: str) -> str:
    """What a protocol means, and the mean of each of ours."""
    meaning = {"burst": "burst: right after idle", "settled": "settled: at the power limit"}.get(protocol, protocol)
    every = [each for each in standings(record) if each.to != READ]
    found = [each for each in every if each.protocol == protocol and len(each.ratios) > 1]
    to = BEST_PEER if any(each.to == BEST_PEER for each in found) else None
    means = [f"{each.ours} {each.mean.median:.3f}" for each in found if to is None or each.to == to]
    return meaning + (f"\ngeometric mean: {', '.join(means)}" if means else "")


def _tick(product: dict[str, Any]) -> str:
    extents = f"{product['m']} x {product['n']} x {product['k']} {product['layout']}"
    about = f"{product['label']}:  {extents}" if product.get("label") else extents
    about += "" if product["dtype"] == "bf16" else f" {product['dtype']}"
    return f"{about} (interrupted)" if product["interrupted"] else about
