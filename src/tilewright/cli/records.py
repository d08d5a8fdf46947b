"""The records of commands: drawn, read, and shown again."""

import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import typer

from tilewright.errors import ArgumentValueError

_READERS = {"rungs": "tilewright ladder", "products": "tilewright bench"}
"""The commands that show records, by a key that only theirs have."""

DEEPEST = 50
"""The most levels of a record, of which ours have ten; what reads and writes JSON counts levels on Python's stack."""


def read(path: Path, written_by: str, schema: Any) -> dict[str, Any]:
    """The JSON object in a file, which fits a type of pydantic's.

    Raises a ValueError that names the wrong part, and the command that the file must be `written_by`.
    """
    from pydantic import TypeAdapter, ValidationError  # late: other commands do not need it

    remedy = f"name a file that `{written_by}` wrote"
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_finite, parse_float=_finite)
    except OSError as error:
        raise ArgumentValueError(f"record {path} cannot be read: {error.strerror}: {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"record {path} is not JSON: {error}: {remedy}") from None
    if _deeper_than(record, DEEPEST):
        raise ArgumentValueError(f"record {path} has more than {DEEPEST} levels: {remedy}")
    try:
        TypeAdapter(schema).validate_python(record)
    except ValidationError as error:
        head = record if isinstance(record, dict) else {}
        reader = _reader(head)
        if reader and not written_by.startswith(reader):
            raise ArgumentValueError(
                f"record {path} is one of another command: use `{reader} {path}` to see it, or {remedy}"
            ) from None
        writer = str(head.get("command", "tilewright"))[:100]
        if not reader and not writer.startswith("tilewright") and writer.isprintable():
            raise ArgumentValueError(
                f"record {path} is what `{writer}` wrote, which no command shows: {remedy}"
            ) from None
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, found["loc"]))
        if found["type"] == "missing":
            reason = f": {where} is missing"
        else:
            reason = f"{where and f', at {where}'}: {found['msg'].removeprefix('Value error, ')}"
        raise ArgumentValueError(f"record {path} is not a record{reason}: {remedy}") from None
    known: dict[str, Any] = record
    return known


def _reader(record: dict[str, Any]) -> str:
    """The command that shows a record, if one does."""
    columns = record.get("columns")
    launches = columns.get("launches") if isinstance(columns, dict) else None
    if isinstance(launches, list) and "tile_m" in launches and "split_k" in launches:
        return "python tools/calibrate.py"
    return next((reader for key, reader in _READERS.items() if key in record), "")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ArgumentValueError(f"{text[:20]} is not a finite number: write one")
    return number


def _deeper_than(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        below = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for part in below for each in part]
    return bool(level)


def refuse_measuring(context: typer.Context, record: str, kept: Collection[str]) -> None:
    """Raise a ValueError if a record is shown again with options for measuring, except those in `kept`."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in kept:
            raise ArgumentValueError(
                f"{parameter.opts[0]} is for measuring, and {record} is only shown again: leave it out"
            )


def drawn(record: dict[str, Any], path: Path | None, draw: Callable[[dict[str, Any], Path], bool]) -> bool:
    """Draw the record if there is a path, and report it on stderr; returns False on failure, which the record notes.

    It runs before the record is printed, so stdout holds one object in every case.
    """
    if path is None:
        return True
    try:
        typer.echo(f"drawn into {path}" if draw(record, path) else "there is nothing that could be drawn", err=True)
    except OSError as error:
        record["error"] = f"--plot={path} cannot be written: {error.strerror or error}"
        typer.echo(f"tilewright: {record['error']}", err=True)
        return False
    return True
