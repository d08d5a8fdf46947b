"""The page of `tilewright report`: whole, accessible, and without what would need a network."""

import json
from html.parser import HTMLParser

import pytest

from support.commands import error, in_json
from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp32
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.explaining.explained import explained
from tilewright.explaining.report import page as pages
from tilewright.explaining.report.pictures import Shown
from tilewright.explaining.report.sections import counters, fragments, measured, timeline
from tilewright.hardware import A100, H200
from tilewright.kernels.wgmma.config import WgmmaConfig

VOID = {"meta", "link", "img", "input", "line", "br"}


class Parsed(HTMLParser):
    """Elements in their order, with faults of nesting."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.faults = [], [], []
        self.feed(text)
        self.faults += self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def of(self, *names):
        return [found for tag, found in self.elements if tag in names]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "ladder.json"
    rung = {"name": "<script>alert(1)</script>", "time_us": 12.5, "tflops": 3.25, "cublas_ratio": 0.5}
    path.write_text(json.dumps({"gpu": "H200", "date": "2026-11-23", "command": "tilewright ladder", "rungs": [rung]}))
    return path


@pytest.fixture(scope="module")
def text(record):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    found = explained(Product(256, 256, 256, bf16, bf16).problem, H200, present=False)
    return pages.page(found, [record], "1.2.3")


def test_the_page_is_whole(text):
    parsed = Parsed(text)
    assert parsed.faults == []
    ids = [found["id"] for _, found in parsed.elements if "id" in found]
    assert len(ids) == len(set(ids))
    assert {found["id"] for found in parsed.of("section")} == set(pages.CONTENTS)
    assert all(found["href"][1:] in ids for found in parsed.of("a") if found["href"].startswith("#"))


def test_the_page_needs_no_network(text):
    parsed = Parsed(text)
    sources = [found.get("src") or found.get("href", "") for found in parsed.of("img", "link", "script", "a")]
    assert all(not source or source.startswith(("data:", "#")) for source in sources)
    assert "@import" not in text
    assert "url(http" not in text


def test_controls_and_pictures_have_names(text):
    parsed = Parsed(text)
    labeled = {found["for"] for found in parsed.of("label")}
    assert {found["id"] for found in parsed.of("input")} == labeled
    assert len(labeled) == 3
    assert all(found["alt"] for found in parsed.of("img"))
    assert parsed.of("html")[0]["lang"] == "en"


def test_what_records_say_is_escaped(text):
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_every_element_of_a_fragment_has_its_lanes():
    found = fragments(Shown.of(explained(Product(256, 256, 256, bf16, bf16).problem, H200, present=False)))
    assert found["lanes"] == 128
    sums = next(matrix for matrix in found["matrices"] if matrix["name"] == "D")
    held = [lane for row in sums["cells"] for cell in row for lane in cell["lanes"]]
    assert sorted(set(held)) == list(range(128))
    assert len(held) == 64 * 16


def test_cuda_cores_have_no_fragments():
    shown = Shown.of(explained(Product(64, 64, 64, fp32, fp32).problem, A100, present=False))
    assert fragments(shown) is None


TURNS = WgmmaConfig(64, 64, 3, epilogue="direct", overlap=False, ping_pong=True)


@pytest.fixture(scope="module")
def by_turns():
    found = explained(Product(512, 512, 128, bf16, bf16, "nn").problem, H200, present=False, config=TURNS)
    return Shown.of(found)


def test_a_time_line_shows_consumers_that_take_turns(by_turns):
    line = timeline(by_turns)
    assert line["about"].startswith("Two tiles, which two consumers take by turns, with a k of 128")
    spans = {row["name"]: row["spans"] for row in line["rows"]}
    first, second = (spans[f"warps {warps}: multiply"] for warps in ("0 to 3", "4 to 7"))
    assert float(first[-1]["x"]) < float(second[0]["x"])
    assert {"warps 0 to 3: store", "warps 4 to 7: store"} <= set(spans)


def test_counters_are_those_of_the_config_and_the_layout(by_turns):
    counted = counters(by_turns)
    assert counted["about"].startswith("wgmma with the Config above multiplies 264x328x456 bf16 nn")
    assert any("turns.cuh" in line for line, *_ in counted["rows"])
    other = counters(by_turns._replace(config=WgmmaConfig(stages=99)))
    assert other["about"].startswith("wgmma with a Config for it multiplies 264x328x456 bf16 nn")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"gpu": "H200", "date": "2026", "command": "x", "rungs": [1]}'])
def test_what_is_no_record_is_refused(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_text(content)
    with pytest.raises(ArgumentValueError, match="tilewright ladder"):
        measured([path])


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"matplotlib and jinja2.*pip install matplotlib jinja2"):
        pages.require_packages()


def test_the_command_writes_a_page(tmp_path):
    pytest.importorskip("jinja2")
    path = tmp_path / "page.html"
    found = in_json("report", "simt", "--gpu", "A100", "-o", path)
    assert found["kernel"] == "simt"
    assert found["bytes"] == path.stat().st_size
    assert "There is no time line" in path.read_text()
    assert "1 or more" in error("report", 64, 64, 0, "-o", path)


def test_a_kernel_without_sums_has_no_report():
    pytest.importorskip("jinja2")
    assert "KERNEL='copy' takes products without a sum, and a report is about sums: name another" in error(
        "report", "copy"
    )
    listed = error("report", "nosuch").partition("use one of ")[2]
    assert listed.startswith("wgmma, mma, simt, gemv, uncoalesced,")


def test_the_command_wants_a_kernel_or_a_product():
    assert "M N K='64 64' is not a shape" in error("report", 64, 64)
    assert "'wgmma 64 64 64' is neither: name a kernel, or give M N K" in error("report", "wgmma", 64, 64, 64)


def test_tiles_that_several_ctas_make_fill_as_many_places(tmp_path):
    """24 tiles of four CTAs each have 80% of 120 places."""
    page = tmp_path / "report.html"
    in_json("report", 300, 1500, 14000, "--gpu", "H200", "-o", page)
    assert "1 wave, 80.0% of the places busy" in page.read_text(encoding="utf-8")
