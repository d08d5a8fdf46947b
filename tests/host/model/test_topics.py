"""Every topic of `tilewright model`: its help, its forms, and what it refuses."""

import json
import re
import shlex
from typing import Any, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.cli.model import TOPICS

PROGRAM: Any = typer.main.get_command(app)
GROUP = PROGRAM.commands["model"]
NAMES = list(GROUP.commands)


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["model", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def examples(name):
    """The commands in a topic's help, as words without `tilewright model`; lines that end with a backslash go on."""
    text = GROUP.commands[name].help.partition("Examples:")[2].replace("\\\n", " ")
    return [shlex.split(line)[2:] for line in text.splitlines() if line.strip().startswith("tilewright model ")]


def numbers(name):
    """The parameters of a topic that take one whole number."""
    kinds = get_type_hints(GROUP.commands[name].callback)
    return [each for each in GROUP.commands[name].params if kinds.get(each.name) in (int, int | None)]


def with_value(words, parameter, value):
    """An example with another value of a parameter; None if it is a position that the example has not."""
    if parameter.param_type_name == "option":
        return [*words, parameter.opts[0], value]
    place = [each.name for each in GROUP.commands[words[0]].params if each.param_type_name == "argument"].index(
        parameter.name
    )
    if len(words) <= place + 1 or words[place + 1].startswith("-"):
        return None
    return [*words[: place + 1], value, *words[place + 2 :]]


def test_alone_it_lists_the_topics():
    assert len(NAMES) == len(TOPICS) >= 2
    listed = json.loads(invoke("--json").stdout)["topics"]
    assert list(listed) == NAMES
    assert all(re.fullmatch(r"\S.*\S\.", about) for about in listed.values())
    assert [line.split()[0] for line in invoke().stdout.splitlines()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_the_help_run_and_print_one_object(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = examples(name)
    assert len(found) >= 2
    for words in found:
        record = json.loads(invoke(*words, *(() if "--json" in words else ("--json",))).stdout)
        assert record
        assert "error" not in record
        if "--plot" in words:
            assert (tmp_path / words[words.index("--plot") + 1]).stat().st_size > 1000
    words = [word for word in found[0] if word != "--json"]
    assert len(invoke(*words).stdout.splitlines()) > 1


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_chip_is_refused(name):
    options = [option for each in GROUP.commands[name].params for option in each.opts]
    if "--chip" not in options:
        pytest.skip("it is of no chip")
    done = invoke(*examples(name)[0], "--chip", "Voodoo2", "--json", code=2)
    message = json.loads(done.stdout)["error"]
    assert message.startswith("--chip='Voodoo2' is unknown: use ")
    assert "H200" in message


@pytest.mark.parametrize("name", NAMES)
def test_negative_numbers_are_refused_with_one_error(name):
    words = [word for word in examples(name)[0] if word != "--json"]
    assert numbers("waves")
    for parameter in numbers(name):
        bad = with_value(words, parameter, "-3")
        if bad is None:
            continue
        done = invoke(*bad, "--json", code=2)
        assert "-3" in json.loads(done.stdout)["error"]
        assert done.stderr.count("tilewright: ") == 1


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    words = examples("waves")[0]
    assert "is in a folder that does not exist" in invoke(*words, "--plot", tmp_path / "a" / "b.svg", code=2).stderr
    assert "has a suffix that matplotlib does not know" in invoke(*words, "--plot", tmp_path / "b.xyz", code=2).stderr


def test_a_dark_picture_differs_and_needs_a_file(tmp_path):
    words = examples("waves")[0]
    for name, dark in (("light.png", ()), ("dark.png", ("--dark",))):
        invoke(*words, "--plot", tmp_path / name, *dark)
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()
    assert (
        "--dark is about the picture, and there is none: give --plot FILE, too"
        in invoke(*words, "--dark", code=2).stderr
    )


def test_a_pair_that_is_none_is_refused():
    for text in ("3", "3,4,5", "a,b", "-1,2", "3,"):
        done = invoke("waves", 5, 5, f"--tile={text}", code=2)
        assert f"--tile='{text}' is not M,N: write natural numbers" in done.stderr
