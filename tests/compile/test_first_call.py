"""The benchmark of a process's first product."""

import json
import sys

from tilewright.bench import first_call


def test_it_times_processes_that_find_their_kernel_on_disk(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["first_call", "--samples", "3", "--json", str(tmp_path / "record.json")])
    first_call.main()
    times = json.loads((tmp_path / "record.json").read_text())["microseconds"]
    assert list(times) == ["import tilewright", "plan, kernel from the disk", "both"]
    assert all(0 < each["low"] <= each["median"] <= each["high"] for each in times.values())
    assert "both" in capsys.readouterr().out
