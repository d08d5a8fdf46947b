"""Commands made of functions with groups of options: what typer sees, and how their errors end."""

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tilewright.cli.command import CommandLine, command
from tilewright.cli.options import Json
from tilewright.errors import ArgumentValueError


@dataclass(frozen=True, slots=True)
class Extents:
    """A group with an argument, which must be given, and an option."""

    m: Annotated[int, typer.Argument(min=0)]
    pad: Annotated[int, typer.Option("--pad")] = 2


def run(function, *words):
    app = typer.Typer(cls=CommandLine)
    app.command()(command(function))
    app.command("another")(lambda: None)
    return CliRunner().invoke(app, [function.__name__, *words])


def grow(extents: Extents, times: Annotated[int, typer.Option("--times")] = 1, as_json: Json = False) -> None:
    """Print the extents."""
    if extents.m == 13:
        raise ArgumentValueError("m is 13: take another")
    if extents.m == 14:
        raise ValueError("too many values to unpack")
    if extents.m == 15:
        raise KeyboardInterrupt
    typer.echo(f"{extents.m * times + extents.pad} {as_json}")


@pytest.mark.parametrize(
    ("words", "printed"),
    [(("3",), "5 False\n"), (("3", "--times", "2", "--pad", "1"), "7 False\n"), (("0", "--json"), "2 True\n")],
)
def test_the_fields_of_a_group_are_options_of_the_command(words, printed):
    assert run(grow, *words).stdout == printed


def test_what_typer_refuses_it_refuses_in_a_group_too():
    assert run(grow).exit_code == run(grow, "-1").exit_code == 2
    record = json.loads(run(grow, "1", "--pad", "x", "--json").stdout)
    assert record["error"].startswith("Invalid value for '--pad'")


@pytest.mark.parametrize(("m", "code", "message"), [(13, 2, "m is 13: take another"), (15, 130, "interrupted")])
def test_an_error_for_the_caller_is_its_message(m, code, message):
    done = run(grow, str(m))
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", f"tilewright: {message}\n")
    assert json.loads(run(grow, str(m), "--json").stdout) == {"error": message}


def test_a_defect_keeps_its_traceback():
    assert isinstance(run(grow, "14").exception, ValueError)
