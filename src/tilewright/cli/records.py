"""Records of what a command found: drawn, and, where they were written before, shown again."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeGuard

import typer


def read(path: Path, written_by: str, keys: Collection[str], parts: str, keys_of_parts: Collection[str]) -> Any:
    """The JSON object of a file, which has these keys and a list `parts` of objects with theirs.

    ValueError for anything else, which says that it was not `written_by` that command.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"record {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"record {path} is no JSON: {error}") from None
    if not has(record, {*keys, parts}) or not all(has(part, keys_of_parts) for part in record[parts]):
        raise ValueError(f"record {path} was not written by `{written_by}`")
    return record


def has(value: Any, keys: Collection[str]) -> TypeGuard[dict[str, Any]]:
    """Whether it is an object with these keys."""
    return isinstance(value, dict) and set(keys) <= value.keys()


def refuse_measuring(context: typer.Context, record: str, kept: Collection[str]) -> None:
    """Raise a ValueError for options that say what is to be measured, all but `kept`, where a record is shown again."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in kept:
            raise ValueError(f"{parameter.opts[0]} is for measuring, and {record} is only shown again: leave it out")


def drawn(record: dict[str, Any], path: Path | None, draw: Callable[[dict[str, Any], Path], bool]) -> bool:
    """Draw the record where there is a path, and tell people; whether that did not fail.

    Before the record is printed, so that stdout has one object whatever happens.
    """
    if path is None:
        return True
    try:
        typer.echo(f"drawn into {path}" if draw(record, path) else "there is nothing that could be drawn", err=True)
    except OSError as error:
        typer.echo(f"tilewright: --plot={path} cannot be written: {error.strerror}", err=True)
        return False
    return True
