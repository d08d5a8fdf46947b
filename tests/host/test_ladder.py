"""The ladder as a whole: its rungs, their pages, and the command that climbs it."""

import importlib.resources
import re
from pathlib import Path

import pytest

from support.commands import error, in_json, invoke
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.ladder.kernel import LadderKernel

DOCS = Path(__file__).parents[2] / "docs" / "ladder"
HEADINGS = ["The lines that matter", "What the emulator counts", "Measured", "What limits it next", "In the article"]
MOST_LINES = 160


@pytest.mark.parametrize("rung", LADDER.values(), ids=LADDER)
def test_a_rung_is_one_short_header_and_one_page(rung):
    if isinstance(rung.kernel, LadderKernel):
        header = importlib.resources.files("tilewright") / "cuda" / rung.kernel.header
        assert rung.kernel.header == f"ladder/{rung.name}.cuh"
        assert len(header.read_text().splitlines()) <= MOST_LINES
        assert rung.kernel.inputs
    assert rung.idea.endswith(".")
    page = (DOCS / f"{rung.name}.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert f"(pictures/{rung.name}.svg)" in page
    assert f"<!-- measured:{rung.name} -->" in page


def climb(*arguments, code=0):
    return in_json("ladder", "--backend", "emulator", *arguments, code=code)


def test_every_rung_is_verified_and_counted():
    record = climb("--rungs", "uncoalesced", "--shape", "40,40,17", "--seed", 2)
    assert (record["backend"], record["m"], record["n"], record["k"]) == ("emulator", 40, 40, 17)
    assert record["verified"] is True
    assert record["interrupted"] is False
    (rung,) = record["rungs"]
    assert (rung["name"], rung["road"], rung["dtype"], rung["layout"]) == ("uncoalesced", "CUDA cores", "fp32", "nn")
    assert rung["verified"] is True
    assert 0 < rung["relative_error"] < 1e-5
    assert rung["counters"]["totals"]["global_sectors"]["ld"] > 40 * 40 * 17 / 32
    assert any(line.startswith("uncoalesced.cuh:") for line in rung["counters"]["by_line"])
    assert rung["sectors_per_load"] > 4
    assert rung["explanation"]
    assert rung["published"][0]["tflops"] == 0.243


def test_a_rung_that_does_not_take_the_shape_is_skipped_with_its_reason():
    record = climb("--shape", "0,16,16")
    assert record["verified"] is None
    assert all("empty" in rung["skipped"] and rung["verified"] is None for rung in record["rungs"])


def test_the_table_says_what_the_counters_mean():
    text = invoke("ladder", "--backend", "emulator", "--rungs", "uncoalesced", "--shape", "64").stdout
    assert "64x64x64" in text
    assert "sectors" in text
    assert "The product is right" in text


def test_a_wrong_rung_is_bad_news(monkeypatch):
    from tilewright.cli import ladder_emulated
    from tilewright.cli.product import Product
    from tilewright.reference import Comparison

    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, 1.0, 1e-6, 1))
    assert ladder_emulated
    record = climb("--rungs", "uncoalesced", "--shape", "32", code=1)
    assert record["verified"] is False


def test_ctrl_c_keeps_what_was_climbed(monkeypatch):
    from tilewright.cli import ladder_emulated

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ladder_emulated, "count", interrupted)
    record = climb("--rungs", "uncoalesced", "--shape", "32", code=130)
    assert record["interrupted"] is True
    assert record["verified"] is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_bar_chart_is_a_picture(tmp_path, suffix):
    path = tmp_path / f"ladder.{suffix}"
    invoke("ladder", "--backend", "emulator", "--rungs", "uncoalesced", "--shape", "32", "--plot", path)
    beginning = path.read_bytes()[:64]
    assert beginning.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in beginning


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rungs", ","), ["--rungs=','", "names no rung", "uncoalesced"]),
        (("--rungs", "naive"), ["--rungs='naive'", "is no rung", "uncoalesced"]),
        (("--shape", "12,13"), ["--shape='12,13' is no shape", "M,N,K"]),
        (("--settled",), ["--settled", "needs a GPU"]),
        (
            ("--rungs", "uncoalesced", "--shape", "32", "--plot", "/tmp/ladder.xyz"),
            ["--plot=", "does not end in .png, .svg, .pdf"],
        ),
        (("--rungs", "uncoalesced", "--shape", "8192"), ["minutes", "smaller product"]),
    ],
)
def test_what_cannot_be_climbed_is_said(arguments, words):
    message = error("ladder", "--backend", "emulator", *arguments)
    for word in words:
        assert word in message


def test_a_record_of_a_gpu_says_which_and_when(monkeypatch):
    from tilewright.bench import session
    from tilewright.cli import ladder

    about = {"gpu": "NVIDIA H200", "date": "2026-11-21T13:05:00+00:00", "command": "tilewright ladder --json"}
    monkeypatch.setattr(session, "machine", lambda: about)
    measured = ladder._record([], True, (4096, 2048, 1024), False)
    assert about.items() <= measured.items()
    assert (measured["m"], measured["n"], measured["k"]) == (4096, 2048, 1024)
    assert not about.keys() & ladder._record([], False, (4096, 2048, 1024), False).keys()


def test_a_published_figure_may_be_a_range():
    figures = {name: [each.range for each in rung.published] for name, rung in LADDER.items()}
    assert figures["coalesced"] == ["3.171"]
    assert figures["register_tiles"] == ["7 to 9"]
