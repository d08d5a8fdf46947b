"""What commands say and how they end: results on stdout, everything else on stderr."""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

if TYPE_CHECKING:
    from rich.console import Console


P = ParamSpec("P")

NOT_VERIFIED, BAD_REQUEST, INTERRUPTED = 1, 2, 130
"""Exit codes besides 0: the answer is wrong or something fails; the request cannot be met; Ctrl-C."""


def reports_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that our API documents into their message on stderr and exit code 2, and Ctrl-C into 130."""

    @functools.wraps(command)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("tilewright: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise
        except Exception as error:
            if not _is_documented(error):
                raise
            typer.echo(f"tilewright: {error}", err=True)
            raise typer.Exit(BAD_REQUEST) from None

    return reporting


def _is_documented(error: Exception) -> bool:
    if isinstance(error, typer.Exit):  # a RuntimeError
        return False
    from tilewright.emulator.errors import EmulatorError

    return isinstance(error, TypeError | ValueError | NotImplementedError | RuntimeError | EmulatorError)


def print_json(result: dict[str, Any]) -> None:
    """The result as one JSON object."""
    sys.stdout.write(json.dumps(result) + "\n")


@functools.cache
def console() -> "Console":
    """Where people read results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@contextmanager
def progress(description: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr that the yielded function sets to a share from 0 to 1; invisible unless stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    stderr = Console(stderr=True)
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def counter_rows(counters: dict[str, Any]) -> dict[str, object]:
    """The emulator's counters as names and totals for a table; what was not counted is left out."""
    rows: dict[str, object] = {}
    for name, value in counters.items():
        total = sum(value.values()) if isinstance(value, dict) else value
        if total:
            rows[name.replace("_", " ")] = total
    for space, unit in (("global", "sectors"), ("shared", "wavefronts")):
        requests, units = (rows.get(f"{space} {count}") for count in ("requests", unit))
        if isinstance(requests, int) and isinstance(units, int):
            rows[f"{space} {unit} per request"] = f"{units / requests:.2f}"
    return rows


def table(title: str, rows: dict[str, object]) -> None:
    """Names and values in two columns."""
    from rich.table import Table

    grid = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    for name, value in rows.items():
        grid.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    console().print(grid)
