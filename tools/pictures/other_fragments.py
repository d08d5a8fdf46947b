"""Pictures of the two side branches on the tensor cores of a warp: quad pairs, and two of four."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pictures.record import of_line, requests
from pictures.sizes import constants
from tilewright.plots.panels import arrow, blank, box, lattice, note
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, figure, parted

CHUNK, LINE = 16, 128
"""Bytes of one lane's access, and of one line across all banks."""

HALF = 2
"""Bytes of an element."""

Chunks = dict[tuple[int, int], tuple[int, int]]
"""(line, position) in SMEM -> (row k, chunk) in GMEM."""

ROWS = (BLUE, ORANGE, GREEN, PURPLE)
"""Colors of the rows k of a block."""

VOLTA = "ladder/volta_mma.cuh"


def one_tile(name: str) -> tuple[int, int, int]:
    """The product of one tile of out and one along k."""
    sizes = constants(name)
    return sizes["tile_m"], sizes["tile_n"], sizes["tile_k"]


def permuted(operand: str) -> Chunks:
    """The new places of the first 4 rows by 8 chunks of A or B, from the threads' loads and stores."""
    shape = one_tile("volta_mma")
    row_bytes = shape["ab".index(operand)] * HALF
    found: Chunks = {}
    for warp in range(constants("volta_mma")["threads"] // 32):
        here = [each for each in requests("volta_mma", shape) if each.warp == warp]
        loads = {name: [each for each in here if each.operand == name and each.kind == "ld"] for name in "ab"}
        stores = of_line("volta_mma", shape, VOLTA, "store_shared(tile + PermutedRows", warp)
        first = 0 if operand == "a" else len(loads["a"])
        base = of_line("volta_mma", shape, VOLTA, "store_shared(tile + PermutedRows")[first].start
        for load, store in zip(loads[operand], stores[first:], strict=False):
            for source, target in zip(
                load.offsets.tolist(), (store.start - base + store.offsets).tolist(), strict=True
            ):
                row, chunk = divmod(source, row_bytes)
                if row < 4 and chunk < LINE:
                    found[divmod(target // CHUNK, 8)] = (row, chunk // CHUNK)
    return found


def chunks(axes: Axes, places: Chunks, title: str, marked: Sequence[tuple[int, int]] = ()) -> None:
    """Four lines of eight chunks, each with its row k and its number; marked ones have a thick edge."""
    blank(axes, 8, 4)
    for (line, position), (row, chunk) in places.items():
        box(axes, (line, position, 1, 1), ROWS[row], f"{row} {chunk}", pale=(row, chunk) not in marked, size=7)
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")


def volta_mma() -> Figure:
    """A block of chunks before and after the permutation, and the blocks of the quad pairs."""
    shape = one_tile("volta_mma")
    places = {operand: permuted(operand) for operand in "ab"}
    drawing, (above, below) = parted(9.6, 5.2, 1, 1)
    left, right = above.subplots(1, 2)
    stored = [(0, chunk) for chunk in range(8)]
    chunks(left, {place: place for place in places["a"].values()}, "A in GMEM: row k and chunk of 8 halves", stored)
    title = "In SMEM, lines of 128 bytes; dark: what lanes 0 to 7\nstore at once, in eight different columns"
    chunks(right, places["a"], title, stored)
    read: dict[str, dict[int, int]] = {}
    for operand, text in (("a", "load_shared(a[i]"), ("b", "load_shared(b[j]")):
        request = of_line("volta_mma", shape, VOLTA, text)[0]
        read[operand] = {
            lane: places[operand][divmod(offset // CHUNK, 8)][1]
            for lane, offset in zip(request.lanes, request.offsets.tolist(), strict=True)
        }
        if operand == "a":
            together = [places["a"][divmod(offset // CHUNK, 8)] for offset in request.offsets[:8].tolist()]
    left, right = below.subplots(1, 2)
    chunks(left, places["a"], "dark: what lanes 0 to 7 load at once, one line", together)
    blank(right, 32, 32, "A warp's 32x32 in 8x8: which quad pair makes what")
    for lane in range(32):
        for half in range(32):
            if lane % 16 // 4 == half % 16 // 4:
                pair, row, column = lane % 16 // 4, read["a"][lane] * 8, read["b"][half] * 8
                if lane % 4 == half % 4 == 0:
                    box(right, (row, column, 8, 8), ROWS[pair], f"pair {pair}", pale=True, size=6.5)
    lattice(right, (0, 0, 32, 32), 2, 2, INK, 1.2)
    return drawing


def split(group: Sequence[str]) -> tuple[list[int], list[int]]:
    """The places of the first two non-zeros of four, filled up with the last places, and the other two."""
    first = [place for place, value in enumerate(group) if value != "0"][:2]
    for place in (3, 2):
        if len(first) < 2 and place not in first:
            first.append(place)
    return sorted(first), [place for place in range(4) if place not in first]


def sparse_mma() -> Figure:
    """Groups of four in two parts, the lanes that combine their places, and blocks that take one product or two."""
    drawing, panels = figure(9.6, 3.6, ncols=3)
    blank(panels[0], 13, 11, "Groups of four of A, and their two parts")
    for number, group in enumerate(("0x0y", "xyzw", "000x")):
        parts = split(group)
        for row, name in ((1.0, "A"), (4.5, "first"), (8.0, "other")):
            if not number:
                note(panels[0], row - 0.45, 0, name, size=7)
        left = 4.5 * number
        for place, value in enumerate(group):
            kept = place in parts[0]
            box(panels[0], (1, left + place, 1, 0.9), (BLUE if kept else ORANGE), value, pale=value == "0", size=7)
            row = 4.5 if kept else 8.0
            box(panels[0], (row, left + place, 1, 0.9), BLUE if kept else ORANGE, value, pale=value == "0", size=7)
        places = ["places " + ", ".join(map(str, part)) for part in parts]
        for row, text in zip((6.1, 9.6), places, strict=True):
            note(panels[0], row, left, text, size=6)
    blank(panels[1], 40, 37, "Metadata: 2 bits a place, 2 places a group")
    for lane in range(4):
        box(panels[1], (3, lane * 10, 9, 9), BLUE, f"lane {lane}\n2 in 2 rows", size=6.5)
        for word in range(2):
            arrow(panels[1], (12, lane * 10 + 3 + 3 * word), (24, word * 20 + 3.5 + 4 * lane))
    for lane in range(2):
        box(panels[1], (24, lane * 20 + 1, 9, 17), GREEN, f"word of lane {lane}:\n4 groups in 2 rows", size=6.5)
    depth = constants("sparse_mma")["tile_k"]
    rows, columns = 8, 4
    numbers = np.random.default_rng(0).random((rows * 16, columns * depth))
    ranks = np.argsort(np.argsort(numbers.reshape(rows * 16, -1, 4), axis=2), axis=2)
    nonzero = np.less(ranks, 2).reshape(numbers.shape)
    nonzero[5 * 16 + 3, 40:44] = nonzero[2 * 16, 100:104] = True
    nonzero[6 * 16 + 1, :4] = True
    products = 1 + (nonzero.reshape(rows, 16, columns, depth // 4, 4).sum(4) > 2).any(axis=(1, 3))
    title = f"An A of {rows * 16}x{columns * depth}, two of four but for 3 groups:\nproducts of its 16x{depth} blocks"
    blank(panels[2], columns * 2, rows, title)
    for row in range(rows):
        for column in range(columns):
            count = int(products[row, column])
            box(panels[2], (row, column * 2, 1, 2), ORANGE if count > 1 else GRAY, str(count), pale=count == 1, size=7)
    return drawing


PICTURES: dict[str, Callable[[], Figure]] = {"volta_mma": volta_mma, "sparse_mma": sparse_mma}
