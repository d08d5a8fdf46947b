"""Pictures of the rungs on Hopper's asynchronous tensor cores."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pictures.panels import Product, lanes_of_elements, order, rows_on_banks
from pictures.record import of_line
from pictures.sizes import CUBE, constants, ctas
from pictures.timelines import LOAD, LOAD_CLOCKS, MULTIPLY, STORE, Ring, Span, multiply_clocks, timeline
from tilewright.emulator.semantics.swizzle import swizzle
from tilewright.model.raster import blocked_tile, hilbert_tile, row_major_tile
from tilewright.plots.panels import arrow, blank, box, note
from tilewright.plots.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, figure, parted

ROW_BYTES, CHUNK_BYTES = 128, 16
"""Bytes of a swizzled row in SMEM, and of a chunk that the swizzle keeps together."""

CLOCKS = f"clocks, if a load takes {LOAD_CLOCKS}"


def tile_of(name: str) -> tuple[int, int, int]:
    """tile_m, tile_n and tile_k."""
    sizes = constants(name)
    return sizes["tile_m"], sizes["tile_n"], sizes["tile_k"]


def ring(name: str, blocks: int, tiles: int, *, ahead: bool = True, overlapped: bool = False) -> Ring:
    """The rung's ring over a number of tiles and k-blocks."""
    return Ring(constants(name)["stages"], multiply_clocks(*tile_of(name)), blocks, tiles, ahead, overlapped)


