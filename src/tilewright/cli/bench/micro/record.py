"""The records of microbenchmarks: how they begin, where they are written, and how they are shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.output import columns, print_json
from tilewright.errors import ArgumentValueError

Output = Annotated[Path | None, typer.Option("--output", help="Write the record into this file.", show_default=False)]


def begun(name: str, on_gpu: bool) -> dict[str, Any]:
    """A record's head: the command, versions, the date, and what the board is."""
    from datetime import UTC, datetime

    from tilewright import __version__
    from tilewright.jit.compile import nvrtc_version
    from tilewright.measure.sensors import board_facts

    now = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {"tilewright": __version__, "nvrtc": nvrtc_version(), "date": now}
    return {"command": f"tilewright bench micro {name}", **versions, **(board_facts() if on_gpu else {})}


def write(record: dict[str, Any], output: Path | None) -> None:
    """Write a record, if a file is named."""
    if output is not None:
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def show(
    record: dict[str, Any],
    headings: tuple[str, ...],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
    said: str,
    *,
    as_json: bool,
) -> None:
    """Print a record: as JSON; as a table of its cases, made by `cells`; or, of the emulator, what is `said`."""
    if as_json:
        print_json(record)
    elif record["gpu"] is None:
        typer.echo(said)
    else:
        columns([headings, *map(cells, record["cases"])], gap=3, headings=1)


def numbers(text: str, option: str) -> list[int]:
    """The numbers of "8,64,256"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ArgumentValueError(f"{option}={text!r} is no list of natural numbers: write them as 8,64,256")
    return list(dict.fromkeys(map(int, parts)))
