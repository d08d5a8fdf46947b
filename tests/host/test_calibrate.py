"""The tool that compares the model of wgmma's time with records, and fits its constants."""

import json
import math
import sys
from itertools import islice
from pathlib import Path
from statistics import geometric_mean

import calibrate
import choice_shares
import fit_correction
import fit_gemv
import numpy as np
import pytest

from tilewright.dtypes import bf16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.kernels import gemv_time
from tilewright.kernels.wgmma.space import Limits, Space
from tilewright.model.cost import COSTS, found_of
from tilewright.model.prediction import TIMES
from tilewright.model.tiling.tiles import Promotion

ROOT = Path(__file__).parents[2]
FIELDS = ["tile_m", "tile_n", "tile_k", "cluster_m", "cluster_n", "split_k", "swap_ab", "ping_pong"]


@pytest.fixture(scope="module")
def shipped():
    return calibrate.load(calibrate.RECORD)


def record_of(products, gpu="NVIDIA H200"):
    """Of {shape: (rows of FIELDS or of the first of them, their us, cuBLAS's us)}."""
    fields = FIELDS[: max(7, len(next(iter(products.values()))[0][0]))]
    launches = [
        [*shape, *row, us] for shape, (rows, times, _) in products.items() for row, us in zip(rows, times, strict=True)
    ]
    run = {"cublas": [[*shape, cublas] for shape, (_, _, cublas) in products.items()], "launches": launches}
    return {"gpu": gpu, "columns": {"launches": ["m", "n", "k", *fields, "us"]}, "runs": [run]}


def loaded(tmp_path, record):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    return calibrate.load(path)


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (16, 4096, 2056), (8192, 96, 72)])
def test_times_are_those_that_the_kernel_ranks_by(tmp_path, shape):
    m, n, k = shape
    space = Space(Limits((False, False), (1024, 1024), 2, True), bf16, H200)
    assert {tiling.swap_ab for tiling in space.tilings} == {False, True}
    (measured,) = loaded(tmp_path, record_of({shape: (space.tilings, [1.0] * len(space.tilings), 1.0)}))
    ranked = found_of(space.ranking.fixed(n, k, 1, 2 * k), m).us
    possible = np.isfinite(ranked)
    np.testing.assert_allclose(calibrate.predict(measured, COSTS)[possible], ranked[possible], rtol=1e-12)


def test_picks_are_compared_with_the_best_and_with_cublas(tmp_path):
    rows = [[64, 64, 64, 1, 1, 1, False], [128, 128, 64, 1, 1, 1, False], [128, 256, 64, 2, 1, 1, True]]
    shapes = (512, 512, 512), (4096, 4096, 4096)
    empty = loaded(tmp_path, record_of({shape: (rows, [1.0] * 3, 1.0) for shape in shapes}))
    one, other = (calibrate.predict(each, COSTS) for each in empty)
    # The model is right about the first product up to a factor; its pick for the other takes four times as long.
    late = 2 * other
    late[other.argmin()] = 4 * late.min(initial=math.inf, where=other > other.min())
    cublas = 3 * one.min(), 0.5 * late[other.argmin()]
    times = (2 * one, late)
    found = dict(zip(shapes, zip([rows] * 2, [each.tolist() for each in times], cublas, strict=True), strict=True))
    quality = calibrate.evaluate(loaded(tmp_path, record_of(found)), COSTS)
    worst = calibrate.Shape(*shapes[1])
    assert tuple(quality.of_best) == (pytest.approx(0.5), pytest.approx(0.25), worst)
    assert tuple(quality.of_cublas) == (pytest.approx(math.sqrt(1.5 * 0.5)), pytest.approx(0.5), worst)
    assert quality.error == pytest.approx(0.5)


def test_records_of_bench_are_read(tmp_path):
    record = json.loads((ROOT / "results/wgmma_vs_cublas.json").read_text())
    products = loaded(tmp_path, record)
    assert [each.shape for each in products] == [
        calibrate.Shape(each["m"], each["n"], each["k"]) for each in record["products"]
    ]
    for each, product in zip(products, record["products"], strict=True):
        times = {entry["contender"]: entry["burst"]["time_us"] for entry in product["contenders"]}
        assert each.cublas == times.pop("cublas")
        assert sorted(each.us) == sorted(times.values())
    record["products"][0]["layout"] = "tn"
    assert loaded(tmp_path, record)[0].shape == products[0].shape._replace(layout="tn")


