"""The topics `l1` and `l2`: what a loop of loads finds in L1, and what a product finds in both halves of L2."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, TileOption, whole_numbers
from tilewright.cli.output import columns, compact, console
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STEPS = 10
"""The steps that a table shows; --json has all."""


class ReplacementName(StrEnum):
    """The line that makes room for a new one."""

    lru = "lru"
    fifo = "fifo"


@command
def l1(
    output: PictureOptions,
    addresses: Annotated[
        str,
        typer.Argument(
            help="The address of each lane in bytes, as an expression of `lane`, `warp` and `step`.", show_default=False
        ),
    ],
    width: Annotated[int, typer.Option("--width", help="Bytes that each lane loads: 1, 2, 4, 8 or 16.")] = 4,
    steps: Annotated[int, typer.Option("--steps", help="Turns of the loop around the load.")] = 8,
    warps: Annotated[int, typer.Option("--warps", help="Warps of the SM, which take turns.")] = 1,
    smem: Annotated[
        int, typer.Option("--smem", help="Bytes of the array that are SMEM and not L1, as the chip offers them.")
    ] = 0,
    sets: Annotated[int, typer.Option("--sets", help="Sets of L1; four were found on Volta.")] = 4,
    replacement: Annotated[
        ReplacementName, typer.Option("--replacement", help="Replace the least recently used line, or the oldest.")
    ] = ReplacementName.lru,
    chip: Chip = "H200",
) -> None:
    """L1 as a flow: tags, sectors, validity and replacement, for a loop of loads by several warps.

    \b
    Examples:
      tilewright model l1 "lane*8192+step*4"
      tilewright model l1 "warp*262144+lane*8192+step*4" --warps 64 --steps 4 --smem 135168
      tilewright model l1 "lane*4+step*8192" --steps 4 --json
      tilewright model l1 "lane*8192+step*4" --steps 16 --plot l1.svg
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.memory.coalescing import LINE_BYTES
    from tilewright.model.memory.l1 import L1, flow_of, total
    from tilewright.rounding import natural

    gpu = chip_of(chip)
    array = gpu.generation.l1_bytes
    cache = L1(
        array - gpu.limits.offered(smem, "--smem"), natural("--sets", sets, 1, array // LINE_BYTES), replacement.value
    )
    natural("--warps", warps, 1, gpu.limits.warps)
    flows = flow_of(cache, addresses, width, steps, warps)
    found = total(flows)
    title = (
        f"{addresses}: {steps} steps of {warps} warp{'s' * (warps > 1)}, L1 of {(array - smem) >> 10} KiB ({gpu.name})"
    )

    def show() -> None:
        console().print(title, style="italic", markup=False)
        names = ("lines", "tag_clocks", "hits", "missing_sectors", "missing_lines", "evictions", "l2_bytes")
        rows: list[tuple[str, ...]] = [
            ("step", "tags", "clocks", "hits", "sector missing", "line missing", "replaced", "bytes from L2")
        ]
        rows += [(str(step), *(f"{getattr(flow, name):,}" for name in names)) for step, flow in enumerate(flows)][
            :MOST_STEPS
        ]
        if steps > MOST_STEPS:
            rows.append(("...", *[""] * len(names)))
        rows.append(("all", *(f"{getattr(found, name):,}" for name in names)))
        columns(rows, indent=2, gap=2, headings=1)
        console().print(f"  {found.hit_rate:.1%} of the sectors were there")

    def draw() -> "Figure":
        from tilewright.plots.caches import flow_through_l1

        return flow_through_l1(flows, title)

    record = {"chip": gpu.name, "l1_bytes": array - smem, "steps": [flow.as_dict() for flow in flows]}
    output.show({**record, "all": found.as_dict()}, show, draw)


@command
def l2(
    output: PictureOptions,
    m: Annotated[int, typer.Argument(help="Rows of the result.", show_default=False)],
    n: Annotated[int, typer.Argument(help="Columns of the result.", show_default=False)],
    k: Annotated[int, typer.Argument(help="Length of the sums.", show_default=False)],
    tile: TileOption = "128,256,64",
    chip: Chip = "H200",
) -> None:
    """L2 in two partitions: what a bf16 product finds in the near one, in the far one, and not at all.

    Three L2s of the same size are compared: one that is not divided, two halves where each line has its home in one,
    and two halves that also keep copies of what their SMs read from the other one.

    \b
    Examples:
      tilewright model l2 2048 2048 8192
      tilewright model l2 1024 2048 4096 --chip A100 --tile 128,128,64 --json
      tilewright model l2 2048 2048 4096 --plot l2.svg
    """
    from tilewright.dtypes import bf16
    from tilewright.model.chips import chip_of
    from tilewright.model.schedules import TileSizes, schedule_in_partitions, schedule_reads, schedules
    from tilewright.rounding import ceil_div, natural

    gpu = chip_of(chip)
    tile_m, tile_n, tile_k = whole_numbers(tile, "--tile", "M,N,K")
    for name, value in (("M", m), ("N", n), ("K", k)):
        natural(name, value, 1)
    if gpu.l2_partitions == 1:
        raise ArgumentValueError(
            f"--chip={gpu.name} has an L2 of one part: use A100 or a later GPU, or `tilewright model raster` for one L2"
        )
    sizes = TileSizes(tile_m, tile_n, tile_k, bf16.nbytes)
    found: list[dict[str, Any]] = []
    for order in schedules(ceil_div(m, tile_m), ceil_div(n, tile_n), gpu.gpu.sm_count):
        whole = schedule_reads(order, (m, n, k), sizes, gpu.l2_bytes).reads
        shares = {"one L2": (whole.hit_rate, 0.0, whole.missed)}
        for name, copies in (("two partitions", False), ("two, with copies", True)):
            reads = schedule_in_partitions(order, (m, n, k), sizes, gpu.l2_bytes, copies=copies)
            shares[name] = (reads.near / reads.nbytes, reads.far / reads.nbytes, reads.missed)
        found += [
            {"order": order.name, "l2": name, "near": near, "far": far, "hbm_bytes": missed}
            for name, (near, far, missed) in shares.items()
        ]
    title = f"{m} x {n} x {k} in tiles of {tile_m} x {tile_n}, an L2 of {gpu.l2_bytes >> 20} MiB ({gpu.name})"

    def show() -> None:
        console().print(title, style="italic", markup=False)
        rows = [("order of tiles, L2", "near", "far", "HBM", "bytes of HBM")]
        rows += [
            (f"{each['order']}, {each['l2']}", f"{each['near']:.1%}", f"{each['far']:.1%}",
             f"{1 - each['near'] - each['far']:.1%}", compact(each['hbm_bytes']))
            for each in found
        ]  # fmt: skip
        columns(rows, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.caches import near_and_far

        return near_and_far(found, title)

    output.show({"chip": gpu.name, "m": m, "n": n, "k": k, "l2_bytes": gpu.l2_bytes, "reads": found}, show, draw)
