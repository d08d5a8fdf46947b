"""Pictures of caches: a warp's access on its way through L1, and what each step of a loop finds there."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.model.memory.l1 import Flow, total
from tilewright.plots.panels import arrow, blank, box, note
from tilewright.plots.style import BLUE, GRAY, GREEN, GRID, ORANGE, PURPLE, RED, SMALL, figure, styled


@styled()
def flow_through_l1(flows: Sequence[Flow], title: str) -> Figure:
    """The stages of L1 with what passes each, and the sectors of each step by what becomes of them."""
    picture, (stages, steps) = figure(9, 3.6, ncols=2, width_ratios=(1.15, 1))
    _stages(stages, total(flows), title)
    bottom = [0] * len(flows)
    for name, color in (("hits", GREEN), ("missing_sectors", ORANGE), ("missing_lines", RED)):
        values = [getattr(flow, name) for flow in flows]
        steps.bar(range(len(flows)), values, bottom=bottom, color=color, label=name.replace("_", " "), width=0.9)
        bottom = [below + value for below, value in zip(bottom, values, strict=True)]
    steps.set_title("sectors of each step", loc="left")
    steps.set_xlabel("step")
    steps.locator_params(axis="x", integer=True)
    steps.set_ylim(0, max(bottom) * 1.25)
    steps.legend(loc="upper right", ncols=3, fontsize=SMALL)
    steps.spines[["top", "right"]].set_visible(False)
    steps.grid(axis="y", color=GRID, lw=0.4)
    steps.set_axisbelow(True)
    return picture


def _stages(axes: Axes, flow: Flow, title: str) -> None:
    blank(axes, 34, 22, title)
    boxes = {
        "warp": ((1, 0, 4, 7), GRAY, f"warps\n{flow.requests:,} loads"),
        "lsuin": ((1, 12, 4, 7), GRAY, "MIO, LSUIN"),
        "smem": ((1, 25, 4, 9), GRAY, "access to SMEM:\nno tags"),
        "tags": ((9, 12, 4, 7), BLUE, f"tags: {flow.lines:,}\nin {flow.tag_clocks:,} clocks"),
        "data": ((9, 25, 4, 9), GREEN, f"data array\n{flow.hits:,} sectors"),
        "l2": ((17, 25, 4, 9), ORANGE, f"L2 and beyond\n{flow.missing_sectors + flow.missing_lines:,} sectors"),
        "make room": ((17, 12, 4, 7), RED, f"replaced\n{flow.evictions:,} lines"),
    }
    for place, color, text in boxes.values():
        box(axes, place, color, text, pale=True, size=SMALL)
    for begin, end in (
        ((3, 7), (3, 12)), ((3, 19), (3, 25)), ((5, 15.5), (9, 15.5)), ((11, 19), (11, 25)), ((13, 17), (17.5, 25)),
        ((17, 31), (13, 31)), ((19, 25), (19, 19)),
    ):  # fmt: skip
        arrow(axes, begin, end)
    note(axes, 10.2, 20.3, "valid", size=SMALL)
    note(axes, 14.2, 20.8, "absent, or not valid", size=SMALL)
    note(axes, 15, 31.5, "kept", size=SMALL)
    axes.set_aspect("auto")


@styled()
def near_and_far(found: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """The SMs and both partitions of L2, and the share of reads that each order of tiles finds in which of them."""
    picture, (halves, shares) = figure(9, 3.2, ncols=2, width_ratios=(1, 1.25))
    blank(halves, 34, 22, "each SM is connected to one partition")
    for column, side in ((0, "A"), (19, "B")):
        box(halves, (1, column, 4, 15), GRAY, f"half of the SMs, {side}", pale=True, size=SMALL)
        box(halves, (9, column, 4, 15), BLUE, f"L2, partition {side}", pale=True, size=SMALL)
        box(halves, (17, column, 4, 15), ORANGE, "half of the HBM stacks", pale=True, size=SMALL)
        for row in (5, 13):
            arrow(halves, (row + 4, column + 7.5), (row, column + 7.5))
    arrow(halves, (11, 15), (11, 19))
    arrow(halves, (11, 19), (11, 15))
    note(halves, 7, 1, "near", size=SMALL)
    note(halves, 14.2, 15.4, "far", size=SMALL)
    halves.set_aspect("auto")
    names = [f"{each['order']}, {each['l2']}" for each in found]
    rows = range(len(names))
    near, far = ([each[name] for each in found] for name in ("near", "far"))
    both = [a + b for a, b in zip(near, far, strict=True)]
    shares.barh(rows, near, color=BLUE, label="near")
    shares.barh(rows, far, left=near, color=PURPLE, label="far")
    shares.barh(rows, [1 - hit for hit in both], left=both, color=ORANGE, label="HBM")
    shares.set_yticks(rows, names)
    shares.invert_yaxis()
    shares.set_xlim(0, 1)
    shares.set_xlabel("share of what CTAs read")
    shares.set_title(title, loc="right", fontsize=SMALL + 0.5)
    shares.legend(loc="upper center", bbox_to_anchor=(0.4, -0.18), ncols=3)
    shares.spines[["top", "right"]].set_visible(False)
    return picture
