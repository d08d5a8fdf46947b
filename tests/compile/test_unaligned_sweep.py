"""tools/unaligned_sweep.py, with launches that take a constant time, on a GPU that is not there."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from tilewright.hardware import H200
from tilewright.kernels.wgmma_unaligned import UnalignedConfig
from tilewright.measure.protocol import Work

TOOLS = Path(__file__).parents[2] / "tools"

MICROSECONDS = {"wgmma_unaligned": 12.0, "wgmma": 9.0, "repack": 4.0}


class Stand:
    """Every candidate is right; a launch takes what its kernel takes."""

    def __init__(self, problem, backend):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def fault(self, candidate, compiled):
        assert candidate.kernel.name != "repack"
        return ""

    def work(self, candidate, compiled, until):
        return Work(lambda times: times * MICROSECONDS[candidate.kernel.name] / 1e6)


def test_a_record_has_each_way_with_what_its_copies_take(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    unaligned_sweep, sweep = import_module("unaligned_sweep"), import_module("sweep")
    monkeypatch.setattr(unaligned_sweep, "backend", lambda device: SimpleNamespace(hardware=H200))
    monkeypatch.setattr(sweep, "GpuStand", Stand)
    path = tmp_path / "unaligned.json"
    options = ["--products", "65x67x69", "--layouts", "nt", "--most", "2"]
    monkeypatch.setattr(sys, "argv", ["unaligned_sweep.py", str(path), *options])
    unaligned_sweep.main()
    record = json.loads(path.read_text())
    rows = [dict(zip(record["columns"]["launches"], row, strict=True)) for row in record["launches"]]
    found = {row["kind"]: (row["us"], row["copies"]) for row in rows}
    assert found == {
        "in place": (12.0, 0.0),
        "copies a": (12.0, 4.0),
        "copies b": (12.0, 4.0),
        "copies a and b": (9.0, 4.0),
        "aligned": (9.0, 0.0),
    }
    assert {(row["m"], row["n"], row["k"], row["layout"]) for row in rows} == {(65, 67, 69, "nt")}
    assert len({UnalignedConfig(**row["config"]) for row in rows if row["kind"] == "in place"}) == 2
