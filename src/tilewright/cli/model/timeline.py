"""The topic `timeline`: when an SM loads, multiplies, waits and stores, and when its tensor cores do nothing."""

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions
from tilewright.cli.model.cut import Cut, CutOptions, K, M, N
from tilewright.cli.output import columns as columns_of
from tilewright.cli.output import table
from tilewright.errors import ArgumentValueError
from tilewright.rounding import ceil_div, natural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.checking.product import Product

MOST_BLOCKS = 2000
"""Blocks of k of an SM, which take the emulator some ten seconds."""
SHOWN = 8
"""The longest gaps that people see."""


@command
def timeline(
    output: PictureOptions,
    m: M,
    n: N,
    k: K,
    options: CutOptions,
    tiles: Annotated[
        int | None,
        typer.Option("--tiles", help="Tiles of the SM; by default all that it makes.", show_default=False),
    ] = None,
) -> None:
    """When one SM loads, multiplies, waits and stores, and where its tensor cores have nothing to do.

    The kernel runs in the emulator, which says what each warp does in which order; the model gives clocks to it. Other
    SMs do not slow it down, so this is the least time. For kernels that load by TMA or cp.async into tensor cores:
    wgmma, mma, and rungs that do so.

    \b
    Examples:
      tilewright model timeline 4096 4096 512 --tiles 2
      tilewright model timeline 4096 4096 4096 --json
      tilewright model timeline 2048 2048 512 --kernel wgmma_basic --plot timeline.svg
      tilewright model timeline 4096 4096 512 --chip A100
    """
    from tilewright.checking.timeline import record as record_of
    from tilewright.model.timeline import latencies_of, play

    cut = options.of(m, n, k)
    latencies = latencies_of(cut.chip)
    block, gpu = cut.blocking.cluster, cut.chip.gpu
    ctas, persistent = _launched(cut)
    clusters = ceil_div(cut.solved.m, block.m) * ceil_div(cut.solved.n, block.n)
    most = ceil_div(clusters, gpu.clusters(ctas)) if persistent else 1
    count = most if tiles is None else min(natural("--tiles", tiles, 1), most)
    blocks = count * ceil_div(k, cut.constants.tile_k)
    if blocks > MOST_BLOCKS:
        raise ArgumentValueError(
            f"--tiles={count} of k={k} are {blocks} blocks of k, and {MOST_BLOCKS} take the emulator long enough: use "
            "fewer tiles, or a smaller k"
        )
    product = _part(cut, block.m * count, block.n)
    line = play(record_of(cut.kernel, cut.config, product, gpu), latencies)
    gaps = sorted(line.gaps(), key=lambda gap: gap[0] - gap[1])
    part = "the tile" if most == 1 else f"{count} of the {most} tiles"
    title = f"{cut.title} on {cut.chip.name}: {part} of a CTA"
    record = {**cut.as_dict(), "tiles": count, "latencies": latencies._asdict(), **line.as_dict()}

    def show() -> None:
        busy = line.busy()
        table(title, {
            "clocks": f"{line.end:,.0f}",
            "tensor cores busy": f"{busy:,.0f} ({busy / line.end:.1%})",
            "loads in flight": f"{line.busy('load'):,.0f}",
            "stores in flight": f"{line.busy('store'):,.0f}",
        })  # fmt: skip
        cells = [("gap of the tensor cores", "from", "to", "clocks")]
        for begin, end in gaps[:SHOWN]:
            name = "before the first" if not begin else "after the last" if end == line.end else "between"
            cells.append((name, f"{begin:,.0f}", f"{end:,.0f}", f"{end - begin:,.0f}"))
        if len(gaps) > SHOWN:
            short = gaps[SHOWN:]
            cells.append((f"... and {len(short)} shorter", "", "", f"{sum(end - begin for begin, end in short):,.0f}"))
        columns_of(cells, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.timeline import of_cta

        return of_cta(line, title)

    output.show(record, show, draw)


def _launched(cut: Cut) -> tuple[int, bool]:
    """CTAs of a cluster, and whether CTAs stay and make several tiles."""
    shape = cut.kernel.assemble(cut.config, cut.problem, cut.chip.gpu).shape
    return shape.cluster, shape.grid <= cut.chip.gpu.sm_count and cut.constants.split_k == 1


def _part(cut: Cut, rows: int, columns: int) -> "Product":
    """The product of some tiles, as the kernel solves it, in the operands' own layout."""
    from tilewright.checking.product import Product

    problem = cut.problem
    m, n = (rows, columns) if cut.solved is problem else (columns, rows)
    layout = "".join("tn"[matrix.is_row_major] for matrix in (problem.a, problem.b))
    return Product(m, n, problem.k, problem.a.dtype, problem.out.dtype, layout)
