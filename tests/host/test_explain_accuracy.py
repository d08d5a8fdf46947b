"""The tool that compares predicted times with measured ones, and what it finds in the records of suites."""

import json

import explain_accuracy
import pytest

from tilewright.errors import ArgumentValueError


def launches(*names):
    return [
        each for name in names for each in explain_accuracy.load(explain_accuracy.ROOT / "results" / f"{name}.json")
    ]


def bench_record(time_us, config, gpu="NVIDIA H200", **product):
    entry = {"contender": "tilewright", "kernel": "wgmma", "config": config, "burst": {"time_us": time_us}}
    shape = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "layout": "nt"} | product
    return {"gpu": gpu, "products": [{**shape, "contenders": [entry, {"contender": "cublas"}]}]}


def test_suites_are_met_as_promised():
    found = launches(*explain_accuracy.SUITES)
    near = [launch for launch in found if abs(launch.error) <= explain_accuracy.NEAR]
    assert len(near) >= 0.8 * len(found)
    assert not [launch for launch in found if launch.is_far]


def test_random_products_are_met_better_than_by_the_costs_that_rank():
    found = explain_accuracy.summaries(launches(*explain_accuracy.SWEEPS))["swept"]
    assert found["within_tenth"] > 0.5
    assert found["far"] < 0.05 * found["launches"]


def test_the_result_is_recorded():
    recorded = json.loads(explain_accuracy.RECORD.read_text())
    near = [abs(launch.error) <= explain_accuracy.NEAR for launch in launches(*explain_accuracy.SUITES)]
    assert set(recorded["records"]) == {*explain_accuracy.SUITES, *explain_accuracy.SWEEPS}
    assert recorded["suites_within_tenth"] == pytest.approx(sum(near) / len(near), abs=0.03)
    assert recorded["command"] == "python tools/explain_accuracy.py"


def test_a_record_of_bench_is_compared(tmp_path):
    path = tmp_path / "record.json"
    config = {"tile_m": 128, "tile_n": 256, "stages": 4}
    path.write_text(json.dumps(bench_record(100.0, config)))
    (launch,) = explain_accuracy.load(path)
    assert (launch.power, launch.measured, launch.kernel) == ("burst", 100.0, "wgmma")
    assert launch.error == pytest.approx(launch.predicted / 100 - 1)
    assert launch.is_far == (abs(launch.predicted - 100) > 25)
    summary = explain_accuracy.summaries([launch])["burst"]
    assert summary["launches"] == 1
    assert summary["median_error"] == launch.error


def test_batches_take_their_number(tmp_path):
    path = tmp_path / "record.json"
    config = {"tile_m": 128, "tile_n": 128, "stages": 4, "epilogue": "direct", "overlap": False}
    path.write_text(json.dumps(bench_record(100.0, config, m=512, n=512, k=512, batch=64)))
    (many,) = explain_accuracy.load(path)
    path.write_text(json.dumps(bench_record(100.0, config, m=512, n=512, k=512)))
    (one,) = explain_accuracy.load(path)
    assert many.predicted > 5 * one.predicted


@pytest.mark.parametrize(
    "content", ["{", "{}", '{"gpu": "V99", "products": []}', '{"gpu": "NVIDIA H200", "products": []}']
)
def test_what_is_no_record_is_refused(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_text(content)
    with pytest.raises(ArgumentValueError, match="record"):
        explain_accuracy.load(path)


def test_small_errors_of_small_products_are_not_far():
    launch = explain_accuracy.Launch("p", "wgmma", "c", "burst", 1.0, 1.49)
    assert not launch.is_far
    assert launch._replace(predicted=1.51).is_far
