"""The picture of a record of `tilewright bench`."""

import json
from pathlib import Path

import pytest

from tilewright.bench.plot import draw

RECORDS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", ["wgmma_vs_cublas", "peers", "schedules", "bench_self_check"])
def test_the_legend_lies_inside_the_picture(name, monkeypatch, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    assert draw(record, tmp_path / "rates.png")
    (figure,) = figures
    legend, page = figure.legends[0].get_window_extent(), figure.bbox
    assert {text.get_text() for text in figure.legends[0].get_texts()} >= {
        entry["contender"] for product in record["products"] for entry in product["contenders"] if entry.get("burst")
    }
    assert page.x0 <= legend.x0 < legend.x1 <= page.x1
    assert page.y0 <= legend.y0 < legend.y1 <= page.y1