def test_records_say_the_elements_of_products(tmp_path):
    shape = {"m": 512, "n": 256, "k": 384, "layout": "nt", "elements": "fp8_e4m3 row", "fused": "relu(acc)"}
    fields = {"tile_m": 128, "tile_n": 128, "tile_k": 128, "ping_pong": True, "us": 7.5}
    columns = {"launches": [*shape, *fields], "cublas": [*shape, "us"]}
    run = {"launches": [[*shape.values(), *fields.values()]]}
    (measured,) = loaded(tmp_path, {"gpu": "NVIDIA H200", "columns": columns, "runs": [run]})
    assert measured.shape == calibrate.Shape(**shape)
    assert str(measured.shape) == "nt 512x256x384 fp8_e4m3 row relu(acc)"
    assert (str(measured.solved.a.dtype), measured.solved.recipe) == ("fp8_e4m3", "row")
    assert (measured.tiles.promotion, measured.tiles.by_turns.tolist()) == (Promotion(1.0, in_step=False), [True])
    assert math.isnan(measured.cublas)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "no record"),
        ({"gpu": "NVIDIA H200", "rungs": []}, "no record"),
        ({"gpu": "NVIDIA H200", "products": []}, "0 products"),
        (record_of({(64, 64, 64): ([[64, 64, 64, 1, 1, 1, 0]], [1.0], 1.0)}, "NVIDIA A100"), "a Hopper GPU"),
        (record_of({(64, 64, 64): ([[64, 64, 64, 1, 1, 1]], [1.0], 1.0)}), "no record"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, record, said):
    with pytest.raises(ArgumentValueError, match=said):
        loaded(tmp_path, record)


def test_the_model_picks_well_on_the_record(shipped):
    quality = calibrate.evaluate(shipped, COSTS)
    assert quality.of_best.mean >= 0.95
    assert quality.of_best.least >= 0.75
    assert quality.of_cublas.mean >= 1.05
    assert quality.error <= 0.12


def test_the_model_picks_well_among_random_configs_of_random_products():
    swept = calibrate.load(ROOT / "results" / "sweep_h200.json")
    assert {each.shape[3] for each in swept} == {1, 16, 64}
    quality = calibrate.evaluate(swept, COSTS)
    assert quality.of_best.mean >= 0.955
    assert quality.of_best.least >= 0.7
    assert "cuBLAS" not in str(quality)


def test_the_model_picks_well_whatever_the_layout():
    swept = calibrate.load(ROOT / "results" / "sweep_layouts_h200.json")
    assert {each.shape[4] for each in swept} == {"nn", "nt", "tn", "tt"}
    quality = calibrate.evaluate(swept, COSTS)
    assert quality.of_best.mean >= 0.94
    assert quality.of_best.least >= 0.6


def test_the_model_picks_well_in_a_record_that_came_later():
    quality = calibrate.evaluate(calibrate.load(ROOT / "results" / "sweep_later_h200.json"), COSTS)
    assert quality.of_best.mean >= 0.935
    assert quality.of_best.least >= 0.75


@pytest.mark.parametrize(
    ("record", "mean", "least"), [("by_turns_h200", 0.995, 0.98), ("sweep_blocks_near_large_h100", 0.97, 0.85)]
)
def test_the_model_picks_well_by_turns_and_where_sums_are_promoted(record, mean, least):
    quality = calibrate.evaluate(calibrate.load(ROOT / "results" / f"{record}.json"), COSTS)
    assert quality.of_best.mean >= mean
    assert quality.of_best.least >= least


def test_the_table_of_choices_has_a_row_for_each_record():
    table = choice_shares.table()
    begins = table.index("") + 3  # behind what all records say and two lines of headings
    lines = table[begins : table.index("", begins)]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[1] for row in rows] == [f"{name}.json" for name in (*choice_shares.RECORDS, *choice_shares.FEW_ROWS)]
    shares = {row[1]: (int(row[2]), float(row[4]), float(row[5].split(",")[0])) for row in rows}
    assert shares[calibrate.RECORD.name][0] == 156
    deep = calibrate.load(ROOT / "results" / "sweep_deep_h200.json")  # whose k is not short
    quality = calibrate.evaluate(deep, COSTS)
    number, mean, least = shares["sweep_deep_h200.json"]
    assert number == len(deep)
    assert mean == pytest.approx(quality.of_best.mean, abs=6e-4)
    assert least == pytest.approx(quality.of_best.least, abs=6e-3)
    # Where trees correct the picks, they are better on products to which they were not fitted.
    corrected = {
        name: values
        for trees in ("short", "2", "1")
        for name, values in json.loads((ROOT / "results" / f"correction_{trees}.json").read_text()).items()
    }
    assert all(set(names) <= set(fit_correction.RECORDS[trees]) for trees, names in fit_correction.LATER.items())
    assert set(corrected) - {"all"} == {name for names in fit_correction.RECORDS.values() for name in names}
    assert all(better > mean for number, mean, _, _, better, *_ in corrected.values() if number > 1)
    short = json.loads((ROOT / "results" / "correction_short.json").read_text())
    assert all(better > mean for number, mean, _, _, better, *_ in short.values() if number > 5)
    assert {row[1] for row in rows if row[6]} == {f"{name}.json" for name in [*corrected, *choice_shares.FEW_ROWS]} - {
        "all.json"
    }


