"""The records of commands: drawn, read, and shown again."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeGuard

import typer

from tilewright.errors import ArgumentValueError


def read(path: Path, written_by: str, complete: Callable[[Any], bool]) -> dict[str, Any]:
    """The JSON object of a complete file; raises a ValueError that names the command it must be `written_by`."""
    remedy = f"name a file that `{written_by}` wrote"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentValueError(f"record {path} cannot be read: {error.strerror}: {remedy}") from None
    except ValueError as error:
        raise ArgumentValueError(f"record {path} is not JSON: {error}: {remedy}") from None
    if not complete(record):
        raise ArgumentValueError(f"record {path} is not a record, or lacks a part: {remedy}")
    found: dict[str, Any] = record
    return found


def has(value: Any, *keys: str) -> TypeGuard[dict[str, Any]]:
    """Whether a value is an object with these keys."""
    return isinstance(value, dict) and value.keys() >= set(keys)


def has_parts(value: Any, name: str) -> bool:
    """Whether an object has a list of this name."""
    return has(value, name) and isinstance(value[name], list)


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
