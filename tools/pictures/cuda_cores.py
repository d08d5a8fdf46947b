"""Pictures of the rungs on the CUDA cores."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pictures.panels import Product, lanes_on_matrix, rows_on_banks
from pictures.record import Request, of_line, of_operand, requests
from pictures.sizes import constants
from pictures.timelines import LOAD, MULTIPLY, STORE, Span, timeline
from tilewright.plots.panels import arrow, blank, box, note
from tilewright.plots.style import BLUE, GRAY, GREEN, ORANGE, PALE, PURPLE, figure

FLOAT = 4


def one_element(name: str) -> Figure:
    """The requests of a warp's lanes to A, B and out, if a thread computes one element."""
    size = constants(name)["tile_m"]
    shape = (size, size, size)
    drawing, panels = figure(9.6, 3.7, ncols=3)
    for axes, operand, doing in zip(panels, ("a", "b", "out"), ("read of A", "read of B", "store to out"), strict=True):
        lanes_on_matrix(axes, of_operand(name, shape, operand), (size, size), size * FLOAT, f"One {doing} by warp 0")
    return drawing


def smem_tiles() -> Figure:
    """Tiles that move along k, and the tile of out that they make."""
    sizes = constants("smem_tiles")
    tile, whole = sizes["tile_m"], 4 * sizes["tile_m"]
    drawing, (axes,) = figure(5.2, 5.2)
    product = Product(axes, whole, whole, whole)
    for step in range(4):
        product.a((tile, step * tile, tile, tile), BLUE, f"step {step}", pale=step > 0)
        product.b((step * tile, 2 * tile, tile, tile), ORANGE, f"step {step}", pale=step > 0)
    product.out((tile, 2 * tile, tile, tile), GREEN, f"{tile}x{tile}\none per\nthread")
    product.parts((0, 0, whole, whole), 4, 4)
    lines = (
        "Both tiles of a step are in SMEM,",
        f"{tile}x{tile} floats each: every float",
        f"is used {tile} times there.",
    )
    note(axes, 0.42 * whole, 0.02 * whole, "\n".join(lines))
    return drawing