def swizzled_rows(axes: Axes) -> None:
    """Where the 16-byte chunks of eight rows of 128 bytes lie."""
    chunks = ROW_BYTES // CHUNK_BYTES
    places = [[0] * chunks for _ in range(8)]
    for row in range(8):
        for chunk in range(chunks):
            address = swizzle(row * ROW_BYTES + chunk * CHUNK_BYTES, ROW_BYTES)
            places[row][address % ROW_BYTES // CHUNK_BYTES] = chunk
    lanes_of_elements(axes, places, "SMEM: which chunk of its row lies where,\n8 rows of 8 chunks of 16 bytes")


def basic() -> Figure:
    """A k-block in four steps of 16, its swizzle, and load and multiply taking turns."""
    m, n, k = tile_of("wgmma_basic")
    drawing, (above, below) = parted(9.6, 5.6, 2.6, 1)
    left, right = above.subplots(1, 2)
    product = Product(left, m, n, k)
    for step in range(k // 16):
        product.a((0, step * 16, m, 16), BLUE, f"k16\n{step}", pale=step > 0)
        product.b((step * 16, 0, 16, n), ORANGE, f"wgmma {step}", pale=step > 0)
    product.out((0, 0, m, n), GREEN, f"m64n{n}k16,\n{k // 16} times a k-block")
    left.set_title(f"Boxes of {m}x{k} and {n}x{k} come by TMA", fontsize=8.5, loc="left")
    swizzled_rows(right)
    rows: dict[str, list[Span]] = {"TMA": [], "wgmma": []}
    clocks = multiply_clocks(m, n, k)
    for block in range(4):
        begin = block * (LOAD_CLOCKS + clocks)
        rows["TMA"].append((begin, begin + LOAD_CLOCKS, f"load k-block {block}", LOAD))
        rows["wgmma"].append((begin + LOAD_CLOCKS, begin + LOAD_CLOCKS + clocks, "", MULTIPLY))
    timeline(below.subplots(), rows, "One CTA loads or multiplies", CLOCKS)
    return drawing


def larger_tile() -> Figure:
    """The same outputs by four small tiles and by one large one, with how often each operand is read."""
    m, n, k = tile_of("wgmma_larger_tile")
    drawing, panels = figure(9.6, 4.6, ncols=2)
    for axes, name in zip(panels, ("wgmma_basic", "wgmma_larger_tile"), strict=True):
        tile_m, tile_n, _ = tile_of(name)
        product = Product(axes, m, n, k)
        times_a, times_b = n // tile_n, m // tile_m
        for row in range(times_b):
            product.a((row * tile_m, 0, tile_m, k), BLUE, f"{times_a}x", pale=times_a == 1)
        for column in range(times_a):
            product.b((0, column * tile_n, k, tile_n), ORANGE, f"{times_b}x", pale=times_b == 1)
        for row in range(times_b):
            for column in range(times_a):
                product.out((row * tile_m, column * tile_n, tile_m, tile_n), GREEN, f"{tile_m}x{tile_n}", pale=True)
        read = (times_a * m + times_b * n) * k * 2 // 1024
        axes.set_title(f"{name}: {read} KiB are read for a k-block", fontsize=8.5, loc="left")
    return drawing


def pipelined() -> Figure:
    """The slots at one moment, and over time."""
    found = ring("wgmma_pipelined", 9, 1).rows()
    moment = 2.6 * LOAD_CLOCKS
    drawing, (above, below) = figure(9.6, 4.6, nrows=2, height_ratios=(1, 2))
    blank(above, 100, 26)
    box(above, (4, 0, 10, 15), BLUE, "producer")
    box(above, (4, 85, 10, 15), GREEN, "consumer")
    slots = [name for name in found if name.startswith("slot")]
    wide = 62 / len(slots)
    for number, name in enumerate(slots):
        doing = next((color for begin, end, _, color in found[name] if begin <= moment < end), GRAY)
        text = {LOAD: "loading", MULTIPLY: "multiplied", GRAY: "full"}[doing]
        box(above, (4, 19 + number * wide, 10, wide), doing, f"{name}\n{text}", pale=True, size=7)
    arrow(above, (9, 15), (9, 19))
    arrow(above, (9, 81), (9, 85))
    note(above, 18, 50, "full: from producer to consumer, when the bytes are there", size=7, side="center")
    note(above, 22, 50, "empty: from consumer to producer, when the slot has been read", size=7, side="center")
    below.axvline(moment, color="#24292f", linewidth=0.8, linestyle=":")
    timeline(below, found, "Each slot is loaded (blue) and multiplied (green); dotted: the moment above", CLOCKS)
    return drawing


def two_consumers() -> Figure:
    """The tile in two halves, and slots and consumers over time."""
    name = "wgmma_two_consumers"
    m, n, k = tile_of(name)
    consumers = constants(name)["consumers"]
    drawing, (above, below) = parted(9.6, 6.4, 1.5, 1)
    product = Product(above.subplots(), m, n, k)
    product.b((0, 0, k, n), ORANGE, "B: read by both")
    colors = (GREEN, PURPLE)
    for half, color in enumerate(colors):
        place = half * m // consumers
        product.a((place, 0, m // consumers, k), color)
        product.out((place, 0, m // consumers, n), color, f"consumer {half}: {m // consumers}x{n}", pale=True)
    product.axes.set_title(
        f"{m}x{n} of out: each consumer has {m // consumers} rows of A, and all of B", fontsize=8.5, loc="left"
    )
    rows = ring(name, 5, 1).rows()
    stores = rows.pop("store")
    products = sorted(span for spans in rows.values() for span in spans if span[3] == MULTIPLY)
    for half in range(consumers):
        share = [
            (
                begin + half * (end - begin) / consumers,
                begin + (half + 1) * (end - begin) / consumers,
                text,
                colors[half],
            )
            for begin, end, text, _ in products
        ]
        rows[f"consumer {half}"] = [*share, (share[-1][1], stores[0][1], "store", STORE)]
    timeline(below.subplots(), rows, "The tensor cores take turns between the consumers", CLOCKS)
    return drawing


def walk(tile: Callable[[int], tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The places of the first tiles in their order."""
    return [tile(index) for index in range(count)]


def persistent() -> Figure:
    """Three orders of the tiles of 4096^2, and two tiles over time."""
    name = "wgmma_persistent"
    sizes = constants(name)
    rows, columns = CUBE // sizes["tile_m"], CUBE // sizes["tile_n"]
    wave = ctas(name)
    orders: Sequence[tuple[str, Callable[[int], tuple[int, int]]]] = (
        ("row-major", lambda i: row_major_tile(i, rows, columns)),
        ("blocked", lambda i: blocked_tile(i, rows, columns, sizes["block_m"], sizes["block_n"])),
        ("Hilbert", lambda i: hilbert_tile(i, rows, columns)),
    )
    drawing, (above, below) = parted(9.6, 7.6, 2.2, 1)
    for axes, (title, tile) in zip(above.subplots(1, 3), orders, strict=True):
        places = walk(tile, rows * columns)
        first = places[:wave]
        read = [len({place[side] for place in first}) * sizes[("tile_m", "tile_n")[side]] for side in (0, 1)]
        title = f"{title}: the first {wave} tiles need\n{read[0]} rows of A and {read[1]} columns of B"
        order(axes, places, (rows, columns), wave, title)
    timeline(below.subplots(), ring(name, 4, 2).rows(), "Loads for tile 1 run while tile 0 is stored", CLOCKS)
    return drawing


def lean_barriers() -> Figure:
    """The arrivals at the two barriers of a slot, before and after."""
    consumers = constants("wgmma_lean_barriers")["consumers"]
    threads = 128 * consumers
    drawing, panels = figure(9.6, 2.9, ncols=2)
    before = ("wgmma_persistent", ("1, with bytes", str(threads)), ("1", str(threads)))
    after = ("wgmma_lean_barriers", ("1, with bytes", ""), ("", f"{consumers}: 1 each"))
    for axes, (title, full, empty) in zip(panels, (before, after), strict=True):
        blank(axes, 100, 40)
        box(axes, (13, 0, 14, 20), BLUE, "producer\n1 thread", size=7.5)
        box(axes, (13, 76, 14, 24), GREEN, f"{consumers} consumers\n{threads} threads", size=7.5)
        total = [sum(int(each.partition(",")[0].partition(":")[0] or 0) for each in both) for both in (full, empty)]
        for row, name, (left, right), count in ((0, "full", full, total[0]), (30, "empty", empty, total[1])):
            box(axes, (row, 38, 10, 24), ORANGE, f"{name}: {count}")
            middle = row + 5
            for text, begin, side in ((left, (20, 20), 38), (right, (20, 76), 62)):
                if text:
                    arrow(axes, begin, (middle, side))
                    note(axes, (begin[0] + middle) / 2, (begin[1] + side) / 2, text, size=6.5, side="center")
        axes.set_title(f"{title}: {sum(total)} arrivals a k-block", fontsize=8.5, loc="left")
    return drawing


def multicast() -> Figure:
    """The loads of each CTA of the cluster, and their destinations."""
    name = "wgmma_multicast"
    sizes = constants(name)
    (m, n, _), consumers, size = tile_of(name), sizes["consumers"], sizes["cluster_m"]
    drawing, (axes,) = figure(9.6, 4.2)
    blank(axes, 160, 66)
    note(axes, 2, 0, "L2, one k-block")
    half = n // size
    parts = [f"A, rows 0-{m - 1}", f"B, columns 0-{half - 1}", f"B, columns {half}-{n - 1}", f"A, rows {m}-{2 * m - 1}"]
    colors = (BLUE, BLUE, ORANGE, ORANGE)
    for number, (text, color) in enumerate(zip(parts, colors, strict=True)):
        box(axes, (5, number * 41, 9, 37), color, text, size=7.5)
    for cta in range(size):
        left = cta * 84
        note(axes, 62, left, f"SMEM of CTA {cta}: full = 1 arrival and {sizes['stage_bytes']:,} bytes", size=7)
        slots = ((parts[cta * 3], colors[cta * 3]), (parts[1], BLUE), (parts[2], ORANGE))
        for number, (text, color) in enumerate(slots):
            box(axes, (50, left + number * 25.5, 8, 25), color, text.replace("columns ", "cols "), pale=True, size=6.5)
            source = (cta * 3, 1, 2)[number]
            arrow(axes, (14, source * 41 + 18.5), (50, left + number * 25.5 + 12.5), color)
    title = "Blue: ordered by CTA 0, orange: by CTA 1. Each half of B is read once and arrives in both"
    arrivals = f"empty = {size * consumers} arrivals: of {consumers} consumers in each of {size} CTAs"
    axes.set_title(f"{title}\n{arrivals}", fontsize=8.5, loc="left")
    return drawing


def registers() -> Figure:
    """The register file as it is shared out at launch and after setmaxnreg, and a tile's first products."""
    name = "wgmma_registers"
    sizes = constants(name)
    launched = 65536 // sizes["threads"] // 8 * 8
    after = [sizes["producer_registers"], *[sizes["consumer_registers"]] * sizes["consumers"]]
    drawing, (above, below) = figure(9.6, 3.6, nrows=2, height_ratios=(1.5, 1))
    blank(above, 512, 92)
    for row, shares, title in ((8, [launched] * len(after), "launched"), (56, after, "after setmaxnreg")):
        begin = 0
        for number, share in enumerate(shares):
            who = f"consumer {number - 1}" if number else "producer"
            box(above, (row, begin, 30, share), GREEN if number else BLUE, f"{who}\n{share}", pale=number == 0, size=7)
            begin += share
        sums = f"{' + '.join(map(str, shares))} = {sum(shares)}"
        note(above, row - 5, 0, f"{title}: {sums}, times 128 threads: {128 * sum(shares):,} registers")
    zero, step, blocks = 3.0, 10.0, 3
    rows: dict[str, list[Span]] = {"before": [(0, zero, "= 0", STORE)], "here": []}
    for block in range(blocks):
        operation = "+=" if block else "="
        rows["before"].append((zero + block * step, zero + (block + 1) * step, f"+= k-block {block}", MULTIPLY))
        rows["here"].append((block * step, (block + 1) * step, f"{operation} k-block {block}", MULTIPLY))
    timeline(below, rows, "Accumulators of a tile: the first wgmma overwrites them")
    return drawing


def async_store() -> Figure:
    """From registers to SMEM to out, and the banks of one store."""
    name = "wgmma_async_store"
    m, n, k = tile_of(name)
    drawing, (left, right) = figure(9.6, 2.9, ncols=2)
    blank(left, 100, 40, "A warp's results of one tile")
    box(left, (6, 0, 18, 24), GREEN, f"registers\n16x{n}", size=7.5)
    box(left, (6, 38, 18, 24), ORANGE, f"SMEM, 16 rows\nof {2 * n} bytes", size=7.5)
    box(left, (6, 76, 18, 24), BLUE, f"out\nbox 16x{n}", size=7.5)
    arrow(left, (15, 24), (15, 38))
    arrow(left, (15, 62), (15, 76))
    note(left, 29, 31, "st.shared", size=7, side="center")
    note(left, 29, 69, "TMA", size=7, side="center")
    note(left, 36, 69, "while the next tile is multiplied", size=7, side="center")
    line = of_line(name, (2 * m, n, k), "ladder/wgmma_async_store.cuh", "*reinterpret_cast<uint32_t*>(&staging")[0]
    rows_on_banks(
        right,
        line.offsets.tolist(),
        line.width,
        "One store of a warp, 4 bytes per lane",
        lambda at: f"row {at // (2 * n)}",
    )
    return drawing


def hilbert() -> Figure:
    """Both orders of the clusters' tiles of 4096^2, in waves."""
    name = "wgmma_hilbert"
    sizes = constants(name)
    rows, columns = CUBE // sizes["tile_m"] // sizes["cluster_m"], CUBE // sizes["tile_n"]
    wave = ctas(name) // sizes["cluster_m"]
    drawing, (left, right) = figure(9.6, 5.0, ncols=2)
    curve = walk(lambda i: hilbert_tile(i, rows, columns), rows * columns)
    blocks = walk(lambda i: blocked_tile(i, rows, columns, sizes["block_m"], sizes["block_n"]), rows * columns)
    order(left, curve, (rows, columns), wave, f"Hilbert's curve, waves of {wave} clusters")
    order(right, blocks, (rows, columns), wave, f"Blocks of {sizes['block_m']}x{sizes['block_n']} clusters")
    return drawing


def stmatrix() -> Figure:
    """The lane that gives each chunk's address, and the banks of eight chunks."""
    name = "wgmma_stmatrix"
    m, n, k = tile_of(name)
    request = of_line(name, (2 * m, n, k), "ladder/wgmma_stmatrix.cuh", "stmatrix_x4(")[0]
    drawing, (left, right) = figure(9.6, 3.6, ncols=2)
    blank(left, 8, 16)
    for lane, offset in zip(request.lanes, request.offsets.tolist(), strict=True):
        row, chunk = offset // ROW_BYTES, offset % ROW_BYTES // CHUNK_BYTES
        box(left, (row, chunk, 1, 1), (BLUE, ORANGE, GREEN, PURPLE)[lane // 8], f"lane {lane}", size=5.5)
    left.set_aspect("auto")
    for chunk in range(9):
        left.axvline(chunk, color="#d0d5d9", linewidth=0.4)
    left.set_title(
        "16 rows of a panel of 64 columns: the lane that gives each chunk's address\none color per 8x8 block",
        fontsize=8.5,
        loc="left",
    )
    eight = request.offsets[:8].tolist()
    rows_on_banks(
        right,
        eight,
        request.width,
        "The block of lanes 0 to 7: 8 rows of 16 bytes",
        lambda at: f"row {at // ROW_BYTES}",
    )
    return drawing


def wgmma() -> Figure:
    """Slots and stores over three tiles."""
    drawing, (axes,) = figure(9.6, 2.8)
    rows = ring("wgmma", 4, 3, overlapped=True).rows()
    timeline(axes, rows, "A tile's results (packed in registers) are stored behind the next tile's products", CLOCKS)
    return drawing


PICTURES: dict[str, Callable[[], Figure]] = {
    "wgmma_basic": basic,
    "wgmma_larger_tile": larger_tile,
    "wgmma_pipelined": pipelined,
    "wgmma_two_consumers": two_consumers,
    "wgmma_persistent": persistent,
    "wgmma_lean_barriers": lean_barriers,
    "wgmma_multicast": multicast,
    "wgmma_registers": registers,
    "wgmma_async_store": async_store,
    "wgmma_hilbert": hilbert,
    "wgmma_stmatrix": stmatrix,
    "wgmma": wgmma,
}
