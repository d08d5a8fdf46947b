"""The pages of docs/machine: what they show is what their commands print and draw, and each topic has a page."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from tilewright.jit.compile import nvrtc_version

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "machine"
PAGES = sorted(FOLDER.glob("*.md"))
MOST_BYTES = 250_000
"""Of a picture."""


def text_of(path):
    return path.read_text(encoding="utf-8")


def test_the_front_page_leads_through_all_pages():
    linked = re.findall(r"^\| \[.*?\]\(([\w-]+\.md)\) \|", text_of(FOLDER / "README.md"), re.MULTILINE)
    assert sorted(linked) == [path.name for path in PAGES if path.name != "README.md"]


def test_every_topic_is_shown_on_a_page():
    from tilewright.cli.model import TOPICS

    shown = " ".join(map(text_of, PAGES))
    for topic in TOPICS:
        name = topic.__name__.strip("_").replace("_", "-")
        assert f"tilewright model {name} " in shown or f"tilewright model {name}\n" in shown, name


def test_every_topic_names_a_function_that_a_page_calls():
    """In its help; what the programs of the pages print is compared below."""
    from typer.testing import CliRunner

    from tilewright.cli import app
    from tilewright.cli.model import TOPICS

    programs = "".join(re.findall(r"^```python\n(.*?)^```\n\n```text\n.", "\n".join(map(text_of, PAGES)), re.M | re.S))
    for topic, place in TOPICS.items():
        module, _, name = place.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
        shown = f"from {module} import " in programs and re.search(rf"\b{name}\(", programs)
        assert shown or place in text_of(FOLDER / "libraries.md"), place
        help_text = CliRunner().invoke(app, ["model", topic.__name__.replace("_", "-"), "--help"]).stdout
        assert f"From Python: {place}" in help_text


def test_the_words_of_the_glossary_are_those_of_the_pages():
    """Each word once, and only words that a page uses."""
    entries = re.findall(r"^- \*\*(.+?)\*\*: ", text_of(FOLDER / "glossary.md"), re.MULTILINE)
    words = [word for entry in entries for word in entry.split(", ")]
    assert len(set(words)) == len(words) > 60
    shown = " ".join(text_of(path).lower() for path in PAGES if path.stem != "glossary")
    assert [word for word in words if word.lower() not in shown] == []


def test_pictures_are_shown_where_they_are_drawn_and_small():
    drawn = {name for path in PAGES for name in re.findall(r"--plot ([\w.-]+\.svg)\n", text_of(path))}
    shown = {name for path in PAGES for name in re.findall(r"!\[[^\]]+\]\(pictures/([\w.-]+)\)", text_of(path))}
    there = {path.name for path in (FOLDER / "pictures").iterdir()}
    assert drawn == shown == there
    for name in there:
        assert (FOLDER / "pictures" / name).stat().st_size < MOST_BYTES


def test_pictures_name_no_colors():
    """They differ on a dark page, and not all readers tell them apart."""
    named = re.compile(r">[^<>]*\b(blue|orange|green|red|gray|purple|brown|teal|pale)\b[^<>]*</text>", re.IGNORECASE)
    for path in (FOLDER / "pictures").iterdir():
        assert not named.search(text_of(path)), path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_what_its_commands_say(page, monkeypatch, capsys):
    """Also that they run; the pictures' bytes are those of one version of matplotlib."""
    if "--plot" in text_of(page) and not _same_matplotlib():
        pytest.skip("another version of matplotlib places text a little elsewhere")
    if page.stem == "timeline" and not nvrtc_version().startswith("13.5"):
        pytest.skip("the page shows what kernels of NVRTC 13.5 do")
    monkeypatch.syspath_prepend(ROOT / "tools")
    import machine_pages

    monkeypatch.setattr(sys, "argv", ["machine_pages.py", "--check", page.stem])
    assert machine_pages.main() == 0, capsys.readouterr().err


def test_a_difference_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import machine_pages

    (tmp_path / "waves.md").write_text("```console\n$ tilewright model\nnothing\n```\n")
    monkeypatch.setattr(machine_pages, "FOLDER", tmp_path)
    monkeypatch.setattr(machine_pages, "ROOT", tmp_path)
    for arguments, code, said in ((["--check"], 1, True), ([], 0, False), (["--check"], 0, False)):
        monkeypatch.setattr(sys, "argv", ["machine_pages.py", *arguments])
        assert machine_pages.main() == code
        assert ("waves.md differs" in (error := capsys.readouterr().err)) == said
        assert ("`python tools/machine_pages.py waves`" in error) == said
    assert "waves " in text_of(tmp_path / "waves.md")


def _same_matplotlib():
    matplotlib = pytest.importorskip("matplotlib")
    return f"Matplotlib v{matplotlib.__version__}," in text_of(next((FOLDER / "pictures").iterdir()))
