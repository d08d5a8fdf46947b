"""The output of commands: results on stdout, everything else on stderr.

Numbers that people read have commas between thousands. Shapes such as 4096 x 4096, addresses, words of instructions and
whatever was typed stand as they are typed.
"""

import ctypes
import functools
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


LINE_COLUMNS = {
    "warp_instructions": ("warp", "instr"),
    "tensor_flops": ("tensor", "flops"),
    "global_requests": ("GMEM", "reqs"),
    "global_sectors": ("GMEM", "sectors"),
    "shared_requests": ("SMEM", "reqs"),
    "shared_wavefronts": ("SMEM", "waves"),
    "shared_conflicts": ("bank", "confl"),
    "tma_loaded_bytes": ("TMA", "loaded"),
    "tma_stored_bytes": ("TMA", "stored"),
    "barrier_waits": ("bar", "waits"),
    "mbarrier_waits": ("mbar", "waits"),
}
"""The counters in the table of source lines, with short headings in two rows, so it fits a terminal."""

UNWRAPPED = 1_000_000
"""The columns of a line outside a terminal, more than any line takes."""
FULLEST = 0.999
"""The most of a bar that is shown as done before it ends."""

_SCALES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")


def print_json(result: dict[str, Any]) -> None:
    """Print the result as one JSON object; raises a ValueError for a NaN, which JSON does not have."""
    sys.stdout.write(json.dumps(result, allow_nan=False) + "\n")


