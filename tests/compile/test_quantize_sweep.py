"""tools/quantize_sweep.py, with codes that the emulator makes and launches that take a constant time."""

import json
import sys
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path

import pytest

from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import H200
from tilewright.measure.protocol import Work

TOOLS = Path(__file__).parents[2] / "tools"


class Emulated(EmulatedBackend):
    """The emulator with what the tool asks of a GPU."""

    l2_bytes = 100_000

    def current(self):
        return nullcontext()


@contextmanager
def graph_work(launch, launches):
    launch(0)
    yield Work(lambda times: times * 1e-3, launches)


def test_the_tool_measures_every_config(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = import_module("quantize_sweep")
    # A GPU of one SM, so that tiles are brought to L2 ahead.
    monkeypatch.setattr(tool, "backend", lambda device: Emulated(H200._replace(sm_count=1)))
    monkeypatch.setattr(tool, "graph_work", graph_work)
    monkeypatch.setattr(tool.Sets, "copy", lambda *_: None)
    record = tmp_path / "quantize.json"
    command = ["quantize_sweep.py", str(record), "--shapes", "130x520", "--dtypes", "bf16", "--seconds", "600"]
    monkeypatch.setattr(sys, "argv", command)
    tool.main()
    rows = json.loads(record.read_text())["launches"]
    assert {(row[4], row[5]) for row in rows} == {(block, each) for block in tool.BLOCKS for each in (False, True)}
    of_row = [row for row in rows if row[4:6] == ["row", False]]
    assert len(of_row) > 3
    assert of_row[-1][6] == "driver's copy"
    assert of_row[-1][9] == pytest.approx(1)
    assert all(row[8] > 0 for row in rows)
    assert "left out" not in capsys.readouterr().err
