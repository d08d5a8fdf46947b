"""The pages that the site is made of; tests/site has the tests of what Zensical makes of them."""

import re
import tomllib
from pathlib import PurePosixPath
from typing import Any

import pytest
import typer
from website import commands, documents, pages, reference, support

import tilewright
from tilewright.cli import app
from tilewright.kernels.registry import EVERY_KERNEL


@pytest.fixture(scope="module")
def found():
    return documents.pages()


@pytest.fixture
def repository(tmp_path):
    """Documents that link to each other, to a source and to a picture."""
    (tmp_path / "docs/ladder/pictures").mkdir(parents=True)
    for name in documents.HOME:
        (tmp_path / name).write_text("# Title\n")
    (tmp_path / "docs/ladder/README.md").write_text(
        "[home](../../README.md) ![it](pictures/it.svg) [code](../../it.cuh) [part](mma.md#a-part) [web](https://a.b/c.md)\n"
        "`[](x.md)`\n```cuda\nf[&](x.md);\n```\n"
    )
    (tmp_path / "docs/ladder/mma.md").write_text("# mma\n\n[up](README.md)\n")
    (tmp_path / "it.cuh").write_text("int x;\n")
    return tmp_path


def test_links_lead_to_pages(repository):
    found = documents.pages(repository)
    assert found[PurePosixPath("ladder/index.md")] == (
        "[home](../index.md) ![it](pictures/it.svg) [code](../source/it.cuh.md) [part](mma.md#a-part) "
        "[web](https://a.b/c.md)\n`[](x.md)`\n```cuda\nf[&](x.md);\n```\n"
    )
    assert found[PurePosixPath("ladder/mma.md")] == "# mma\n\n[up](index.md)\n"
    assert "````cuda\nint x;\n````" in found[PurePosixPath("source/it.cuh.md")]
    (repository / "it.cuh").unlink()
    with pytest.raises(FileNotFoundError, match=r"it\.cuh"):
        documents.pages(repository)


def test_every_command_has_a_page_with_its_options_and_examples(found):
    made = commands.pages(found)
    swizzle = made[PurePosixPath("commands/model/swizzle.md")]
    assert "`--bms <str>`\n:   B,M,S of another Swizzle&lt;B,M,S&gt;." in swizzle
    assert "\ntilewright model swizzle 64 --offset 200\n" in swizzle
    assert "- [Swizzles](../../machine/swizzle.md)" in swizzle
    program: Any = typer.main.get_command(app)
    names = set(program.commands) | {f"model {name}" for name in program.commands["model"].commands}
    names |= {f"bench micro {name}" for name in program.commands["bench micro"].commands}
    titles = {documents.title_of(text).removeprefix("tilewright ") for text in made.values()}
    assert titles - {"Commands"} == names


def test_every_public_name_is_in_the_reference():
    made = reference.pages()
    listed = set(re.findall(r"^::: tilewright\.(\w+)$", made[PurePosixPath("reference/tilewright.md")], re.MULTILINE))
    assert listed == set(tilewright.__all__) - {"ladder"}
    assert "::: tilewright.ladder.measure\n" in made[PurePosixPath("reference/tilewright.ladder.md")]


def test_the_support_page_has_every_kernel():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", support.page(), re.MULTILINE))
    assert rows.keys() == EVERY_KERNEL.keys()
    assert rows["wgmma"].startswith("sm_90a | ")
    assert rows["wgmma_basic"].startswith("sm_90a | bf16, fp16 | none | nt | ")
    assert "fp32 | none | nt nn tn tt" in rows["simt"]


def test_only_element_types_that_a_gpu_run_had_count_as_verified():
    record = {"gpu": "H200", "date": "2026-11-24", "cases": {"mma": 5}, "dtypes": {"mma": ["int8"]}}
    rows = [line.split(" | ") for line in support.lines(record) if line.startswith("| `mma` |")]
    found = {dtype: row[-1].removesuffix(" |") for row in rows for dtype in row[2].split(", ")}
    assert (found["int8"], found["bf16"]) == ("5", "emulator only")


def test_every_page_has_a_place(tmp_path, found):
    pages.write(tmp_path)
    project = tomllib.loads((tmp_path / "zensical.toml").read_text())["project"]
    placed = [name for name in leaves(project["nav"]) if not name.startswith("source/")]
    assert len(set(placed)) == len(placed)
    written = {str(path.relative_to(tmp_path / "docs")) for path in (tmp_path / "docs").rglob("*.md")}
    assert set(placed) == {name for name in written if not name.startswith("source/")}
    assert (tmp_path / "docs/machine/pictures/swizzle.svg").exists()


def leaves(nav):
    if isinstance(nav, str):
        return [nav]
    return [leaf for each in (nav.values() if isinstance(nav, dict) else nav) for leaf in leaves(each)]


def test_a_page_that_its_index_forgets_is_an_error(found):
    with pytest.raises(ValueError, match=r"ladder/index\.md lists no ladder/lost\.md: begin a row"):
        pages.navigation({**found, **reference.pages(), PurePosixPath("ladder/lost.md"): "# Lost"})
