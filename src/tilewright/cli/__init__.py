"""The command line. Each command is a module; what it needs is imported when it runs, so that `--help` is quick."""

import sys

import typer

from tilewright.cli import check, doctor, inspect, run

app = typer.Typer(
    name="tilewright",
    help="An open GEMM for NVIDIA GPUs whose kernels also run, and are checked, without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run.run, inspect.inspect, check.check, doctor.doctor):
    app.command()(command)


def main() -> None:
    """Run the command that the process's arguments name."""
    try:
        app()
    except BrokenPipeError:  # `tilewright inspect --sass | head`
        sys.stderr.close()
        sys.exit(1)


__all__ = ["app", "main"]
