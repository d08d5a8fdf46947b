"""Pictures of tilings: nested blocks with the bytes of each level, blocks of as many elements, and chains of sums."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tilewright.model.tiling.chains import SCHEDULERS, operation_clocks
from tilewright.model.tiling.levels import Block, Blocking, Level
from tilewright.plots.panels import behind, blank, box, key, lattice
from tilewright.plots.style import BLUE, GREEN, GRID, INK, ORANGE, PALE, PURPLE, RED, SMALL, TEXT, figure, styled

COLORS = {"GMEM": PURPLE, "L2": BLUE, "SMEM": GREEN, "registers": ORANGE}


@styled()
def by_level(levels: Sequence[Level], blocking: Blocking, title: str) -> Figure:
    """The blocks of a CTA's tile, and what all blocks of each level read and write."""
    picture, (tile, sizes) = figure(8.6, 3.2, ncols=2, width_ratios=(1, 1.2))
    cta, warp, thread = blocking.cta, blocking.warp, blocking.thread
    blank(tile, cta.n, cta.m, f"a CTA's tile, {cta.m} x {cta.n}")
    box(tile, (0, 0, cta.m, cta.n), BLUE, pale=True)
    if warp is not None:
        box(tile, (0, 0, min(warp.m, cta.m), min(warp.n, cta.n)), GREEN, pale=True)
        lattice(tile, (0, 0, cta.m, cta.n), max(cta.m // warp.m, 1), max(cta.n // warp.n, 1), INK, 0.6)
    if thread is not None:
        box(tile, (0, 0, min(thread.m, cta.m), min(thread.n, cta.n)), ORANGE)
    named = ((PALE[GREEN], "of SMEM", warp), (ORANGE, "of registers", thread))
    key(tile, {color: f"{name}: {each.m} x {each.n}" for color, name, each in named if each})
    rows = range(len(levels))
    total = [(level.read_bytes + level.written_bytes) / 1e9 for level in levels]
    sizes.barh(rows, total, color=[COLORS[level.name] for level in levels], height=0.6)
    for row, level, value in zip(rows, levels, total, strict=True):
        behind(sizes, value, row, f"{value:,.2f} GB: {level.intensity:,.0f} FLOP per byte", TEXT)
    sizes.set_yticks(rows, [f"{level.name}\n{level.block.m} x {level.block.n}" for level in levels])
    sizes.set_xlim(0, max(total) * 1.9)
    sizes.invert_yaxis()
    sizes.set_xlabel("GB read and written")
    sizes.spines[["top", "right"]].set_visible(False)
    sizes.set_title(title, loc="left")
    return picture


@styled()
def by_shape(found: Mapping[Block, float], mine: Block, title: str) -> Figure:
    """The multiply-adds per word of blocks with as many elements, from one row to one column."""
    picture, (axes,) = figure(7.2, 2.8)
    blocks = list(found)
    colors = [RED if each == mine else BLUE for each in blocks]
    axes.bar(range(len(blocks)), [found[each] for each in blocks], color=colors, width=0.7)
    for place, each in enumerate(blocks):
        axes.text(place, found[each], f"{found[each]:.2f}", ha="center", va="bottom", fontsize=SMALL, color=INK)
    axes.set_xticks(range(len(blocks)), [f"{each.m}x{each.n}" for each in blocks], fontsize=SMALL)
    if len(blocks) > 12:
        axes.tick_params(axis="x", rotation=60)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return picture


@styled()
def clocks_of_chains(cases: Sequence[Mapping[str, Any]], gpu: str) -> Figure:
    """The clocks of a scheduler for each operation of long chains of multiply-adds, by how many a warp has.

    cases: of a record of `bench micro fma` on a GPU, or none.
    """
    picture, (axes,) = figure(6.4, 3.4)
    numbers = list(range(1, 9))
    for warps, color, line, marker in ((1, BLUE, "-", "o"), (2, ORANGE, "-", "s"), (4, GREEN, "--", "D")):
        clocks = [operation_clocks(chains, warps=warps) for chains in numbers]
        label = f"{warps} warp{'s' * (warps > 1)} of a scheduler, by the model"
        axes.plot(numbers, clocks, line, color=color, lw=1.6, label=label)
        found = {case["chains"]: case["median"] for case in cases if case["warps"] == SCHEDULERS * warps}
        if found:
            said = f"  measured on {gpu}"
            axes.plot(list(found), list(found.values()), marker, ls="", color=color, mec=INK, ms=5, label=said)
    axes.set_xlabel("chains of a warp")
    axes.set_ylabel("clocks for each operation")
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, lw=0.4)
    axes.legend(loc="upper right", fontsize=SMALL)
    return picture
