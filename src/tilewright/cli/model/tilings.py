"""The topics `tiling`, `block`, `loops` and `chains`: what a kernel's blocks read, and why."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import Gives, command
from tilewright.cli.model.common import PictureOptions, Record, recorded, whole_numbers
from tilewright.cli.model.cut import CutOptions, K, M, N
from tilewright.cli.options import Json
from tilewright.cli.output import columns, compact, console, print_json, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@command
def tiling(output: PictureOptions, m: M, n: N, k: K, options: CutOptions) -> None:
    """What a kernel's tiles read of GMEM, L2, SMEM and registers, and the operations for each byte.

    \b
    Examples:
      tilewright model tiling 4096 4096 4096
      tilewright model tiling 4096 4096 4096 --config tile_m=64,tile_n=64,cluster_m=1,cluster_n=1
      tilewright model tiling 4096 4096 4096 --kernel simt --chip A100 --json
      tilewright model tiling 4096 4096 4096 --kernel mma --plot tiling.svg
    """
    cut = options.of(m, n, k)

    def show() -> None:
        names = ("level", "read by", "block", "bytes read", "written", "FLOP per byte", "FMA per word of a full block")
        cells = [names]
        for level in cut.levels:
            block = f"{level.block.m} x {level.block.n}"
            sizes = (compact(level.read_bytes), compact(level.written_bytes))
            rates = (f"{level.intensity:,.1f}", f"{level.fma_per_word:,.1f}")
            cells.append((level.name, level.reader, block, *sizes, *rates))
        columns(cells, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.tilings import by_level

        return by_level(cut.levels, cut.blocking, cut.title)

    output.show(cut.as_dict(), show, draw)


@command
def block(
    output: PictureOptions,
    size: Annotated[str, typer.Argument(help="M,N of a block of the result.", show_default=False)],
) -> None:
    """The multiply-adds for each element that a block reads, and all blocks of as many elements: why square.

    \b
    Examples:
      tilewright model block 8,8
      tilewright model block 64,256 --json
      tilewright model block 8,16 --plot square.svg
    """
    from tilewright.model.tiling.levels import Block, best_fma_per_word, blocks_of, fma_per_word

    mine = Block(*whole_numbers(size, "SIZE", "M,N"))
    rate = fma_per_word(mine)
    elements = mine.m * mine.n
    others = {each: fma_per_word(each) for each in blocks_of(elements)}
    best = best_fma_per_word(elements)
    record = {
        "m": mine.m, "n": mine.n, "fma_per_word": rate, "best": best,
        "blocks": [{"m": each.m, "n": each.n, "fma_per_word": value} for each, value in others.items()],
    }  # fmt: skip

    def show() -> None:
        cells = [("block", "reads for each k", "multiply-adds", "per word")]
        for each, value in others.items():
            mark = " <-" if each == mine else ""
            cells.append((f"{each.m} x {each.n}{mark}", f"{each.m + each.n:,}", f"{elements:,}", f"{value:,.2f}"))
        columns(cells, gap=3, headings=1)
        table("", {"a square of as many elements": f"{best:,.2f}"})

    def draw() -> "Figure":
        from tilewright.plots.tilings import by_shape

        return by_shape(others, mine, f"multiply-adds per word of blocks of {elements:,} elements")

    output.show(record, show, draw)


@command
def loops(m: M, n: N, k: K, as_json: Json = False) -> None:
    """The six orders of the loops over m, n and k: loads and stores of A, B and C, and what stays in a register.

    \b
    Examples:
      tilewright model loops 1024 1024 1024
      tilewright model loops 2 3 4 --json
    """
    from tilewright.model.tiling.loop_orders import INDICES, ORDERS, loop_order

    found = [loop_order(order, m, n, k) for order in ORDERS]
    if as_json:
        print_json({"m": m, "n": n, "k": k, "orders": [order.as_dict() for order in found]})
        return
    cells: list[tuple[str, ...]] = [
        ("loops", "loads of A", "of B", "of C", "stores of C", "all", "kept", "step of A", "of B", "of C", "inside")
    ]
    for order in found:
        loads = (compact(order.loads[name]) for name in INDICES)
        steps = (f"{order.strides[name]:,}" for name in INDICES)
        last = (compact(order.stores["C"]), compact(order.accesses), order.kept, *steps, order.form)
        cells.append((" ".join(order.order), *loads, *last))
    columns(cells, gap=3, headings=1)


@command
def chains(
    output: PictureOptions,
    length: Annotated[int, typer.Argument(help="Operations of a chain, each of which needs the one before.")] = 3,
    count: Annotated[
        int, typer.Option("--chains", help="Chains that do not depend on each other."), Gives("chains")
    ] = 1,
    latency: Annotated[
        int, typer.Option("--latency", help="Clocks until a result can be used; 4 for a multiply-add.")
    ] = 4,
    interval: Annotated[int, typer.Option("--interval", help="Clocks between two operations that are issued.")] = 1,
    warps: Annotated[int, typer.Option("--warps", help="Warps of the scheduler, each with so many chains.")] = 1,
    record: Record = None,
) -> None:
    """How long chains of dependent operations take, and how many chains hide their latency.

    The picture shows long chains of multiply-adds, and the clocks of --record beside them, of `bench micro fma`.

    \b
    Examples:
      tilewright model chains 3
      tilewright model chains 1 --chains 3
      tilewright model chains 1000 --warps 4
      tilewright model chains 1000 --chains 8 --latency 30 --interval 2 --json
      tilewright model chains 1000 --plot chains.svg
    """
    from tilewright.model.tiling.chains import chain_clocks, chains_to_fill

    measured = None if record is None else recorded(record, "fma", None)
    cases = [] if measured is None else [case for case in measured["cases"] if case["median"] is not None]
    clocks, least = chain_clocks(length, count, latency, interval, warps), chains_to_fill(latency, interval)
    operations = length * count * warps
    content = {
        "length": length, "chains": count, "latency": latency, "interval": interval, "warps": warps, "clocks": clocks,
        "share": operations * interval / clocks, "chains_to_fill": least,
    } | ({} if measured is None else {"measured": cases})  # fmt: skip

    def show() -> None:
        rows: dict[str, object] = {
            "operations": operations, "clocks": clocks, "of the rate": f"{operations * interval / clocks:.1%}",
            "chains of a warp that hide the latency": least,
        }  # fmt: skip
        place = f" in each of {warps} warps" if warps > 1 else ""
        table(f"{count:,} chain{'s' * (count > 1)} of {length:,} operations, of {latency:,} clocks each{place}", rows)
        if measured is not None:
            _show_measured_chains(cases, measured["gpu"])

    def draw() -> "Figure":
        from tilewright.plots.tilings import clocks_of_chains

        return clocks_of_chains(cases, "" if measured is None else measured["gpu"])

    output.show(content, show, draw)


def _show_measured_chains(cases: Sequence[Mapping[str, Any]], gpu: str) -> None:
    """The clocks of multiply-adds, and those of the model in brackets."""
    from tilewright.model.tiling.chains import SCHEDULERS, operation_clocks
    from tilewright.rounding import ceil_div

    title = f"\nclocks of a scheduler for each multiply-add on {gpu} (and by the model)"
    console().print(title, style="italic", markup=False)
    by_case = {}
    for case in cases:
        model = operation_clocks(case["chains"], warps=ceil_div(case["warps"], SCHEDULERS))
        by_case[case["chains"], case["warps"]] = f"{case['median']:.2f} ({model:.2f})"
    counts = sorted({warps for _, warps in by_case})
    rows = [("chains of a warp", *(f"{warps} warp{'s' * (warps > 1)} an SM" for warps in counts))]
    rows += [
        (str(chains), *(by_case.get((chains, warps), "-") for warps in counts))
        for chains in sorted({chains for chains, _ in by_case})
    ]
    columns(rows, indent=2, gap=2, headings=1)
