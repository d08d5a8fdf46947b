"""The chart of a record of `tilewright bench`."""

import json
from pathlib import Path

import pytest

from tilewright.bench.charts.plot import chart
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


def few_rows(*weights, rows=(1, 4)):
    """A record of products with weights of these sizes (n, k), of which a read takes 10 us and ours 12 us or more."""
    products = []
    for number, (n, k) in enumerate(weights):
        for m in rows:
            each = product(12 + number + m / 4, **{"tilewright:gemv": 10.0, "cublas": 15.0, "read": 10.0})
            for entry in each["contenders"]:
                entry["settled"]["read_share"] = 10 / entry["settled"]["time_us"]
            products.append(
                each | {"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "nt", "label": f"layer {number}"}
            )
    about = {"gpu": "a GPU", "date": "2026-11-23", "suite": "few-rows", "data": "randn", "protocols": {"settled": {}}}
    return about | {"products": products}


def test_records_with_a_read_have_a_panel_for_each_weight_with_shares_over_rows():
    record = few_rows((4096, 2048), (1024, 8192), (1024, 512))
    figure = chart(record)
    panels = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title(loc="left") for axis in panels] == [
        "layer 0\n4096 x 2048 nt", "layer 1\n1024 x 8192 nt", "layer 2\n1024 x 512 nt",
    ]  # fmt: skip
    for number, axis in enumerate(panels):
        lines = {line.get_label(): line for line in axis.get_lines()}
        assert {"tilewright", "tilewright:gemv", "cublas"} < lines.keys()
        assert list(lines["tilewright"].get_xdata()) == [1, 4]
        assert list(lines["tilewright"].get_ydata()) == pytest.approx([10 / (12 + number + m / 4) for m in (1, 4)])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["tilewright", "tilewright:gemv", "cublas"]
    assert {each.to: each.mean.median for each in standings(record) if each.ours == "tilewright:gemv"} == pytest.approx(
        {"cublas": 1.5, "read": 1.0}
    )


def test_one_product_beside_a_read_is_drawn_as_others_are():
    record = few_rows((4096, 2048), rows=(1,))
    record["products"][0] |= {"baseline": "cublas"}
    (axis,) = chart(record).axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["layer 0:  1 x 4096 x 2048 nt"]


def test_the_readme_has_the_means_at_each_number_of_rows(monkeypatch):
    import performance_numbers

    record = few_rows((4096, 2048), (1024, 8192))
    monkeypatch.setattr(performance_numbers, "records", lambda: {"few_rows": record})
    lines = performance_numbers.rows_summary()
    assert lines[0] == "Products of 1 to 4 rows beside a streaming read of their weights:"
    assert "geometric means over 2 weights (a GPU, 2026-11-23; `results/few_rows.json`)." in lines[1]
    assert lines[3:] == [
        "| rows | 1 | 4 |",
        "|---|---|---|",
        "| tilewright, settled | 0.78, **1.18** | 0.74, **1.11** |",
        "| tilewright:gemv, settled | 1.00, **1.50** | 1.00, **1.50** |",
        "",
    ]


def test_the_page_names_what_others_multiply_quicker_each_by_its_newest_record(monkeypatch):
    import performance_numbers

    def slower(record, m, n):
        (found,) = (each for each in record["products"] if (each["m"], each["n"]) == (m, n))
        sample = found["contenders"][0]["settled"]
        sample["samples_us"] = [20.0 for _ in sample["samples_us"]]

    older, newer = few_rows((4096, 2048), (1024, 8192)), few_rows((4096, 2048)) | {"date": "2026-11-24"}
    slower(older, 1, 4096)  # which a newer record has as quicker
    slower(older, 4, 1024)
    monkeypatch.setattr(performance_numbers, "records", lambda: {"newer": newer, "older": older})
    lines = performance_numbers.losses()
    assert lines[2].startswith("The records below have 4 products,")
    assert "Of 1, the whole interval" in lines[2]
    assert lines[7:] == [
        "| 4x1024x8192 bf16 nt | a, settled | **0.750** [0.750, 0.750] | cublas | `older`, 2026-11-23 |",
    ]


def test_the_page_has_shares_by_rows_and_what_overlap_saves():
    import performance_numbers

    table = performance_numbers._tables(few_rows((4096, 2048), (1024, 8192)))
    assert table[2:9] == [
        "tilewright, settled:",
        "",
        "| weight | m = 1 | m = 4 |",
        "|---|---|---|",
        "| layer 0, 4096 x 2048 nt | 12.2, 0.82, **1.22** | 13.0, 0.77, **1.15** |",
        "| layer 1, 1024 x 8192 nt | 13.2, 0.75, **1.13** | 14.0, 0.71, **1.07** |",
        "| geometric mean | 0.78, **1.18** | 0.74, **1.11** |",
    ]
    assert table[10] == "tilewright:gemv, settled:"
    chain = product(9.0, **{"tilewright:serial": 10.5, "cublas": 12.0})
    chain |= {"n": 4096, "k": 2048, "dtype": "bf16", "layout": "nt", "label": "layer"}
    lines = performance_numbers._tables({"protocols": {"settled": {}}, "products": [chain]})
    assert lines[-3] == "| 9.0x4096x2048 bf16 nt, layer | 9.00 | 10.50 | 1.50 |"
    assert lines[-1] == "tilewright, settled: 1.50 us less a launch in the median, 1.50 at least."


# ---------------------------------------------------------------- the standings that the chart and tables show


def product(ours, **peers):
    """A product with a sample each in us, three times."""
    times = {"tilewright": ours, **peers}
    entries = [
        {"contender": name, "settled": {"time_us": us, "tflops": 1.0, "samples_us": [us] * 3}}
        for name, us in times.items()
    ]
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