def register_tiles() -> Figure:
    """The block of one thread in the tile of its CTA, and the SMEM requests of a quarter of its warp."""
    sizes = constants("register_tiles")
    m, n, k = (sizes[name] for name in ("tile_m", "tile_n", "tile_k"))
    side = 8
    drawing, (left, right) = figure(9.6, 4.6, ncols=2, width_ratios=(1, 1.05))
    product = Product(left, m, n, k, "A CTA's tiles of A, B and out")
    row, column = 5 * side, 3 * side
    product.parts((0, 0, m, n), m // side, n // side)
    product.a((row, 0, side, k), BLUE)
    product.b((0, column, k, side), ORANGE)
    product.out((row, column, side, side), GREEN)
    threads = f"{m // side}x{n // side} threads; one makes {side}x{side} elements of {side} of A and {side} of B"
    left.set_title(f"{m}x{n} of out, {k} of k per step\n{threads}", fontsize=8.5, loc="left")
    quarter_of_b(right, "register_tiles")
    return drawing


def quarter_of_b(axes: Axes, name: str) -> None:
    """The banks that lanes 0 to 7 use when they read B together."""
    sizes = constants(name)
    shape = (sizes["tile_m"], sizes["tile_n"], 2 * sizes["tile_k"])
    header, text = B_LINES[name]
    request = of_line(name, shape, header, text)[0]
    quarter_on_banks(axes, request, "Lanes 0 to 7 read a float4 of B each")


B_LINES = {
    "register_tiles": ("ladder/thread_tile.cuh", "b[j] = b_tile[k][n + j]"),
    "warp_tiles": ("ladder/warp_tiles.cuh", "load4(&b_tile[k][column(j)])"),
}


def quarter_on_banks(axes: Axes, request: Request, title: str) -> None:
    """The first eight lanes of a request of 16 bytes per lane; they are served together."""
    quarter = request.offsets[:8].tolist()

    def readers(offset: int) -> str:
        lanes = [str(lane) for lane, place in zip(request.lanes, quarter, strict=False) if place == offset]
        return f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {', '.join(lanes)}"

    rows_on_banks(axes, quarter, request.width, title, readers)


def double_buffered() -> Figure:
    """Registers and both buffers over the first four tiles."""
    tiles, product, put = 4, 10.0, 2.0
    step = product + put
    rows: dict[str, list[Span]] = {"registers": [], "buffer 0": [], "buffer 1": []}
    for tile in range(tiles):
        begin = tile * step
        rows[f"buffer {tile % 2}"].append((begin, begin + product, f"multiply tile {tile}", MULTIPLY))
        if tile + 1 < tiles:
            rows["registers"].append((begin, begin + product, f"load tile {tile + 1}", LOAD))
            rows[f"buffer {1 - tile % 2}"].append((begin + product, begin + step, "store", STORE))
    drawing, (axes,) = figure(9.6, 2.0)
    timeline(axes, rows, "The next tile waits in registers until the products are done; dotted: the barriers")
    for tile in range(1, tiles):
        axes.axvline(tile * step, color="#24292f", linewidth=0.8, linestyle=":")
    return drawing


def async_copies() -> Figure:
    """The two ways from GMEM to SMEM, and the buffers over time."""
    sizes = constants("async_copies")
    shape = (sizes["tile_m"], sizes["tile_n"], 2 * sizes["tile_k"])
    copied = next(each.width for each in requests("async_copies", shape) if each.kind == "cp.async")
    drawing, (left, right) = figure(9.6, 1.9, ncols=2)
    for axes, name, middle in ((left, "double_buffered", True), (right, "async_copies: cp.async", False)):
        blank(axes, 100, 30, name)
        box(axes, (6, 0, 16, 22), BLUE, "GMEM")
        box(axes, (6, 78, 16, 22), GREEN, "SMEM")
        if middle:
            box(axes, (6, 39, 16, 22), ORANGE, "registers")
            arrow(axes, (14, 22), (14, 39))
            arrow(axes, (14, 61), (14, 78))
            note(axes, 28, 30.5, "ld.global", size=7, side="center")
            note(axes, 28, 69.5, "st.shared", size=7, side="center")
        else:
            arrow(axes, (14, 22), (14, 78))
            note(axes, 28, 50, f"{copied} bytes per thread, past the registers", size=7, side="center")
    return drawing


def warp_tiles() -> Figure:
    """The CTA's tile in warps, the pieces of lane 0, and the banks of a quarter of a warp."""
    sizes = constants("warp_tiles")
    m, n, k = (sizes[name] for name in ("tile_m", "tile_n", "tile_k"))
    shape = (m, n, 2 * k)
    drawing, (left, right) = figure(9.6, 4.6, ncols=2, width_ratios=(1, 1.05))
    product = Product(left, m, n, k)
    side = 64
    for warp in range(m // side * (n // side)):
        row, column = divmod(warp, n // side)
        product.out((row * side, column * side, side, side), GRAY, f"warp {warp}" if warp else "", pale=True)
    header, text = B_LINES["warp_tiles"]
    rows = lane_0(of_line("warp_tiles", shape, header, "load4(&a_tile[k][m + i])"), m)
    columns = lane_0(of_line("warp_tiles", shape, header, text), n)
    for row in rows:
        product.a((row, 0, 4, k), BLUE)
    for column in columns:
        product.b((0, column, k, 4), ORANGE)
        for row in rows:
            product.out((row, column, 4, 4), GREEN)
    pieces = f"Lane 0's {4 * len(rows)}x{4 * len(columns)} elements: {4 * len(rows)} rows in {len(columns)} slices"
    left.set_title(f"{m}x{n} of out in warps of {side}x{side}\n{pieces}", fontsize=8.5, loc="left")
    quarter_of_b(right, "warp_tiles")
    return drawing


def lane_0(found: list[Request], row_floats: int) -> list[int]:
    """The columns at which lane 0 reads a row of a tile in SMEM in its first step along k."""
    places = [int(each.start + each.offsets[each.lanes.index(0)]) // FLOAT for each in found]
    return sorted({place - min(places) for place in places if place - min(places) < row_floats})


def simt() -> Figure:
    """Fragments one k ahead of the products, across the barrier between two tiles."""
    tile_k = constants("simt")["tile_k"]
    rows: dict[str, list[Span]] = {"read": [], "multiply": [], "next tile": []}
    shown = [*range(tile_k - 3, tile_k), *range(3)]
    rows["next tile"] = [(0, 20, "in registers, on its way from GMEM", LOAD), (20, 24, "to SMEM", STORE)]
    begin = 0.0
    for place, k in enumerate(shown):
        after = (k + 1) % tile_k
        tile, after_tile = ("this" if place < 3 else "next"), ("this" if place < 2 else "next")
        if k == tile_k - 1:
            begin += 4
        rows["read"].append((begin, begin + 6, f"k = {after}, {after_tile} tile", PALE[PURPLE]))
        rows["multiply"].append((begin, begin + 10, f"k = {k}, {tile} tile", MULTIPLY))
        begin += 10
    drawing, (axes,) = figure(9.6, 2.0)
    timeline(axes, rows, "A thread reads its elements of A and B for k + 1 while it multiplies those of k")
    axes.axvline(24, color="#24292f", linewidth=0.8, linestyle=":")
    axes.text(24.6, 2.52, "the barrier between two tiles", fontsize=7, va="center")
    return drawing


PICTURES: dict[str, Callable[[], Figure]] = {
    "uncoalesced": lambda: one_element("uncoalesced"),
    "coalesced": lambda: one_element("coalesced"),
    "smem_tiles": smem_tiles,
    "register_tiles": register_tiles,
    "double_buffered": double_buffered,
    "async_copies": async_copies,
    "warp_tiles": warp_tiles,
    "simt": simt,
}
