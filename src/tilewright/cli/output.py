"""What commands say and how they end: results on stdout, everything else on stderr."""

import dis
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
    """Turn errors raised for the caller into their message on stderr and exit code 2, and Ctrl-C into 130."""

    @functools.wraps(command)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("tilewright: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if _is_out_of_memory(error):
                typer.echo(f"tilewright: not enough memory: take a smaller product ({error})", err=True)
            elif _is_for_the_caller(error):
                typer.echo(f"tilewright: {error}", err=True)
            else:
                raise
            raise typer.Exit(BAD_REQUEST) from None

    return reporting


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's is a RuntimeError


def _is_for_the_caller(error: Exception) -> bool:
    """Whether a `raise` of tilewright's own made this error, of the types that the API documents.

    What the interpreter or a library raises, as for a call of what is no function, is a defect and keeps its traceback.
    """
    from tilewright.emulator.errors import EmulatorError

    documented = TypeError | ValueError | NotImplementedError | RuntimeError | EmulatorError
    trace = error.__traceback__
    if trace is None or isinstance(error, typer.Exit) or not isinstance(error, documented):  # Exit is a RuntimeError
        return False
    while trace.tb_next:
        trace = trace.tb_next
    raised = trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and str(trace.tb_frame.f_globals.get("__name__")).startswith("tilewright.")


def print_json(result: dict[str, Any]) -> None:
    """The result as one JSON object."""
    sys.stdout.write(json.dumps(result) + "\n")


@functools.cache
def console() -> "Console":
    """Where people read results."""
    from rich.console import Console

    # A terminal wraps between words; elsewhere lines stay whole, for grep.
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


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


def facts(rows: dict[str, str]) -> None:
    """Names and sentences in two columns, the sentences wrapped to the terminal's width or 80 columns."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    for name, text in rows.items():
        grid.add_row(name, Text(text))
    console().print(grid)


def table(title: str, rows: dict[str, object]) -> None:
    """Names and values in two columns."""
    from rich.table import Table

    grid = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(justify="right")
    for name, value in rows.items():
        grid.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    console().print(grid)
