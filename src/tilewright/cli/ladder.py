"""`tilewright ladder`: every kernel from naive to the state of the art, verified, and measured or counted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import records
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
from tilewright.cli.output import BAD_REQUEST, INTERRUPTED, NOT_VERIFIED, print_json, progress, reports_errors
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.cli.ladder_options import Asked
    from tilewright.cli.ladder_result import Climbed
    from tilewright.hardware import Hardware
    from tilewright.kernels.ladder import Rung

GPU_SHAPE, EMULATED_SHAPE = (4096, 4096, 4096), (256, 256, 128)
"""Without --shape: the articles' usual yardstick, and what the emulator multiplies with every rung in a minute."""


@reports_errors
def ladder(
    context: typer.Context,
    record: Annotated[
        Path | None,
        typer.Argument(help="What --json printed before (.json), to be shown again or drawn.", show_default=False),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            help="M,N,K, or one number for a cube. The articles use 4096^3, 1024^3, 8192^3 and 512x2048x1024.",
            show_default=False,
        ),
    ] = None,
    rungs: Annotated[
        str | None, typer.Option("--rungs", help="Names of rungs, by commas; all by default.", show_default=False)
    ] = None,
    dtype: Annotated[
        DTypeName | None,
        typer.Option("--dtype", help="Element type, where a rung takes several.", show_default=False),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="Order of tiles in the persistent rungs.", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="A field of the rungs' Configs, such as accumulator=fp32; may be repeated.",
            metavar="NAME=VALUE",
            show_default=False,
        ),
    ] = None,
    backend: BackendOption = BackendName.auto,
    settled: Annotated[bool, typer.Option("--settled", help="Measure at the power limit too (GPU).")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw a bar chart into this PNG, SVG or PDF.", show_default=False)
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Climb the ladder: each rung is verified against float64, then timed beside cuBLAS (GPU) or counted (emulator).

    A record of --json is shown again anywhere, without climbing.

    \b
    Examples:
      tilewright ladder
      tilewright ladder --shape 8192 --settled --plot ladder.png
      tilewright ladder --rungs uncoalesced,simt --shape 512,2048,1024
      tilewright ladder --rungs mma_warp --option accumulator=fp32
      tilewright ladder --backend emulator --shape 256,256,128 --json
      tilewright ladder record.json --plot ladder.svg
    """
    from tilewright.cli.ladder_options import Asked
    from tilewright.cli.ladder_table import is_complete, why_none_ran

    require_plot(plot)
    if record is not None:
        if not record.exists() and rungs is not None:
            raise ArgumentValueError(
                f"{record} is no record of --json: put commas, and no blanks, between the names of --rungs"
            )
        records.refuse_measuring(context, str(record), {"record", "plot", "as_json"})
        if not _show(records.read(record, "tilewright ladder --json", is_complete), plot, as_json):
            raise typer.Exit(BAD_REQUEST)
        return
    on_gpu = wants_gpu(backend)
    if settled and not on_gpu:
        raise ArgumentValueError("--settled is a way of measuring time, which needs a GPU: leave it out")
    m, n, k = parse_shape(shape, "--shape") if shape is not None else GPU_SHAPE if on_gpu else EMULATED_SHAPE
    chosen = _chosen(rungs)
    asked = Asked.parse(dtype.value if dtype else None, schedule, option or ())
    asked.require(chosen, named=rungs is not None)
    hardware = _hardware(on_gpu)
    climbed = [_begin(rung, (m, n, k), asked, hardware) for rung in chosen]
    interrupted = _climb(climbed, seed, settled, on_gpu)
    ran = any(each.verified is not None for each in climbed)
    found = _record(climbed, on_gpu, (m, n, k), interrupted)
    nothing = "" if interrupted or ran else why_none_ran(found["rungs"])
    if nothing:
        found["error"] = nothing
    drawn = _show(found, plot, as_json, empty=not ran)
    if nothing:
        typer.echo(f"tilewright: {nothing}", err=True)
        raise typer.Exit(BAD_REQUEST)
    if interrupted:
        before = "what was climbed before is above" if ran else "no rung was climbed before"
        typer.echo(f"tilewright: interrupted; {before}", err=True)
        raise typer.Exit(INTERRUPTED)
    if any(each.verified is False for each in climbed):
        raise typer.Exit(NOT_VERIFIED)
    if not drawn:
        raise typer.Exit(BAD_REQUEST)


def _hardware(on_gpu: bool) -> "Hardware":
    """The first GPU, or the one that the emulator stands for."""
    if not on_gpu:
        from tilewright.hardware import H200

        return H200
    from tilewright.backends.gpu import backend

    return backend(0).hardware


def _chosen(names: str | None) -> "list[Rung]":
    from tilewright.kernels.ladder import LADDER

    if names is None:
        return list(LADDER.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ArgumentValueError(f"--rungs={names!r} names no rung: use some of {', '.join(LADDER)}, or leave it out")
    for name in wanted:
        if name not in LADDER:
            raise ArgumentValueError(f"--rungs={names!r} names {name!r}, which is no rung: use {', '.join(LADDER)}")
    return [rung for name, rung in LADDER.items() if name in wanted]


def _begin(rung: "Rung", shape: tuple[int, int, int], asked: "Asked", hardware: "Hardware") -> "Climbed":
    """The rung's record, with its Config, or with the reason where it does not take the shape on this GPU."""
    from tilewright.cli.ladder_result import Climbed

    climbed = Climbed(rung, *shape, asked.dtype_of(rung), ignored=asked.ignored_by(rung))
    problem = climbed.product.problem
    if 0 in shape:
        climbed.skipped = "the product is empty"
    elif refusal := rung.kernel.rejects(problem, hardware):
        climbed.skipped = refusal
    else:
        climbed.config = asked.config(rung, problem, hardware)
    return climbed


def _climb(climbed: "list[Climbed]", seed: int, settled: bool, on_gpu: bool) -> bool:
    """Measure or count every rung that is not skipped; whether Ctrl-C ended it early."""
    from tilewright.cli import ladder_emulated, ladder_measured

    with progress("climbing") as report:
        if on_gpu:
            return ladder_measured.measure(climbed, seed, settled, report)
        return ladder_emulated.count_all(climbed, seed, report)


def _show(record: dict[str, Any], plot: Path | None, as_json: bool, *, empty: bool = False) -> bool:
    """The picture, and the table of what is not empty or the JSON object; whether the picture could be drawn."""
    from tilewright.cli.ladder_plot import draw
    from tilewright.cli.ladder_table import show

    drawn = records.drawn(record, plot, draw)
    if as_json:
        print_json(record)
    elif not empty:
        show(record)
    return drawn


def _record(climbed: "list[Climbed]", on_gpu: bool, shape: tuple[int, int, int], interrupted: bool) -> dict[str, Any]:
    """The command's JSON object; of a GPU it also has its name, the date, the command line and the versions."""
    verdicts = [each.verified for each in climbed if each.verified is not None]
    machine: dict[str, Any] = {}
    if on_gpu:
        from tilewright.bench import session

        machine = session.machine()
    return {
        "backend": "gpu" if on_gpu else "emulator",
        **machine,
        **dict(zip("mnk", shape, strict=True)),
        "verified": all(verdicts) if verdicts else None,
        "interrupted": interrupted,
        "rungs": [each.as_dict() for each in climbed],
    }