@contextmanager
def prints_apart() -> Iterator[None]:
    """Within this context, what code of the user prints, in Python or in C, goes to stderr."""
    stdout, stderr = 1, 2
    sys.stdout.flush()
    kept = os.dup(stdout)
    os.dup2(stderr, stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # C keeps what it prints until later
        os.dup2(kept, stdout)
        os.close(kept)


@functools.cache
def console() -> "Console":
    """The console on which people read results."""
    from rich.console import Console

    # A terminal wraps between words; elsewhere lines stay whole, for grep.
    made = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if not made.is_terminal:
        made.width = UNWRAPPED
    return made


def terminal_width() -> int:
    """The columns of a line; outside a terminal, a line takes as many as it needs."""
    return console().width


def paragraph(text: str, indent: int) -> None:
    """Print lines after an indent; lines that a terminal wraps continue two columns further in."""
    for line in text.splitlines():
        console().out(textwrap.fill(
            line, terminal_width(), initial_indent=" " * indent, subsequent_indent=" " * (indent + 2),
            break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
        ), highlight=False)  # fmt: skip


class Bar(Protocol):
    """A function that sets a progress bar to a share from 0 to 1 and, if given, to a description of the work."""

    def __call__(self, share: float, doing: str | None = None) -> None:
        """Set the bar."""


@contextmanager
def progress(description: str, start: float | None = None) -> Iterator[Bar]:
    """A bar with the time left on a terminal's stderr, from `start` on; without a start, from the first share on.

    Until then the bar moves back and forth. It has one line: a description that is too long is cut.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class Description(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    stderr = Console(stderr=True)
    whole = Column(no_wrap=True)
    columns = (
        Description(table_column=Column()), BarColumn(12, table_column=whole),
        TaskProgressColumn(table_column=whole), TextColumn("elapsed"), TimeElapsedColumn(whole), TextColumn("left"),
        TimeRemainingColumn(table_column=whole),
    )  # fmt: skip
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as shown:
        begun = None if start is None else 1.0  # the duration is unknown until there is a share
        task = shown.add_task(description, total=begun, completed=start or 0)  # type: ignore[arg-type]

        def bar(share: float, doing: str | None = None) -> None:
            # A bar that was full once would stop its clock, and another launch may follow.
            shown.update(task, total=1.0 if share else begun, completed=min(share, FULLEST), description=doing)

        yield bar


def counter_rows(counters: dict[str, Any]) -> dict[str, object]:
    """The emulator's counters as names and totals for a table, without those that were not counted."""
    rows: dict[str, object] = {}
    for name, value in counters.items():
        total = _total(value)
        if total and name not in ("sectors_per_request", "global_ideal_sectors"):
            rows[name.replace("_", " ")] = total
    for space, unit in (("global", "sectors"), ("shared", "wavefronts")):
        requests, units = (rows.get(f"{space} {count}") for count in ("requests", unit))
        if isinstance(requests, int) and isinstance(units, int):
            rows[f"{space} {unit} per request"] = f"{units / requests:.2f}"
    return rows


def line_table(by_line: dict[str, dict[str, Any]]) -> None:
    """The emulator's counters per source line, for lines with more than instructions; without empty columns."""
    totals = {line: {name: _total(counters[name]) for name in LINE_COLUMNS} for line, counters in by_line.items()}
    instructions, *events = LINE_COLUMNS
    shown = {line: row for line, row in totals.items() if any(row[name] for name in events)} or totals
    names = [instructions, *(name for name in events if any(row[name] for row in shown.values()))]
    rows = [["", *(LINE_COLUMNS[name][0] for name in names)], ["line", *(LINE_COLUMNS[name][1] for name in names)]]
    rows += [[line, *(compact(row[name]) for name in names)] for line, row in shown.items()]
    others = [row[instructions] for line, row in totals.items() if line not in shown]
    if others:
        name = f"{len(others)} other line{'s' * (len(others) > 1)}"
        rows.append([name, compact(sum(others)), *[""] * (len(names) - 1)])
    columns(rows, indent=2, gap=2)


def compact(value: int) -> str:
    """The number in at most six characters, with three digits or more; empty for zero, and a power beyond all names."""
    if value < 10_000:
        return f"{value:,}" if value else ""
    scale = int(f"{value:.2e}".partition("e")[2]) // 3  # of the rounded value
    if scale >= len(_SCALES):
        return f"{value:.2e}"
    return f"{value / 1000**scale:.3g}{_SCALES[scale]}"


def number(value: float, digits: int = 4) -> str:
    """A number as people read it: 16,384, 3.238, 0.052; very large and very small ones as 5.96e-8.

    digits: how many count, though none before the point is left out.
    """
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if not power or value == 0:  # infinity and NaN have none
        return f"{value:g}"
    if not -4 <= int(power) < 12:
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
    text = f"{value:,.{max(0, digits - 1 - int(power))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _total(value: Any) -> int:
    total: int = sum(value.values()) if isinstance(value, dict) else value
    return total


def facts(rows: dict[str, str]) -> None:
    """Print names and sentences in two columns; sentences wrap at the width of a terminal, and nowhere else."""
    from rich.text import Text

    room = max(map(len, rows)) + 2
    for name, text in rows.items():
        for line in textwrap.wrap(text, max(terminal_width() - room, 1), break_on_hyphens=False):
            console().print(Text.assemble((name.ljust(room), "bold"), line), soft_wrap=True)
            name = ""


def print_table(table: "Table") -> None:
    """Print a table of rich's; blanks at the ends of lines are left out."""
    with console().capture() as captured:
        console().print(table, soft_wrap=False)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def grid(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print cells under headings; those of `numbers` are aligned right, and a terminal's borders wrap long cells.

    Elsewhere it is plain lines with tabs between cells, which no longest cell pads, for other programs.
    """
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    if not console().is_terminal:
        lines = [*filter(None, [title]), *map("\t".join, (headings, *rows))]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return
    table = Table(title=escape(title) or None, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    print_table(table)


def table(title: str, rows: dict[str, object]) -> None:
    """A table of names and values in two columns."""
    if title:
        console().print(title, style="italic", markup=False)
    columns(
        [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in rows.items()],
        indent=2,
        gap=2,
    )


def columns(rows: Sequence[Sequence[str]], *, indent: int = 0, gap: int = 1, headings: int = 0) -> None:
    """Print cells in columns, the first of each row aligned left and the others right.

    Nothing is cut or broken: if a terminal is too narrow for the first cell, the others stand below it.

    gap: blanks between columns.
    headings: the number of rows in bold.
    """
    names, *others = zip(*rows, strict=True) if rows else ((),)
    widths = [max(map(len, column)) for column in others]
    room = terminal_width() - indent - sum(width + gap for width in widths)
    longest = max((len(name) for name in names if len(name) <= room), default=0)
    for number, (name, *cells) in enumerate(rows):
        style = "bold" if number < headings else ""
        numbers = "".join(" " * gap + cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        if len(name) > longest:
            console().print(" " * indent + name, style=style, markup=False, soft_wrap=True)
            name = ""
        console().print(" " * indent + name.ljust(longest) + numbers, style=style, markup=False, soft_wrap=True)
