"""tools/gemv_sweep.py, with launches that take as long as they read, on a GPU that is not there."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.hardware import H200
from tilewright.kernels.gemv import GemvConfig
from tilewright.measure.protocol import Work

TOOLS = Path(__file__).parents[2] / "tools"

MICROSECONDS = {"gemv": 12.0, "wgmma": 20.0, "stream_read": 9.0}


class Stand:
    """Every candidate is right; a launch takes what its kernel takes."""

    def __init__(self, problem, backend):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def fault(self, candidate, compiled):
        assert candidate.kernel.name != "stream_read"
        return ""

    def work(self, candidate, compiled, until):
        return Work(lambda times: times * MICROSECONDS[candidate.kernel.name] / 1e6)


@pytest.mark.parametrize(
    ("dtype", "others"), [("bf16", {"wgmma": 0.45}), ("fp32", {})], ids=["bf16", "fp32, which wgmma does not take"]
)
def test_a_record_has_the_share_of_the_read(tmp_path, monkeypatch, dtype, others):
    monkeypatch.syspath_prepend(str(TOOLS))
    gemv_sweep, sweep = import_module("gemv_sweep"), import_module("sweep")
    monkeypatch.setattr(gemv_sweep, "backend", lambda device: SimpleNamespace(hardware=H200))
    monkeypatch.setattr(gemv_sweep, "WEIGHTS", ((2048, 7168),))
    monkeypatch.setattr(sweep, "GpuStand", Stand)
    path = tmp_path / "gemv.json"
    few = ["--rows", "1", "--layouts", "nt", "--most", "2"]
    monkeypatch.setattr(sys, "argv", ["gemv_sweep.py", str(path), *few, "--dtype", dtype])
    gemv_sweep.main()
    record = json.loads(path.read_text())
    rows = [dict(zip(record["columns"]["launches"], row, strict=True)) for row in record["launches"]]
    shares = {row["kernel"]: row["share of the read"] for row in rows}
    assert shares == {"stream_read": 1.0, "gemv": 0.75, **others}
    assert {(row["m"], row["n"], row["k"], row["layout"]) for row in rows} == {(1, 2048, 7168, "nt")}
    configs = [GemvConfig(*row["config"]) for row in rows if row["kernel"] == "gemv"]
    assert len(configs) == 3  # two, and the first of them without prefetch
    assert sum(config.prefetch == 0 for config in configs) == 1
