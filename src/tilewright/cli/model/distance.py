"""The topics `dram` and `dsmem`: rows and strides of HBM, and how far away each memory is."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, Record, recorded, whole_numbers
from tilewright.cli.output import columns, console, number, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEPS = {"load": "loads from", "atomic": "atomics in", "index": "indices from"}
"""What steps of a chain do, for people."""
STRIDES = (32, 64, 128, 256, 512, 1024, 4096)


@command
def dram(
    output: PictureOptions,
    matrix: Annotated[
        str, typer.Option("--matrix", help="Rows and columns of a row-major matrix that is walked.")
    ] = "1024,1024",
    element_bytes: Annotated[int, typer.Option("--element-bytes", help="Bytes of its elements.")] = 4,
    banks: Annotated[
        int | None, typer.Option("--banks", help="Banks that serve it.", show_default="1, and all of --chip")
    ] = None,
    record: Record = None,
    chip: Chip = "H200",
) -> None:
    """DRAM: rows that a walk through a matrix opens, and what a stride costs.

    \b
    Examples:
      tilewright model dram
      tilewright model dram --matrix 1024,1000 --banks 512
      tilewright model dram --chip A100 --json
      tilewright model dram --plot dram.svg
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.memory.dram import FETCHES, ROW_BYTES, ROW_CYCLE, dram_of, walk
    from tilewright.rounding import natural

    gpu = chip_of(chip)
    found = dram_of(gpu)
    rows, across = whole_numbers(matrix, "--matrix", "ROWS,COLUMNS")
    counts = (1, found.banks) if banks is None else (natural("--banks", banks, 1, found.banks),)
    walks = {
        (count, down): walk(rows, across, element_bytes, count, down=down)
        for count in counts for down in (False, True)
    }  # fmt: skip
    cases = [] if record is None else recorded(record, "strides", gpu.name)["cases"]
    measured: dict[int, dict[int, float]] = {}  # by what L2 may fetch, and by stride
    for case in cases:
        if case["measured"] is not None:
            measured.setdefault(case["fetch"], {})[case["stride"]] = case["measured"]
    strides = sorted({stride for rates in measured.values() for stride in rates}) or STRIDES
    bounds = {fetch: [found.strided_bandwidth(stride, fetch) for stride in strides] for fetch in FETCHES}
    title = f"{gpu.memory} of {gpu.name}"
    content: dict[str, Any] = {
        "chip": gpu.name, **found._asdict(), "row_bytes": ROW_BYTES, "row_cycle": ROW_CYCLE,
        "walks": [{"banks": count, "down": down, **each.as_dict()} for (count, down), each in walks.items()],
        "strides": [
            {"stride": stride, "fetch": fetch, "bandwidth": bound}
            for fetch, rates in bounds.items() for stride, bound in zip(strides, rates, strict=True)
        ],
        "measured": cases,
    }  # fmt: skip

    def show() -> None:
        table(title, {
            "stacks": found.stacks, "pseudo channels": found.channels, "banks": found.banks,
            "KiB of open rows": found.banks * ROW_BYTES >> 10,
            "rows opened in a microsecond, at most": f"{found.row_rate / 1e6:,.0f}",
        })  # fmt: skip
        shown = [("TB/s, for one sector in bytes", *(f"{stride:,}" for stride in strides))]
        for fetch, rates in bounds.items():
            shown.append((f"L2 fetches {fetch}: at most", *(f"{rate / 1e12:.2f}" for rate in rates)))
            if known := measured.get(fetch):
                rated = (f"{known[stride] / 1e12:.2f}" if stride in known else "-" for stride in strides)
                shown.append(("  measured", *rated))
        columns(shown, indent=2, gap=2, headings=1)
        console().print(f"\n{rows} x {across} elements of {element_bytes} bytes", style="italic", markup=False)
        lines = [("walk", "banks", "sectors", "rows opened", "sectors a row")]
        lines += [
            ("down columns" if down else "along rows", f"{count:,}", f"{each.sectors:,}", f"{each.activations:,}",
             f"{each.sectors_per_row:.1f}")
            for (count, down), each in walks.items()
        ]  # fmt: skip
        columns(lines, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.distance import rows_and_strides

        return rows_and_strides(strides, bounds, measured, f"one sector of each stride, {title}")

    output.show(content, show, draw)


@command
def dsmem(output: PictureOptions, record: Record = None, chip: Chip = "H200") -> None:
    """How far away memories are: SMEM, L1, the SMEM of another SM (DSMEM), L2 and DRAM, in clocks.

    \b
    Examples:
      tilewright model dsmem
      tilewright model dsmem --chip A100
      tilewright model dsmem --chip H800 --json
      tilewright model dsmem --plot dsmem.svg
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.memory.dsmem import levels

    gpu = chip_of(chip)
    found = levels(gpu)
    title = f"{gpu.name} at {number(gpu.gpu.cuda_core_clock / 1e6)} MHz"
    cases = [] if record is None else recorded(record, "loads", gpu.name)["cases"]
    measured = {(case["place"], case["operation"]): case for case in cases if case["median"] is not None}
    content = {"chip": gpu.name, "levels": [level.as_dict() for level in found]}
    if measured:
        content["measured"] = list(measured.values())

    def show() -> None:
        console().print(title, style="italic", markup=False)
        rows: list[tuple[str, ...]] = [
            ("a load from", "clocks", "ns", "times SMEM", "bytes a clock", "bytes in flight")
        ]
        rows += [
            (level.name, str(level.clocks), f"{level.nanoseconds:.0f}", f"{level.clocks / found[0].clocks:.1f}",
             "-" if level.bytes_per_clock is None else f"{level.bytes_per_clock:.1f}",
             "-" if level.in_flight is None else f"{level.in_flight:,.0f}")
            for level in found
        ]  # fmt: skip
        columns(rows, indent=2, gap=2, headings=1)
        console().print("  -: nobody has published it")
        if not measured:
            return
        by_model: dict[tuple[str, str], int | None] = {(level.name, "load"): level.clocks for level in found}
        by_model |= {(level.name, "atomic"): level.atomic for level in found}
        by_model["SMEM", "index"] = found[0].clocks
        console().print("\nclocks of a step of a chain, measured on each SM", style="italic", markup=False)
        rows = [("chain", "model", "median", "least", "most")]
        rows += [
            (f"{_STEPS.get(step, step)} {place}", str(by_model.get((place, step)) or "-"),
             *(f"{case[part]:.1f}" for part in ("median", "least", "most")))
            for (place, step), case in measured.items()
        ]  # fmt: skip
        columns(rows, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.distance import clocks_to

        loads = {place: case for (place, step), case in measured.items() if step == "load"}
        return clocks_to(found, loads, f"{title}, as published")

    output.show(content, show, draw)