@pytest.mark.parametrize(
    ("name", "number", "mean"),
    [
        ("gemv_h200", 100, 0.98),
        ("gemv_decode_h100", 70, 0.97),
        ("gemv_odd_h100", 35, 0.95),
        ("gemv_ends_h200", 167, 0.98),
    ],
)
def test_few_rows_are_given_a_kernel_and_config_near_the_best(name, number, mean):
    shares = [each.shares(gemv_time.trees())[1] for each in fit_gemv.products_of(name)]
    assert len(shares) == number
    assert geometric_mean(shares) > mean
    assert min(shares) > 0.7


def test_trees_of_few_rows_gain_on_weights_to_which_they_were_not_fitted():
    shares = json.loads((ROOT / "results" / gemv_time.TREES_OF_GEMV.name).read_text())
    assert shares.keys() == {*fit_gemv.RECORDS, "all"}
    number, mean, _, low, better, _, lower, of_kernels, _, _, better_kernels, *_ = shares["all"]
    assert number == sum(each[0] for name, each in shares.items() if name != "all")
    assert better > mean + 0.015
    assert lower < low / 2
    assert better_kernels > of_kernels + 0.008


@pytest.mark.parametrize("spoiled", [{"l2": COSTS.l2 / 3}, {"handover": COSTS.handover * 3}], ids=str)
def test_a_spoiled_constant_shows_and_a_fit_mends_it(shipped, spoiled):
    spoiled = COSTS._replace(**spoiled)
    assert calibrate.evaluate(shipped, spoiled).of_best.mean < calibrate.evaluate(shipped, COSTS).of_best.mean - 0.02
    few = shipped[::6]
    start, aim = calibrate.loss(few, spoiled), calibrate.loss(few, COSTS)
    steps = list(islice(calibrate.fit(few, spoiled, seed=0), 100))
    losses = [least for least, _ in steps]
    assert losses == sorted(losses, reverse=True)
    least, costs = steps[-1]
    assert least - aim < (start - aim) / 2
    assert calibrate.loss(few, costs) == pytest.approx(least)
    assert list(islice(calibrate.fit(few, spoiled, seed=0), 100)) == steps


def test_ctrl_c_keeps_the_best(monkeypatch, capsys):
    found = COSTS._replace(launch=1.75)

    def interrupted(*_):
        yield 0.5, found
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, "fit", interrupted)
    record = ROOT / "results/wgmma_vs_cublas.json"
    monkeypatch.setattr(sys, "argv", ["calibrate.py", str(record), "--fit", "60"])
    calibrate.main()
    out, err = capsys.readouterr()
    assert "6 launches of 3 products" in out
    assert "Stopped" in err
    assert eval(out.splitlines()[-1], {"Costs": type(COSTS), "inf": math.inf}) == found


def test_a_wrong_record_is_a_message(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["calibrate.py", "nothing.json"])
    with pytest.raises(SystemExit) as ended:
        calibrate.main()
    assert ended.value.code == 2
    assert "nothing.json" in capsys.readouterr().err


def test_help_shows_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["calibrate.py", "--help"])
    with pytest.raises(SystemExit):
        calibrate.main()
    assert "python tools/calibrate.py record.json --fit 300" in capsys.readouterr().out


def test_a_fit_of_times_lowers_their_error_and_keeps_what_is_held(shipped):
    start = TIMES._replace(launch=4.0)
    *_, (found, costs) = islice(calibrate.fit(shipped[:8], start, 0, calibrate.time_loss, calibrate.HELD), 60)
    assert found < calibrate.time_loss(shipped[:8], start)
    assert found == pytest.approx(calibrate.time_loss(shipped[:8], costs))
    assert costs.clock == pytest.approx(start.clock)
    assert (costs.fill, costs.cluster) == (math.inf, 0.0)
