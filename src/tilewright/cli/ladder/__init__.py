"""`tilewright ladder`: every kernel from naive to the state of the art, verified, and measured or counted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import records
from tilewright.cli.command import BAD_REQUEST, INTERRUPTED, NOT_VERIFIED, command
from tilewright.cli.options import (
    BackendName,
    BackendOption,
    DTypeName,
    Json,
    Seed,
    parse_shape,
    require_plot,
    wants_gpu,
)
from tilewright.cli.output import print_json, progress
from tilewright.errors import ArgumentValueError


@dataclass(frozen=True, slots=True)
class RungOptions:
    """The rungs to climb, and their options."""

    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            help="M,N,K, or one number for a cube. The articles use 4096^3, 1024^3, 8192^3 and 512x2048x1024.",
            show_default=False,
        ),
    ] = None
    rungs: Annotated[
        str | None,
        typer.Option("--rungs", help="Names of rungs, separated by commas; all by default.", show_default=False),
    ] = None
    dtype: Annotated[
        DTypeName | None,
        typer.Option("--dtype", help="Element type, for rungs that take several.", show_default=False),
    ] = None
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="Order of tiles in the persistent rungs.", show_default=False),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="A field of the rungs' Configs, such as accumulator=fp32; may be repeated.",
            metavar="NAME=VALUE",
            show_default=False,
        ),
    ] = None

    def climb(self, on_gpu: bool, settled: bool, counters: bool, seed: int) -> dict[str, Any]:
        """The record of these rungs."""
        from tilewright.ladder.climb import chosen, climb
        from tilewright.ladder.options import LadderOptions

        shape = None if self.shape is None else parse_shape(self.shape, "--shape")
        names = None if self.rungs is None else [name.strip() for name in self.rungs.split(",") if name.strip()]
        rungs = chosen(names, f"--rungs={self.rungs!r}")
        options = LadderOptions.parse(self.dtype and self.dtype.value, self.schedule, self.option or ())
        with progress("climbing") as bar:
            return climb(
                rungs,
                shape,
                options,
                on_gpu=on_gpu,
                named=names is not None,
                settled=settled,
                counters=counters,
                seed=seed,
                progress=bar,
            )


@command
def ladder(
    context: typer.Context,
    *,
    record: Annotated[
        Path | None,
        typer.Argument(help="A record that --json printed (.json), to be shown again or drawn.", show_default=False),
    ] = None,
    rungs: RungOptions,
    backend: BackendOption = BackendName.auto,
    settled: Annotated[bool, typer.Option("--settled", help="Measure at the power limit too (GPU).")] = False,
    counters: Annotated[
        bool,
        typer.Option("--counters", help="Instead of time, read the hardware's counters with Nsight Compute (GPU)."),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw a bar chart into this PNG, SVG or PDF.", show_default=False)
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Climb the ladder: each rung is verified against float64, then timed beside cuBLAS (GPU) or counted (emulator).

    With --counters, a GPU counts too: how long tensor cores work, and what warps wait for. It needs `ncu`.

    A record that --json printed is shown again on any machine, without climbing.

    \b
    Examples:
      tilewright ladder
      tilewright ladder --shape 8192 --settled --plot ladder.png
      tilewright ladder --rungs uncoalesced,simt --shape 512,2048,1024
      tilewright ladder --rungs mma_warp --option accumulator=fp32
      tilewright ladder --backend emulator --shape 256,256,128 --json
      tilewright ladder --counters --rungs mma_warp,mma_smem,wgmma
      tilewright ladder record.json --plot ladder.svg
    """
    require_plot(plot)
    if record is not None:
        if not record.exists() and rungs.rungs is not None:
            raise ArgumentValueError(
                f"{record} is not a record of --json: put commas, and no blanks, between the names of --rungs"
            )
        records.refuse_measuring(context, str(record), {"record", "plot", "as_json"})
        from tilewright.cli.ladder.schema import Climb

        if not _show(records.read(record, "tilewright ladder --json", Climb), plot, as_json):
            raise typer.Exit(BAD_REQUEST)
        return
    on_gpu = wants_gpu(backend)
    if settled and not on_gpu:
        raise ArgumentValueError("--settled is a way of measuring time, which needs a GPU: leave it out")
    if counters and not on_gpu:
        raise ArgumentValueError("--counters asks for those of the hardware, which need a GPU: leave it out")
    if counters and settled:
        raise ArgumentValueError("--counters measures no time, and --settled does: leave one out")
    found = rungs.climb(on_gpu, settled, counters, seed)
    verdicts = [each["verified"] for each in found["rungs"] if each["verified"] is not None]
    nothing_ran = found.get("error")
    drawn = _show(found, plot, as_json, empty=not verdicts)
    if nothing_ran:
        typer.echo(f"tilewright: {nothing_ran}", err=True)
        raise typer.Exit(BAD_REQUEST)
    if found["interrupted"]:
        before = "what was climbed before is above" if verdicts else "no rung was climbed before"
        typer.echo(f"tilewright: interrupted; {before}", err=True)
        raise typer.Exit(INTERRUPTED)
    if not all(verdicts):
        raise typer.Exit(NOT_VERIFIED)
    if not drawn:
        raise typer.Exit(BAD_REQUEST)


def _show(record: dict[str, Any], plot: Path | None, as_json: bool, *, empty: bool = False) -> bool:
    """Show the picture, and the table (unless empty) or the JSON object; returns whether the picture could be drawn."""
    from tilewright.cli.ladder.plot import draw
    from tilewright.cli.ladder.table import show

    drawn = records.drawn(record, plot, draw)
    if as_json:
        print_json(record)
    elif not empty:
        show(record)
    return drawn
