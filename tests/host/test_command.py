"""Commands made of functions with groups of options: what typer sees, and how their errors end."""

import inspect
import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from support.commands import error
from tilewright.cli import app as PROGRAM
from tilewright.cli.command import Command, CommandLine, Gives, as_typed, command
from tilewright.cli.options import Json
from tilewright.errors import ArgumentValueError


@dataclass(frozen=True, slots=True)
class Extents:
    """A group with an argument, which must be given, and an option."""

    m: Annotated[int, typer.Argument(min=0)]
    pad: Annotated[int, typer.Option("--pad"), Gives("pad_bytes", "gap")] = 2


def run(function, *words):
    app = typer.Typer(cls=CommandLine)
    app.command(cls=Command)(command(function))
    app.command("another")(lambda: None)
    return CliRunner().invoke(app, [function.__name__, *words])


MESSAGES = {
    100: "pad_bytes=9: gap=8", 101: "m=7", 102: "times=6", 103: "hours=5", 104: "gap is none", 105: "m: none",
    106: "m 'none'", 107: "times_=1",
}  # fmt: skip


def grow(extents: Extents, times: Annotated[int, typer.Option("--times")] = 1, as_json: Json = False) -> None:
    """Print the extents."""
    if extents.m > 99:
        raise ArgumentValueError(MESSAGES[extents.m])
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


@pytest.mark.parametrize(("m", "code", "message"), [(13, 2, "M is 13: take another"), (15, 130, "interrupted")])
def test_an_error_for_the_caller_is_its_message(m, code, message):
    done = run(grow, str(m))
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", f"tilewright: {message}\n")
    assert json.loads(run(grow, str(m), "--json").stdout) == {"error": message}


@pytest.mark.parametrize(
    ("m", "message"),
    [
        (100, "--pad=9: gap=8"),
        (101, "M=7"),
        (102, "--times=6"),
        (103, "hours=5"),
        (104, "--pad is none"),
        (105, "M: none"),
        (106, "m 'none'"),
        (107, "times_=1"),
    ],
)
def test_an_error_begins_with_what_was_typed(m, message):
    assert run(grow, str(m)).stderr == f"tilewright: {message}\n"
    assert json.loads(run(grow, str(m), "--json").stdout) == {"error": message}


def test_an_unknown_command_is_answered_with_all_the_closest_first():
    app = typer.Typer(cls=CommandLine)
    for name in ("grow", "shrink", "another"):
        app.command(name)(lambda: None)
    for typed, closest in (("Shrunk", "shrink"), ("other", "another")):
        done = CliRunner().invoke(app, [typed])
        assert (done.exit_code, done.stdout) == (2, "")
        said, names = done.stderr.splitlines()[0].split(": use ")
        assert said == f"tilewright: {typed!r} does not exist"
        assert names.startswith(f"{closest}, ")
        assert set(names.split(", ")) == {"grow", "shrink", "another"}


def test_a_value_that_looks_like_an_option_is_written_behind_two_hyphens():
    done = run(grow, "--pad", "3", "-m*4")
    assert done.exit_code == 2
    assert "No such option: -m: if -m*4 is a value, write `-- '-m*4'` at the end" in done.stderr
    assert "is a value" not in run(grow, "3", "--pat", "3").stderr
    assert "is a value" not in run(grow, "3", "-x").stderr
    assert "Invalid value for 'm'" in run(grow, "--pad", "3", "--", "-m*4").stderr


def test_a_defect_keeps_its_traceback():
    assert isinstance(run(grow, "14").exception, ValueError)


@pytest.mark.parametrize("flag", ["--gpu", "--chip"])
def test_an_error_names_an_option_as_it_was_typed(flag):
    for words in (["model", "speed-of-light"], ["explain", "64", "64", "64"]):
        assert error(*words, flag, "foo").startswith(f"tilewright: {flag}='foo' is unknown")
        assert error(*words, f"{flag}=foo").startswith(f"tilewright: {flag}='foo' is unknown")


def test_errors_name_the_options_of_all_commands_as_click_does():
    program: Any = typer.main.get_command(PROGRAM)
    commands = {**program.commands, **program.commands["model"].commands, **program.commands["bench micro"].commands}
    count = 0
    for name, one in commands.items():
        signature = inspect.signature(inspect.unwrap(one.callback, stop=lambda each: hasattr(each, "__signature__")))
        known = {option.name: as_typed(option) for option in signature.parameters.values()}
        for parameter in one.params:
            if parameter.name in known and parameter.param_type_name == "option":
                assert known[parameter.name][parameter.name] == parameter.opts[0], (name, parameter.name)
                count += 1
    assert count > 200
