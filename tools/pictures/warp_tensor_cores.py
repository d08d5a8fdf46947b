"""Pictures of the rungs on the tensor cores of a warp."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pictures.panels import Product, lanes_of_elements, lanes_on_matrix, rows_on_banks
from pictures.record import Request, of_line, of_operand, requests
from pictures.sizes import constants
from pictures.timelines import LOAD, MULTIPLY, STORE, Span, timeline
from tilewright.emulator.semantics.matrices.fragments import accumulate_fragments, matrix_of_a, matrix_of_b
from tilewright.plots.style import BLUE, GREEN, ORANGE, PALE, PURPLE, figure, parted

HALF = 2
"""Bytes of an element of A and B."""


def shape_of(name: str, tiles: int = 1) -> tuple[int, int, int]:
    """The product of one tile of out and several tiles along k."""
    sizes = constants(name)
    return sizes["tile_m"], sizes["tile_n"], tiles * sizes["tile_k"]


def blocks(axes: Axes, name: str, warp: int) -> None:
    """The CTA's tiles, its warps' blocks of out, and what one warp multiplies of A and B."""
    sizes = constants(name)
    m, n, k = shape_of(name)
    warp_m, warp_n = sizes["warp_m"], sizes["warp_n"]
    product = Product(axes, m, n, k)
    here = divmod(warp, n // warp_n)
    for number in range(m // warp_m * (n // warp_n)):
        row, column = divmod(number, n // warp_n)
        product.a((row * warp_m, 0, warp_m, k), BLUE, pale=row != here[0])
        product.b((0, column * warp_n, k, warp_n), ORANGE, pale=column != here[1])
        place = (row * warp_m, column * warp_n, warp_m, warp_n)
        product.out(place, GREEN, f"warp {number}", pale=number != warp, size=7)
    title = f"{m}x{n} of out, {k} of k per step, {sizes['threads'] // 32} warps\nWarp {warp} makes {warp_m}x{warp_n}"
    axes.set_title(title, fontsize=8.5, loc="left")


def eight_rows(axes: Axes, request: Request, row_bytes: int, title: str) -> None:
    """The part of a fragment that is served together: 8 rows of 16 bytes."""
    matrix = request.kind.endswith("matrix")
    offsets = sorted((request.offsets[:8] if matrix else request.offsets).tolist())
    first = min(offset // 16 * 16 for offset in offsets)
    rows_on_banks(
        axes, offsets, request.width, title, lambda offset: f"row {(offset - first // 128 * 128) // row_bytes}"
    )


def wmma_gmem() -> Figure:
    """Eight warps with their blocks, and the rows of a request for a fragment."""
    name = "wmma_gmem"
    drawing, (left, right) = figure(9.6, 3.6, ncols=2, width_ratios=(1.4, 1))
    blocks(left, name, 5)
    m, n, k = shape_of(name)
    request = of_operand(name, (m, n, 2 * k), "a")
    lanes_on_matrix(right, request, (16, 2 * k), 2 * k * HALF, "One request of warp 0 for its fragment of A")
    return drawing


def wmma_rows(axes: Axes, name: str) -> None:
    """The banks of eight rows of a fragment of A."""
    request = of_line(name, shape_of(name), "ladder/wmma_smem.cuh", "wmma_load_a(a[i]")[0]
    row_bytes = (constants(name)["tile_k"] + constants(name)["padding"]) * HALF
    eight_rows(axes, request, row_bytes, f"8 rows of a fragment of A, {row_bytes} bytes apart")


def wmma_smem() -> Figure:
    """Eight warps on tiles in SMEM, and the banks of a fragment's rows."""
    drawing, (left, right) = figure(9.6, 4.2, ncols=2)
    blocks(left, "wmma_smem", 5)
    wmma_rows(right, "wmma_smem")
    return drawing


def wmma_padded() -> Figure:
    """The banks of a fragment's rows without padding and with it."""
    drawing, panels = figure(9.6, 2.2, ncols=2)
    for axes, name in zip(panels, ("wmma_smem", "wmma_padded"), strict=True):
        wmma_rows(axes, name)
    return drawing


