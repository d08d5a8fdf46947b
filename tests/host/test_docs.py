"""What the documents name must exist, and what they show must work."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from tilewright.bench.suites import load
from tilewright.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]

MOST_BYTES = 150_000
"""Of a picture."""

PATH = re.compile(
    r"`((?:src|tests|docs|results|cuda|\.ci|\.venv)/[\w./-]*|[\w-]+(?:/[\w-]+)*\.(?:py|md|cuh|toml|json))`"
)
LINK = re.compile(r"\]\(([^)#:]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(text):
    """The lines of bash blocks, prompts of console blocks, and code spans that start with `tilewright`; no comments."""
    lines = [line for language, body in BLOCK.findall(text) if language == "bash" for line in body.splitlines()]
    lines += re.findall(r"^```console\n\$ (.*)", text, re.MULTILINE)
    lines += re.findall(r"`(tilewright [a-z][^`]*)`", text)
    return [words for line in lines if (words := shlex.split(line, comments=True))]


ALL_COMMANDS = [(path, words) for path in DOCUMENTS for words in commands_of(path.read_text(encoding="utf-8"))]
TILEWRIGHT = [words for _, words in ALL_COMMANDS if words[0] == "tilewright"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document):
    text = document.read_text(encoding="utf-8")
    bases = (ROOT, ROOT / "src/tilewright", document.parent)
    generated = (".venv",)
    for name in PATH.findall(text):
        if name.startswith(generated):
            continue
        found = any((base / name).exists() for base in bases)
        assert found or list((ROOT / "src").rglob(name)), f"{document.name} names {name}, which is not there"
    for target in LINK.findall(text):
        assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there"


QUOTED = [
    pytest.param(body, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, (language, body) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")))
    if language == "cuda"
]


@pytest.mark.parametrize("quoted", QUOTED)
def test_quoted_lines_are_those_of_a_header(quoted):
    """One header has them all, in this order; whitespace aside, and what stands between them or for `...`."""
    pieces = [re.escape(text) for line in quoted.splitlines() for piece in line.split("...") if (text := joined(piece))]
    headers = (ROOT / "src/tilewright/cuda").rglob("*.cuh")
    assert any(re.search(".*?".join(pieces), joined(path.read_text(encoding="utf-8"))) for path in headers)


def joined(text):
    """Without whitespace."""
    return "".join(text.split())


def test_files_in_the_picture_of_the_house_exist():
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    (picture,) = [body for _, body in BLOCK.findall(text) if body.startswith("src/tilewright/")]
    names = re.findall(r"^  (\w+(?:\.py|/))", picture, re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert (ROOT / "src/tilewright" / name).exists(), f"docs/design.md draws {name}, which is not there"


def test_documents_show_commands():
    assert len(TILEWRIGHT) > 5


@pytest.mark.parametrize("words", TILEWRIGHT, ids=" ".join)
def test_commands_parse(words):
    command: Any = typer.main.get_command(app)
    arguments = words[1:]
    while commands := getattr(command, "commands", None):
        if not arguments and command.invoke_without_command:
            break
        words_of_name = 2 if " ".join(arguments[:2]) in commands else 1
        name, arguments = " ".join(arguments[:words_of_name]), arguments[words_of_name:]
        assert name in commands, f"`{' '.join(words)}` names no command of the program"
        command = commands[name]
    command.make_context(words[-1], arguments)  # raises where the arguments do not parse


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    defined = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for document in DOCUMENTS:
        shown = [words[1] for path, words in ALL_COMMANDS if path == document and words[0] == "make"]
        named = re.findall(r"`make ([a-z-]+)", document.read_text(encoding="utf-8"))
        assert {*shown, *named} <= defined


def test_the_python_examples_of_the_readme_run(capsys):
    examples = [
        body for language, body in BLOCK.findall(DOCUMENTS[0].read_text(encoding="utf-8")) if language == "python"
    ]
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
    assert len(examples) == 3
    assert capsys.readouterr().out.strip()


def test_the_kernels_in_the_readme_are_those_of_the_registry():
    from tilewright.kernels.registry import KERNELS

    table = DOCUMENTS[0].read_text(encoding="utf-8").partition("## What works")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(KERNELS)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_says_which_python_it_needs(tmp_path):
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    arguments = ["make", "-C", str(ROOT), "python", f"PYTHON={old}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Python >= 3.11" in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_knows_only_the_last_cuda_that_it_installed(tmp_path):
    python, environment = tmp_path / "python", tmp_path / "environment"
    python.write_text(f'#!/bin/sh\n[ "$2" != venv ] || {{ mkdir -p "$3/bin"; cp "{python}" "$3/bin/python"; }}\n')
    python.chmod(0o755)
    for cuda in ("cu13", "cu12"):
        stamp = environment / f".installed-{cuda}"
        arguments = ["make", "-C", str(ROOT), f"VENV={environment}", f"PYTHON={python}", str(stamp)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert list(environment.glob(".installed-*")) == [stamp]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_tests_the_wheels_with_both_cudas():
    arguments = ["make", "-n", "-C", str(ROOT), "test-wheel", f"PYTHON={sys.executable}", "NEWEST=newest"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    of_wheel = r"^(\S+) -m venv \.venv-wheel && .*/tilewright-\*\.whl\)\[(\w+)\]"
    installed = re.findall(of_wheel, done.stdout, re.MULTILINE)
    assert installed == [("newest", "cu13"), (sys.executable, "cu12")]


def test_the_numbers_of_the_documents_are_those_of_the_results():
    arguments = [sys.executable, str(ROOT / "tools/readme_numbers.py"), "--check"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/readme_numbers.py: {done.stderr}"


def test_two_records_of_one_shape_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import ladder_numbers

    for name in ("ladder_4096.json", "ladder_again.json"):
        shutil.copy(ROOT / "results/ladder_4096.json", tmp_path / name)
    with pytest.raises(ValueError, match=r"ladder_4096\.json and ladder_again\.json are both of 4096\^3: keep one"):
        ladder_numbers.records(tmp_path)
    shutil.copy(ROOT / "results/ladder_8192.json", tmp_path / "ladder_again.json")
    assert [record["m"] for record in ladder_numbers.records(tmp_path)] == [4096, 8192]


def test_the_suite_of_ones_own_is_one(tmp_path):
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(page.split("```toml\n", 1)[1].split("```", 1)[0])
    suite = load(str(path))
    assert len(suite.shapes) == 3 * 2 + 20 * 2
    assert {shape.layout for shape in suite.shapes} == {"nt"}


def test_charts_of_benchmarks_are_shown():
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("performance.md", "precision.md")]
    for path in (ROOT / "docs/pictures").iterdir():
        assert any(f"pictures/{path.name}" in page for page in pages)


def test_the_pictures_of_the_ladder_are_what_the_code_says():
    from matplotlib import __version__

    from tilewright.kernels.ladder import LADDER

    folder = ROOT / "docs/ladder/pictures"
    assert sorted(path.stem for path in folder.iterdir()) == sorted([*LADDER, "measured"])
    for path in folder.iterdir():
        assert path.suffix == ".svg"
        assert path.stat().st_size < MOST_BYTES
    if f"Matplotlib v{__version__}," not in (folder / "simt.svg").read_text(encoding="utf-8"):
        pytest.skip("another version of matplotlib places text a little elsewhere")
    arguments = [sys.executable, str(ROOT / "tools/ladder_pictures.py"), "--check"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/ladder_pictures.py: {done.stderr}"
