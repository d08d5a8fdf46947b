"""`tilewright bench micro`: microbenchmarks, the measured side of what `tilewright model` computes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import WithNegativeNumbers, command
from tilewright.cli.options import BackendName, BackendOption, Json, require_writable, wants_gpu
from tilewright.cli.output import columns, print_json, progress
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.bench.micro.wgmma import Clocks, Kind

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def micro() -> None:
    """Measure one instruction at a time on a GPU, and compare with the model.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro wgmma --help
    """


@app.command(cls=WithNegativeNumbers)
@command
def wgmma(
    n: Annotated[
        str | None, typer.Option("--n", help="Columns of B, such as 8,64,256; by default all 32.", show_default=False)
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Type, A and B: bf16:K:MN has A stored along k and B along n, e4m3:registers:K has A in registers; "
            "may be repeated, all by default.",
            show_default=False,
        ),
    ] = None,
    warpgroups: Annotated[str, typer.Option("--warpgroups", help="Warpgroups that issue it, 1 or 2 or both.")] = "1,2",
    backend: BackendOption = BackendName.auto,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the record into this file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Count the clocks from one wgmma to the next in a long chain on each SM, beside those of the model.

    Needs an H100, H200, H800 or H20. In the emulator, the kernels are checked and their sums compared; it has no clock.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro wgmma --n 8,64,256 --kind bf16:K:K --warpgroups 2
      tilewright bench micro wgmma --n 8 --kind e4m3:registers:K --backend emulator --json
    """
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner
    from tilewright.bench.micro.wgmma import KINDS, cases, measure
    from tilewright.hardware import WGMMA_N

    ns = list(WGMMA_N) if n is None else _numbers(n, "--n")
    chosen = [_kind(name, KINDS) for name in kinds] if kinds else list(KINDS)
    wanted = cases(chosen, ns, _numbers(warpgroups, "--warpgroups"))
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    record: dict[str, Any] = {"command": "tilewright bench micro wgmma", **_conditions(on_gpu)}
    record |= {"gpu": runner.hardware.name if on_gpu else None, "cases": []}
    found: list[Clocks] = []
    with progress("wgmma", 0.0) as bar:
        for clocks in measure(wanted, runner, **({} if on_gpu else {"rounds": 1})):
            found.append(clocks)
            bar(len(found) / len(wanted), f"{clocks.kind}, n {clocks.n}")
    record["cases"] = [_case(clocks, on_gpu) for clocks in found]
    if output is not None:
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(record)
    elif on_gpu:
        _show(found)
    else:
        typer.echo(f"{len(found)} kernels break no rule in the emulator, and their sums are right; it has no clock")


def _show(found: "list[Clocks]") -> None:
    """A table of measured and modeled clocks."""
    cells: list[tuple[str, ...]] = [("kind", "n", "warpgroups", "clocks", "least", "most", "model")]
    for each in found:
        clocks = (f"{value:.1f}" for value in (each.median, each.least, each.most))
        cells.append((each.kind, str(each.n), str(each.warpgroups), *clocks, f"{each.model:g}"))
    columns(cells, gap=3, headings=1)


def _case(clocks: "Clocks", on_gpu: bool) -> dict[str, Any]:
    """A case for JSON, without the emulator's clocks."""
    return clocks.as_dict() | ({} if on_gpu else dict.fromkeys(("median", "least", "most")))


def _conditions(on_gpu: bool) -> dict[str, Any]:
    from datetime import UTC, datetime

    from tilewright import __version__
    from tilewright.jit.compile import nvrtc_version
    from tilewright.measure.sensors import board_facts

    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"tilewright": __version__, "nvrtc": nvrtc_version(), "date": now, **(board_facts() if on_gpu else {})}


def _numbers(text: str, option: str) -> list[int]:
    """The numbers of "8,64,256"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ArgumentValueError(f"{option}={text!r} is no list of natural numbers: write them as 8,64,256")
    return list(dict.fromkeys(map(int, parts)))


def _kind(name: str, known: "tuple[Kind, ...]") -> "Kind":
    by_name = {str(kind): kind for kind in known}
    if name not in by_name:
        raise ArgumentValueError(f"--kind={name!r} is unknown: use {', '.join(by_name)}")
    return by_name[name]
