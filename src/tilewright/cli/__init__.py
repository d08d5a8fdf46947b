"""The command line. Each command is a module or a package.

A command's imports happen when it runs, so `--help` is quick.
"""

import errno
import os
import sys
from typing import Annotated, NoReturn

import typer

from tilewright import __version__
from tilewright.cli import bench, check, compile, doctor, explain, inspect, kernels, ladder, model, report, run, tune
from tilewright.cli.bench import micro
from tilewright.cli.command import BAD_REQUEST, UNREAD, Command, CommandLine, Ended

app = typer.Typer(
    name="tilewright",
    cls=CommandLine,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run.run, explain.explain, ladder.ladder, bench.bench, tune.tune, compile.compile, inspect.inspect, check.check,
    report.report, kernels.kernels,
    doctor.doctor,
):  # fmt: skip
    app.command(cls=Command)(command)
app.add_typer(model.app, name="model")
app.add_typer(micro.app, name="bench micro")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """An open GEMM for NVIDIA GPUs whose kernels also run, and are checked, without a GPU."""


def main() -> None:
    """Run the command that the process's arguments name."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except Ended as ended:
        if isinstance(ended.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from ended
        _leave(UNREAD)
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno == errno.EPIPE:  # `tilewright inspect --sass | head`
            _leave(UNREAD)
        print(f"tilewright: the output cannot be written: {error.strerror}", file=sys.stderr)
        _leave(BAD_REQUEST)


def _leave(code: int) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the remaining output is flushed again at exit
    sys.exit(code)


__all__ = ["app", "main"]
