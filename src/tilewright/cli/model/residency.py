"""The topics `occupancy` and `waves`: how many CTAs an SM holds, and how those of a product fall into waves."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import Gives, command
from tilewright.cli.model.common import Chip, PictureOptions, Record, recorded, whole_numbers
from tilewright.cli.output import columns, console, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.occupancy import Occupancy
    from tilewright.model.waves import Waves

MOST_SMS = 10_000
"""More than any chip has."""


@command
def occupancy(
    output: PictureOptions,
    threads: Annotated[int, typer.Option("--threads", help="Threads of a CTA.")] = 256,
    registers: Annotated[int, typer.Option("--registers", help="Registers of a thread, as `inspect` shows them.")] = 32,
    smem: Annotated[int, typer.Option("--smem", help="Bytes of shared memory of a CTA."), Gives("smem_bytes")] = 0,
    carveout: Annotated[
        int | None,
        typer.Option(
            "--carveout",
            help="Bytes of an SM that are shared memory, as the chip offers them; by default the most.",
            show_default=False,
        ),
    ] = None,
    record: Record = None,
    chip: Chip = "H200",
) -> None:
    """How many CTAs an SM holds at once, and which resource allows no more.

    `inspect` prints it for a kernel. The picture shows it for every number of registers. With --record of `bench micro
    occupancy`: what a second CTA gains.

    \b
    Examples:
      tilewright model occupancy --threads 1024 --registers 32 --chip H100-PCIe
      tilewright model occupancy --threads 384 --registers 168 --smem 232448
      tilewright model occupancy --threads 128 --registers 128 --smem 49152 --plot occupancy.svg --json
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.occupancy import occupancy as occupancy_of

    gpu = chip_of(chip).gpu
    held = occupancy_of(gpu, threads, registers, smem, carveout=carveout)
    content = {"chip": gpu.name, "threads": threads, "registers": registers, "smem_bytes": smem, **held.as_dict()}
    measured = None if record is None else recorded(record, "occupancy", gpu.name)
    if measured is not None:
        content["measured"] = measured["cases"]
    by_registers = partial(occupancy_of, gpu, threads, smem_bytes=smem, carveout=carveout)
    content["resident_ctas"] = held.ctas * gpu.sm_count

    def show() -> None:
        rows: dict[str, object] = {
            "by registers": held.by_registers,
            "by shared memory": "any number: none is taken" if held.by_smem is None else held.by_smem,
            "by warps": held.by_warps, "by CTAs": held.by_ctas,
            "CTAs per SM": f"{held.ctas or 'none: it cannot run'}, limited by {' and '.join(held.limits)}",
            "warps per SM": f"{held.warps} of {held.most_warps} ({held.share:.1%})",
            f"CTAs on {gpu.sm_count} SMs": held.ctas * gpu.sm_count,
        }  # fmt: skip
        table(f"{threads:,} threads of {registers} registers and {smem:,} bytes of SMEM a CTA on {gpu.name}", rows)
        if measured is not None:
            extents = " x ".join(str(measured[extent]) for extent in "mnk")
            console().print(f"\n{extents} in fp32, right after idle", style="italic", markup=False)
            cells: list[tuple[str, ...]] = [("rung", "registers", "CTAs per SM", "TFLOP/s")]
            cells += [
                (case["rung"], str(case["registers"]), str(case["ctas"]), f"{case['tflops']:.2f}")
                for case in measured["cases"] if case["tflops"] is not None
            ]  # fmt: skip
            columns(cells, indent=2, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.residency import by_registers as picture

        found: dict[int, Occupancy] = {count: by_registers(count) for count in range(1, 256)}
        return picture(found, registers, f"{threads:,} threads and {smem:,} bytes of SMEM a CTA on {gpu.name}")

    output.show(content, show, draw)


@command
def waves(
    output: PictureOptions,
    m: Annotated[int, typer.Argument(help="Rows of the result.", show_default=False)],
    n: Annotated[int, typer.Argument(help="Columns of the result.", show_default=False)],
    tile: Annotated[str, typer.Option("--tile", help="M,N of a tile."), Gives("tile_m", "tile_n")] = "128,256",
    ctas_per_sm: Annotated[int, typer.Option("--ctas-per-sm", help="CTAs that an SM holds: its occupancy.")] = 1,
    sms: Annotated[
        int | None, typer.Option("--sms", help="SMs that work; by default all of --chip.", show_default=False)
    ] = None,
    chip: Chip = "H200",
) -> None:
    """How the tiles of a result fall into waves, and what the edges and the last wave waste.

    \b
    Examples:
      tilewright model waves 4096 4096
      tilewright model waves 4096 4096 --tile 32,32 --ctas-per-sm 2 --chip H100-PCIe
      tilewright model waves 33 33 --tile 32,32 --sms 1 --json
      tilewright model waves 1000 3000 --tile 128,192 --plot waves.svg
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.waves import require_tile
    from tilewright.model.waves import waves as waves_of
    from tilewright.rounding import natural

    known = chip_of(chip)
    gpu = known.gpu
    tile_m, tile_n = whole_numbers(tile, "--tile", "M,N")
    count = natural("--sms", gpu.sm_count if sms is None else sms, 1, MOST_SMS)
    held = natural("--ctas-per-sm", ctas_per_sm, 1, known.limits.ctas)
    require_tile(tile_m, tile_n, held)
    found: Waves = waves_of(m, n, tile_m, tile_n, count * held)
    record = {"chip": gpu.name, "m": m, "n": n, "tile_m": tile_m, "tile_n": tile_n, "sms": count, **found.as_dict()}

    def show() -> None:
        rows = {
            "tiles": f"{found.tiles:,} = {found.tiles_m} x {found.tiles_n}",
            "at once": f"{found.slots:,} = {count:,} SMs x {ctas_per_sm:,}",
            "waves": f"{found.count:,} ({found.exact:.2f})",
            "tiles of the last wave": found.last,
            "slots with a tile": f"{found.busy:.1%}",
            "of a tile's elements, outside the result": f"{found.wasted:.1%}",
            "of the time, useful": f"{found.useful:.1%}",
        }
        table(f"{m} x {n} in tiles of {tile_m} x {tile_n} on {gpu.name}", rows)

    def draw() -> "Figure":
        from tilewright.plots.residency import last_wave

        return last_wave(found, m / tile_m, n / tile_n, f"{m} x {n} in tiles of {tile_m} x {tile_n} on {gpu.name}")

    output.show(record, show, draw)
