"""The chart of a record of few rows: at each weight, what share of a streaming read contenders reach."""

from math import ceil
from typing import TYPE_CHECKING, Any

from tilewright.bench.charts.marks import explain, head, marks
from tilewright.bench.contenders import READ, is_ours, is_peer
from tilewright.bench.standing import by_weight, in_most, timed
from tilewright.plots.style import INK, SMALL, figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 4
"""Panels side by side."""
_LOWEST, _HIGHEST = 0.4, 1.25
"""The ends of the axis of shares; beyond it, contenders lie at the edge."""
_TICKS = (0.4, 0.6, 0.8, 1.0, 1.2)


@styled()
def rows_chart(record: dict[str, Any]) -> "Figure":
    """A panel for each weight, with a line for each contender over the rows; of bursts, if there are some."""
    protocol = "burst" if "burst" in record["protocols"] else next(iter(record["protocols"]))
    products = [each for each in record["products"] if READ in timed(each, protocol)]
    names = [name for name in in_most(products, protocol) if name != READ]
    ours, peers = ([name for name in names if kind(name)] for kind in (is_ours, is_peer))
    styles = marks(ours, peers)
    weights = by_weight(products)
    lines = ceil(len(weights) / _COLUMNS)
    picture, axes = figure(11, 1.3 + 1.9 * lines, nrows=lines, ncols=_COLUMNS, sharey=True)
    for axis, (weight, by_rows) in zip(axes, weights.items(), strict=False):
        axis.axhline(1, color=INK, lw=0.8, zorder=1)
        for name in (*peers, *ours):
            shares = {m: found for m, each in by_rows.items() if (found := _share(each, protocol, name)) is not None}
            mark, color = styles[name]
            axis.plot(list(shares), list(shares.values()), marker=mark, color=color, label=name, markersize=4, lw=1.1)
        axis.set_title(f"{weight.label}\n{weight.extents}", loc="left", fontsize=SMALL)
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(by_rows), [str(m) for m in by_rows], fontsize=SMALL)
        axis.minorticks_off()
        axis.set_ylim(_LOWEST, _HIGHEST)
        axis.set_yticks(_TICKS)
        axis.yaxis.set_major_formatter("{x:.0%}")
        axis.tick_params(labelsize=SMALL)
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(weights) :]:
        axis.set_visible(False)
    for axis in axes[max(len(weights) - _COLUMNS, 0) : len(weights)]:
        axis.set_xlabel("rows")
    picture.supylabel(f"{protocol}: share of a streaming read of the weights", fontsize=9)
    explain(picture, [*ours, *peers])
    head(picture, record)
    return picture


def _share(product: dict[str, Any], protocol: str, name: str) -> float | None:
    """What the chart shows of a contender: its share of the read, at the edge where it lies beyond the axis."""
    share: float | None = timed(product, protocol).get(name, {}).get("read_share")
    return None if share is None else min(max(share, _LOWEST), _HIGHEST)
