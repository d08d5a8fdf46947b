"""The benchmark of products that were not met before, on a GPU that is not there."""

import json
import sys

from tilewright.bench import planning_time


def test_it_times_new_rows_strides_and_weights_of_every_kernel(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(planning_time, "ROWS", range(136, 144))
    monkeypatch.setattr(planning_time, "WEIGHTS", [(64, 136), (72, 136), (64, 144)])
    monkeypatch.setattr(planning_time, "CALLS", 4)
    monkeypatch.setattr(sys, "argv", ["planning_time", "--samples", "3", "--json", str(tmp_path / "record.json")])
    planning_time.main()
    record = json.loads((tmp_path / "record.json").read_text())
    assert list(record["in_a_row"]) == ["wgmma", "mma", "simt"]
    assert all(0 < each["median"] <= each["percentile_99"] for each in record["in_a_row"].values())
    calls = (
        "plan of a new m",
        "matmul of a new m",
        "RangePlan of a new m",
        "plan of new strides",
        "plan of a new n and k",
    )
    assert set(record["microseconds"]) == {f"{call}, {kernel}" for call in calls for kernel in record["in_a_row"]}
    assert "8 new m in a row, wgmma" in capsys.readouterr().out