def mma_warp() -> Figure:
    """The lanes that hold the elements of A, B and out, and the rows whose addresses lanes give to ldmatrix."""
    lanes = np.repeat(np.arange(32, dtype=np.float16), 2).view(np.uint32)
    a = matrix_of_a(np.tile(lanes, 4).reshape(4, 1, 32, 1), "f16")[0, 0]
    b = matrix_of_b(np.tile(lanes, 2).reshape(2, 1, 32, 1), "f16")[0, 0]
    elements = np.arange(16 * 8, dtype=np.float32)
    of_lane = accumulate_fragments(elements.reshape(1, 1, 16, 8), "f32", None, np.zeros((4, 1, 32, 1), np.float32))
    out = np.empty(16 * 8, np.int64)
    out[of_lane[:, 0, :, 0].astype(np.int64)] = np.arange(32)
    drawing, panels = figure(9.6, 3.9, ncols=4, width_ratios=(2, 1, 1, 2))
    for axes, holders, title in (
        (panels[0], a, "A (16, 16) by lane: one pair per register"),
        (panels[1], b, "B (16, 8)"),
        (panels[2], out.reshape(16, 8), "out (16, 8)"),
    ):
        lanes_of_elements(axes, holders.astype(int).tolist(), title)
    (request,) = [each for each in requests("mma_warp", shape_of("mma_warp")) if each.kind == "ldmatrix"][:1]
    addresses = np.zeros(16 * 16, np.int64)
    for lane, offset in zip(request.lanes, request.offsets.tolist(), strict=True):
        addresses[offset // HALF : offset // HALF + 8] = lane
    lanes_of_elements(
        panels[3], addresses.reshape(16, 16).tolist(), "ldmatrix of A: the lane that gives each row's address"
    )
    return drawing


def fragment_rows(axes: Axes, name: str, operand: str) -> None:
    """The banks of eight rows that ldmatrix takes of A or B."""
    sizes = constants(name)
    line = {"a": "load_fragment<LayoutA", "b": "load_fragment<LayoutB"}[operand]
    request = of_line(name, shape_of(name, sizes.get("stages", 1)), "mainloop/mma_fragments.cuh", line)[0]
    row_bytes = {"a": sizes["tile_k"], "b": sizes["tile_n"]}[operand] * HALF
    eight_rows(axes, request, row_bytes, f"8 rows of {operand.upper()}'s tile, {row_bytes} bytes long")


def mma_smem() -> Figure:
    """Four warps on tiles in SMEM, and the banks of eight rows of A and of B."""
    name = "mma_smem"
    drawing, (left, right) = parted(9.6, 4.4, 1, 1, beside=True)
    blocks(left.subplots(), name, 1)
    for axes, operand in zip(right.subplots(2), "ab", strict=True):
        fragment_rows(axes, name, operand)
    return drawing


def mma_swizzled() -> Figure:
    """The banks of the same rows swizzled, and the ring over time."""
    name = "mma_swizzled"
    stages = constants(name)["stages"]
    drawing, (above, below) = parted(9.6, 4.6, 1, 1.05)
    panels = above.subplots(1, 3)
    for axes, operand in zip(panels, "ab", strict=False):
        fragment_rows(axes, name, operand)
    out = next(each for each in requests(name, shape_of(name, stages)) if each.kind == "stmatrix")
    row_bytes = constants(name)["tile_n"] * HALF
    eight_rows(panels[2], out, row_bytes, f"stmatrix: 8 rows of out, {row_bytes} bytes long")
    rows: dict[str, list[Span]] = {f"stage {stage}": [] for stage in range(stages)}
    tiles, step = 2 * stages, 10.0
    for tile in range(tiles):
        begin, use = max(0.0, (tile - stages + 2) * step), (tile + 1) * step
        rows[f"stage {tile % stages}"] += [
            (begin, use, f"copy tile {tile}", LOAD),
            (use, use + step, f"multiply {tile}", MULTIPLY),
        ]
    timeline(
        below.subplots(),
        rows,
        f"{stages} stages: while one is multiplied, the next {stages - 1} tiles are in flight",
    )
    return drawing


def mma() -> Figure:
    """The steps of one tile: fragments a step ahead, and a slice of a later tile's copy in each."""
    sizes = constants("mma")
    steps, stages = sizes["tile_k"] // 16, sizes["stages"]
    rows: dict[str, list[Span]] = {"ldmatrix": [], "mma.sync": [], "cp.async": []}
    for number in range(2 * steps):
        tile, step = divmod(number, steps)
        after_tile, after = divmod(number + 1, steps)
        begin = 10.0 * number
        rows["ldmatrix"].append(
            (begin, begin + 6, f"tile {after_tile}, k {16 * after}-{16 * after + 15}", PALE[PURPLE])
        )
        rows["mma.sync"].append((begin, begin + 10, f"tile {tile}, k {16 * step}-{16 * step + 15}", MULTIPLY))
        ahead = f"slice {step + 1} of {steps} of tile {tile + stages - 1}"
        rows["cp.async"].append((begin + 1, begin + 9, ahead, STORE))
    drawing, (axes,) = figure(9.6, 2.0)
    timeline(
        axes,
        rows,
        f"Fragments come one step of 16 ahead; the copy of a tile {stages - 1} ahead is spread over the steps",
    )
    return drawing


PICTURES: dict[str, Callable[[], Figure]] = {
    "wmma_gmem": wmma_gmem,
    "wmma_smem": wmma_smem,
    "wmma_padded": wmma_padded,
    "mma_warp": mma_warp,
    "mma_smem": mma_smem,
    "mma_swizzled": mma_swizzled,
    "mma": mma,
}
