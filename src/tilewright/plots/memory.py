"""Pictures of a warp's addresses: the sectors of GMEM and the banks of SMEM that they meet, and swizzled tiles."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import BANKS, BankUse, Indices
from tilewright.model.memory.coalescing import LINE_BYTES, Coalescing
from tilewright.model.memory.layouts import CHUNKS, TileLayout, Transposition
from tilewright.plots.panels import Box, behind, blank, fill, key, lattice, note, text_on
from tilewright.plots.style import BLUE, GREEN, GROUND, INK, ORANGE, PALE, PURPLE, SMALL, figure, styled

_TINY = 5
_COLUMNS = (BLUE, ORANGE, GREEN, PURPLE)
"""Of which the pale ones tell columns apart, in turn."""
MOST_LINES = 8
"""Lines that a picture shows, if they are more than twice as many."""


@styled()
def sectors_of_lines(addresses: Indices, width: int, found: Coalescing, title: str) -> Figure:
    """The lines of GMEM that a warp touches, with their sectors and the bytes that lanes want."""
    every = found.lines
    lines = every if len(every) <= 2 * MOST_LINES else every[:MOST_LINES]
    picture, (axes,) = figure(7.4, 1.1 + 0.21 * max(len(lines), 2))
    rows = {line: row for row, line in enumerate(lines)}
    scale = 32 / LINE_BYTES  # a row is 32 wide and 1 high, so that text fits
    sector = SECTOR_BYTES * scale
    blank(axes, 32, max(len(lines), 2), title)
    touched = [(rows[number // 4], number % 4 * sector, 1.0, sector) for number in found.sectors if number // 4 in rows]
    fill(axes, touched, PALE[ORANGE])
    wanted: dict[int, list[int]] = {}
    for lane, address in enumerate(addresses.tolist()):
        if address >= 0:
            wanted.setdefault(address, []).append(lane)
    places: list[Box] = []
    for address, lanes in wanted.items():
        line, byte = divmod(address, LINE_BYTES)
        if line not in rows:
            continue
        places.append((rows[line], byte * scale, 1, width * scale))
        if width * scale >= 1:
            middle = byte * scale + width * scale / 2
            axes.text(middle, rows[line] + 0.53, _lanes(lanes), ha="center", va="center", fontsize=_TINY, color=INK)
    fill(axes, places, PALE[BLUE])
    lattice(axes, (0, 0, len(lines), 32), len(lines), 4, INK, 0.7)
    for line, row in rows.items():
        note(axes, row + 0.5, -0.3, f"{line * LINE_BYTES:,}", size=SMALL, side="right")
    axes.set_xlim(-4, 32.4)
    rest = len(every) - len(lines)
    if rest:
        note(axes, len(lines) + 0.5, 0, f"and {rest} lines more", size=SMALL)
    axes.set_ylim(len(lines) + bool(rest), -0.05)
    unwanted = f"the rest of the {len(found.sectors)} sectors of 32 bytes"
    key(axes, {PALE[BLUE]: "what lanes want, with their numbers", PALE[ORANGE]: unwanted})
    axes.set_aspect("auto")
    return picture


@styled()
def passes_over_banks(use: BankUse, title: str) -> Figure:
    """The 32 banks in each pass, with the lanes that each serves; passes of one phase lie together."""
    count = sum(phase.wavefronts for phase in use.phases)
    picture, (axes,) = figure(7.4, 1.1 + 0.17 * max(count, 3))
    blank(axes, BANKS, count + 0.4 * len(use.phases), title)
    row = 0.0
    for number, phase in enumerate(use.phases):
        first = row
        for bank, words in phase.words.items():
            for turn, lanes in enumerate(words.values()):
                color = PALE[GREEN] if len(lanes) > 1 else PALE[ORANGE] if turn else PALE[BLUE]
                fill(axes, [(first + turn, bank, 1, 1)], color)
                text = _lanes(lanes)
                axes.text(bank + 0.5, first + turn + 0.53, text, ha="center", va="center", fontsize=_TINY, color=INK)
        row = first + phase.wavefronts
        lattice(axes, (first, 0, phase.wavefronts, BANKS), phase.wavefronts, BANKS)
        if len(use.phases) > 1:
            note(axes, first + 0.5, -0.3, f"phase {number}", size=SMALL, side="right")
        row += 0.4
    for bank in range(0, BANKS, 4):
        note(axes, row + 0.2, bank + 0.5, f"{bank}", size=SMALL, side="center")
    note(axes, row + 0.2, -0.3, "bank", size=SMALL, side="right")
    axes.set_ylim(row + 0.9, -0.2)
    key(axes, {
        PALE[BLUE]: "lanes of the first pass of a phase", PALE[ORANGE]: "lanes that wait for it",
        PALE[GREEN]: "several lanes, one word",
    })  # fmt: skip
    axes.set_xlim(-3.5, BANKS + 0.2)
    axes.set_aspect("auto")
    return picture


@styled()
def clocks_of_reads(cases: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """The passes of each case of a record of `bench micro banks`, and the clocks that its reads took."""
    picture, (axes,) = figure(7.4, 1 + 0.27 * len(cases))
    places = range(len(cases))
    axes.barh(places, [case["model"] for case in cases], color=PALE[BLUE], label="passes over the banks")
    middle = [case["median"] for case in cases]
    reach = [[case["median"] - case["least"] for case in cases], [case["most"] - case["median"] for case in cases]]
    axes.errorbar(
        middle, places, xerr=reach, fmt="D", color=INK, mec=GROUND, ms=5, capsize=3,
        label="clocks of a read: median, least and most of all SMs",
    )  # fmt: skip
    for place, case in enumerate(cases):
        behind(axes, max(case["model"], case["most"]), place, f"{case['median']:.2f}")
    names = [f"{case['addresses']}, {case['access']} {case['width']} B" for case in cases]
    axes.set_yticks(places, names, fontsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(max(case["model"], case["most"]) for case in cases))
    axes.set_xlabel("clocks")
    axes.set_title(title, loc="left", fontsize=SMALL + 2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=SMALL)
    return picture


@styled()
def tiles_in_banks(found: Sequence[Transposition], title: str) -> Figure:
    """Tiles as SMEM keeps them, 128 bytes or all banks in a row: row and column of each chunk, a color a column."""
    picture, panels = figure(2.6 * len(found), 3.1, ncols=len(found))
    for axes, each in zip(panels, found, strict=True):
        ways, together = each.read.ways, _read_together(each.layout)
        read = "a column" if together == 1 else f"{together} columns"
        name = each.layout.name.replace(", ", ",\n", 1) if ", " in each.layout.name else f"\n{each.layout.name}"
        _chunks(axes, each.layout, f"{name}\n{read}: {ways:g} pass{'es' * (ways > 1)} for 8 lanes")
    text = f"{title}\nstrong: what the first 8 lanes read down a column; the others: other columns, in four colors"
    picture.suptitle(text, x=0.01, ha="left", fontsize=SMALL + 2, color=INK)
    return picture


def _read_together(layout: TileLayout) -> int:
    """The columns that 8 lanes, for which SMEM has a pass, read at once."""
    return max(8 // layout.rows, 1)


def _chunks(axes: Axes, layout: TileLayout, title: str) -> None:
    lines = -(-len(layout.chunk_at()) // CHUNKS)
    blank(axes, CHUNKS, max(lines, 8), title)
    for place, chunk in enumerate(layout.chunk_at().tolist()):
        if chunk < 0:
            continue
        row, column = divmod(chunk, layout.chunks)
        line, position = divmod(place, CHUNKS)
        strong = column < _read_together(layout)
        fill(axes, [(line, position, 1, 1)], BLUE if strong else PALE[_COLUMNS[column % len(_COLUMNS)]])
        axes.text(position + 0.5, line + 0.53, f"{row} {column}", ha="center", va="center", fontsize=_TINY + 1,
                  color=text_on(BLUE) if strong else INK)  # fmt: skip
    lattice(axes, (0, 0, lines, CHUNKS), lines, CHUNKS)
    for position in range(CHUNKS):
        note(axes, lines + 0.35, position + 0.5, f"{4 * position}", size=_TINY + 1, side="center")
    note(axes, lines + 0.95, 0, "bank; in a chunk: its row and column", size=SMALL)
    axes.set_ylim(max(lines, 8) + 1.4, -0.1)


def _lanes(lanes: Sequence[int]) -> str:
    """Some lanes in few characters."""
    first, *rest = lanes
    if not rest:
        return str(first)
    if list(lanes) == list(range(first, lanes[-1] + 1)) and len(lanes) > 2:
        return f"{first}-{lanes[-1]}"
    return f"{first},{rest[0]}" if len(lanes) == 2 else f"{len(lanes)}x"
