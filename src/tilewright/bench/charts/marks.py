"""What the charts of records have in common: contenders' marks, the heading and the legend."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.plots.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, RED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OURS = (("o", GREEN), ("D", RED), ("s", BLUE), ("^", PURPLE), ("v", ORANGE))
_PEERS = ("x", "+", "1", "2", "|")
"""Markers of our contenders with their colors, and those of peers, which are gray."""


def marks(ours: Sequence[str], peers: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The marker and the color of each contender."""
    styles = dict(zip(ours, _OURS * len(ours), strict=False))
    return styles | {name: (mark, GRAY) for name, mark in zip(peers, _PEERS * len(peers), strict=False)}


def head(picture: "Figure", record: dict[str, Any]) -> None:
    """Write what was measured, where and when above a figure."""
    about = [record.get("suite"), record["gpu"], f"{record['data']} data", record["date"][:10]]
    picture.suptitle(", ".join(filter(None, about)), x=0.01, ha="left", fontsize=11)


def legend_columns(names: Sequence[str], width: float) -> int:
    """How many columns the legend of these contenders has below a figure of so many inches."""
    widest = max(map(len, names), default=1)
    return max(1, min(len(names), int(width * 11 / (widest + 6))))


def explain(picture: "Figure", names: Sequence[str]) -> None:
    """Write the legend of these contenders, as far as panels show them, below a figure."""
    axes = picture.axes
    handles = {name: bar for axis in axes for bar, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = legend_columns([*handles], picture.get_size_inches()[0])
    shown = [name for name in names if name in handles]
    picture.legend([handles[name] for name in shown], shown, loc="outside lower center", ncols=columns, fontsize=9)
