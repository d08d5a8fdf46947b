"""The topics `wgmma` and `swap-ab`: the clocks of a tensor-core instruction, and which operand should be its A."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, Record, recorded
from tilewright.cli.output import columns, console, number, table
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SourceName(StrEnum):
    """Where a wgmma finds its A."""

    smem = "smem"
    registers = "registers"


@command
def wgmma(
    output: PictureOptions,
    n: Annotated[int | None, typer.Option("--n", help="Columns of B; by default a table of all.")] = None,
    source: Annotated[SourceName, typer.Option("--source", help="Where A is; B is in shared memory.")] = (
        SourceName.smem
    ),
    record: Record = None,
    by_kind: Annotated[
        bool, typer.Option("--by-kind", help="With --record, show each type and each way in which A and B are stored.")
    ] = False,
    chip: Chip = "H200",
) -> None:
    """How many clocks a wgmma takes, and whether it multiplies or waits for shared memory.

    \b
    Examples:
      tilewright model wgmma --n 64 --chip H20
      tilewright model wgmma --chip H800
      tilewright model wgmma --source registers --json
      tilewright model wgmma --chip H100 --plot wgmma.svg

    Measured clocks are those of bf16 stored along k. With --by-kind, bf16:K:MN has A stored along k and B along n.
    """
    from tilewright.hardware import WGMMA_N
    from tilewright.model.chips import chip_of
    from tilewright.model.wgmma_time import MEASURED, least_full_n, wgmma_time

    gpu = chip_of(chip).gpu
    measured: dict[int, float] = dict(MEASURED.get(gpu.name, {})) if source == SourceName.smem else {}
    kinds: dict[str, dict[int, float]] = {}
    if record is not None:
        kinds = _recorded(record, gpu.name, source)
        measured = kinds.get("bf16:K:K" if source == SourceName.smem else "bf16:registers:K", {})
    elif by_kind:
        raise ArgumentValueError(
            "--by-kind is about measurements: give --record, too, such as results/wgmma_clocks_h200.json"
        )
    heading = "published" if record is None else "measured"
    times = [wgmma_time(gpu, each, source.value) for each in (WGMMA_N if n is None else [n])]
    least = least_full_n(gpu, source.value)
    place = "SMEM" if source == SourceName.smem else "registers"
    found = {
        "chip": gpu.name, "least_full_n": least,
        "times": [
            {
                **time.as_dict(), "measured": measured.get(time.n),
                "by_kind": {kind: clocks[time.n] for kind, clocks in kinds.items() if time.n in clocks},
            }
            for time in times
        ],
    }  # fmt: skip

    def show() -> None:
        if by_kind:
            rows_of_kinds = [("n", "clocks", *kinds)]
            for time in times:
                clocks = (number(known[time.n]) if time.n in known else "" for known in kinds.values())
                rows_of_kinds.append((str(time.n), f"{time.clocks:g}", *clocks))
            columns(rows_of_kinds, gap=3, headings=1)
            return
        if n is not None:
            (time,) = times
            rows: dict[str, object] = {
                "multiply": f"{time.multiply:g} clocks", "read A": f"{time.read_a:g} clocks",
                "read B": f"{time.read_b:g} clocks", "a wgmma": f"{time.clocks:g} clocks", "bound by": time.bound,
                "of the peak": f"{time.share:.1%}", "the least full n": least,
            }  # fmt: skip
            if n in measured:
                rows[heading] = f"{measured[n]:g} clocks"
            table(f"64 x {n} over 32 bytes of k on {gpu.name}, A in {place}", rows)
            return
        cells: list[tuple[str, ...]] = [
            ("n", "multiply", "read A", "read B", "clocks", *[heading] * bool(measured), "of the peak")
        ]
        for time in times:
            known = [number(measured[time.n]) if time.n in measured else ""] * bool(measured)
            parts = (f"{clocks:g}" for clocks in (time.multiply, time.read_a, time.read_b, time.clocks))
            cells.append((str(time.n), *parts, *known, f"{time.share:.1%}"))
        columns(cells, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.multiply import clocks_by_n

        every = [wgmma_time(gpu, each, source.value) for each in WGMMA_N]
        return clocks_by_n(every, measured, f"{gpu.name}, A in {place}: clocks of a wgmma by its columns n")

    output.show(found, show, draw)


def _recorded(path: Path, chip: str, source: SourceName) -> dict[str, dict[int, float]]:
    """The clocks by kind and n, with A in one place, of as many warpgroups as took least; an ArgumentValueError."""
    found: dict[str, dict[int, float]] = {}
    for case in recorded(path, "wgmma", chip)["cases"]:
        in_registers = ":registers:" in case["kind"]
        if in_registers == (source == SourceName.registers) and case["median"] is not None:
            clocks = found.setdefault(case["kind"], {})
            clocks[case["n"]] = min(case["median"], clocks.get(case["n"], case["median"]))
    return found


ROWS = (8, 16, 24, 32, 40, 48, 56, 64)
"""The numbers of rows for which the adviser prints a table."""


@command
def swap_ab(
    output: PictureOptions,
    m: Annotated[int | None, typer.Option("--m", help="Rows of activations; by default a table up to 64.")] = None,
    chip: Chip = "H200",
) -> None:
    """Whether a product of few rows gains if A and B change places: wgmma before and after, and HBM.

    \b
    Examples:
      tilewright model swap-ab --chip H20
      tilewright model swap-ab --m 16 --chip H20
      tilewright model swap-ab --chip H100 --json
      tilewright model swap-ab --chip H20 --plot swap.svg
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.swap_ab import swap_advice

    gpu = chip_of(chip).gpu
    found = [swap_advice(gpu, each) for each in (ROWS if m is None else [m])]
    record = {"chip": gpu.name, "advice": [advice.as_dict() for advice in found]}

    def show() -> None:
        cells: list[tuple[str, ...]] = [("rows", "as it is", "swapped", "HBM", "waits for", "gain", "gain if on chip")]
        for each in found:
            clocks = (f"{part:.0f}" for part in (each.unswapped, each.swapped, each.hbm))
            gains = (f"{gain:.2f}" for gain in (each.gain, each.gain_on_chip))
            cells.append((str(each.m), *clocks, each.limit, *gains))
        title = f"clocks of an SM of {gpu.name} for 64 rows by 32 bytes of the weight"
        console().print(title, style="italic", markup=False)
        columns(cells, indent=2, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.multiply import swapping

        return swapping([swap_advice(gpu, rows) for rows in range(1, 129)], gpu.name)

    output.show(record, show, draw)
