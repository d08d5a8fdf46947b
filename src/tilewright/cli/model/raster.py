"""The topic `raster`: the order in which CTAs take tiles, and what L2 makes of it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, TileOption, whole_numbers
from tilewright.cli.options import FactorName
from tilewright.cli.output import columns, compact, console

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@command
def raster(
    output: PictureOptions,
    m: Annotated[int, typer.Argument(help="Rows of the result.", show_default=False)],
    n: Annotated[int, typer.Argument(help="Columns of the result.", show_default=False)],
    k: Annotated[
        int | None,
        typer.Argument(help="Length of the sums; with it, L2 and HBM are simulated.", show_default=False),
    ] = None,
    tile: TileOption = "128,256,64",
    block: Annotated[
        list[str] | None,
        typer.Option("--block", help="M,N of blocks of tiles; may be given several times.", show_default="4,4"),
    ] = None,
    group: Annotated[
        list[int] | None, typer.Option("--group", help="Rows of tiles of a band; also several.", show_default=False)
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(
            "--order",
            help="An order of your own: an expression of index, tiles_m and tiles_n that gives the number of the "
            "index-th tile, row by row from 0 on; also several.",
            show_default=False,
        ),
    ] = None,
    sms: Annotated[
        int | None, typer.Option("--sms", help="SMs that work; by default all of --chip.", show_default=False)
    ] = None,
    dtype: Annotated[FactorName, typer.Option("--dtype", help="Element type of A and B.")] = FactorName.bf16,
    chip: Chip = "H200",
) -> None:
    """The order of tiles: rows of A and columns of B that waves read, L2's hit rate, and bytes from HBM.

    \b
    Examples:
      tilewright model raster 8 8 --tile 1,1,1 --sms 10 --block 5,2 --block 4,4 --plot raster.svg
      tilewright model raster 4096 4096 4096 --block 12,11 --group 8
      tilewright model raster 8 8 --tile 1,1,1 --sms 10 --order "index%tiles_m*tiles_n+index//tiles_m"
      tilewright model raster 1024 2048 512 --dtype fp32 --chip A100 --json
    """
    from tilewright.dtypes import parse
    from tilewright.model.chips import chip_of
    from tilewright.model.schedules import TileSizes, schedule_of, schedule_reads, schedules
    from tilewright.rounding import ceil_div, natural

    gpu = chip_of(chip)
    tile_m, tile_n, tile_k = whole_numbers(tile, "--tile", "M,N,K")
    sizes = TileSizes(tile_m, tile_n, tile_k, parse(dtype, "--dtype").nbytes)
    for name, value in (("M", m), ("N", n)):
        natural(name, value, 1)
    slots = natural("--sms", gpu.gpu.sm_count if sms is None else sms, 1)
    blocks = [whole_numbers(each, "--block", "M,N") for each in block or ["4,4"]]
    extents = ceil_div(m, sizes.m), ceil_div(n, sizes.n)
    found = schedules(*extents, slots, [(rows, columns) for rows, columns in blocks], group or [])
    found += [schedule_of(each, *extents, slots) for each in order or ()]
    record: dict[str, Any] = {
        "chip": gpu.name, "m": m, "n": n, "k": k, "tile": asdict(sizes), "sms": slots, "tiles": list(extents),
        "schedules": [schedule.as_dict() for schedule in found],
    }  # fmt: skip
    heading = ["order of tiles", "waves", "A and B", "a wave"]
    rows = [[each.name, f"{len(each.waves):,}", f"{sum(each.operands):,}",
             f"{sum(each.operands) / len(each.waves):.1f}"] for each in found]  # fmt: skip
    title = f"{extents[0]} x {extents[1]} tiles on {slots} SMs"
    if k is not None:
        heading += ["L2 hits", "bytes of L2", "of HBM", "times the least"]
        for row, each, shown in zip(rows, found, record["schedules"], strict=True):
            shown |= schedule_reads(each, (m, n, natural("K", k, 1)), sizes, gpu.l2_bytes).as_dict()
            sizes_of = (compact(shown[name]) for name in ("l2_bytes", "hbm_bytes"))
            row += [f"{shown['hit_rate']:.1%}", *sizes_of, f"{shown['hbm_bytes'] / shown['least_bytes']:.2f}"]
        title += f", and an L2 of {gpu.l2_bytes >> 20} MiB ({gpu.name})"

    def show() -> None:
        console().print(title, style="italic", markup=False)
        columns([heading, *rows], indent=2, gap=2, headings=1)
        if k is not None:
            least = record["schedules"][0]["least_bytes"]
            console().print(f"the least: each element of A and B once, {least:,} bytes", markup=False)

    def draw() -> "Figure":
        from tilewright.plots.raster import filmstrip

        return filmstrip(found, extents, title)

    output.show(record, show, draw)
