"""The chart of a record of `tilewright bench`."""

import json
from pathlib import Path

import pytest

from tilewright.bench.plot import chart
from tilewright.bench.standing import best_peer, ratio_to, standings
from tilewright.plots.style import GREEN

pytest.importorskip("matplotlib")

RECORDS = Path(__file__).parents[2] / "results"


def record_of(name):
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["wgmma_vs_cublas", "proof", "schedules", "bench_self_check"])
def test_the_legend_lies_inside_the_picture(name):
    figure = chart(record_of(name))
    figure.draw_without_rendering()
    legend, page = figure.legends[0].get_window_extent(), figure.bbox
    assert page.x0 <= legend.x0 < legend.x1 <= page.x1
    assert page.y0 <= legend.y0 < legend.y1 <= page.y1


def test_points_are_ratios_to_the_best_peer_which_is_named_at_the_right():
    record = record_of("proof")
    record["products"] = record["products"][:6]  # none lies beyond the axis
    figure = chart(record)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "tilewright", "tilewright:tuned", "cublas", "quack",
    }  # fmt: skip
    for axis, protocol in zip(figure.axes, record["protocols"], strict=True):
        (ours,) = [line for line in axis.get_lines() if line.get_color() == GREEN and line.get_marker() == "o"]
        ratios = [ratio_to(product, protocol, "tilewright", "best peer").median for product in record["products"]]
        assert list(ours.get_xdata()) == pytest.approx(ratios)
        texts = [text.get_text() for text in axis.texts]
        for product in record["products"]:
            assert any(text.startswith(f"{best_peer(product, protocol)} ") for text in texts)


def test_a_ratio_beyond_the_axis_is_written():
    record = record_of("proof")
    record["products"] = record["products"][:3]
    for sample in (found := record["products"][0]["contenders"][0])["settled"], found["burst"]:
        sample["samples_us"] = [3 * each for each in sample["samples_us"]]
    texts = [text.get_text() for axis in chart(record).axes for text in axis.texts]
    assert sum(text.startswith("\u25c2 0.3") for text in texts) == 2


def test_tuned_and_untuned_have_marks_of_their_own():
    lines = [line for line in chart(record_of("proof")).axes[0].get_lines() if line.get_marker() in ("o", "D")]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 2


# ---------------------------------------------------------------- the standings that the chart and tables show


def product(ours, **peers):
    """A product with a sample each in us, three times."""
    times = {"tilewright": ours, **peers}
    entries = [{"contender": name, "settled": {"time_us": us, "samples_us": [us] * 3}} for name, us in times.items()]
    return {"contenders": entries, "interrupted": False, "m": ours}


def test_a_standing_has_the_mean_the_worst_and_the_number_of_slower_products():
    products = [
        product(100, cublas=200, quack=100),
        product(100, cublas=50, quack=98),
        product(100, cublas=102, quack=200),
    ]
    best, cublas = standings({"protocols": {"settled": {}}, "products": products})
    assert (best.to, cublas.to) == ("best peer", "cublas")
    assert best.mean.median == pytest.approx((1.0 * 0.5 * 1.02) ** (1 / 3))
    assert cublas.mean.low == cublas.mean.high == pytest.approx((2 * 0.5 * 1.02) ** (1 / 3))
    assert best.worst[0] is products[1]
    assert best.worst[1].median == pytest.approx(0.5)
    assert (best.slower, cublas.slower) == (1, 1)


def test_interrupted_products_and_contenders_that_half_of_them_have_do_not_count():
    cut = {**product(100, cublas=10, quack=10), "interrupted": True}
    other = product(100, cublas=100, quack=100)
    other["contenders"][0]["contender"] = "tilewright:simt"
    record = {"protocols": {"settled": {}}, "products": [product(100, cublas=100, quack=100), cut]}
    assert {len(each.ratios) for each in standings(record)} == {1}
    assert standings({**record, "products": [*record["products"], other]}) == []
