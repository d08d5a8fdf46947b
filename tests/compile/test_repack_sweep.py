"""tools/repack_sweep.py, with copies that the emulator makes and launches that take a constant time."""

import json
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import H200
from tilewright.kernels.registry import KERNELS
from tilewright.measure.protocol import Work
from tilewright.planner.copies import copied
from tilewright.planner.tuning.stand import Stand

TOOLS = Path(__file__).parents[2] / "tools"


class EmulatedStand(Stand):
    """A stand in the emulator's memory; each replay is one launch and takes a microsecond."""

    def work(self, candidate, compiled, until):
        return self.replays(self._launcher(candidate, compiled), until)

    def replays(self, launch, until):
        launch(0, 0)
        return Work(lambda times: times * 1e-6)


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    repack_sweep, sweep = import_module("repack_sweep"), import_module("sweep")
    monkeypatch.setattr(repack_sweep, "backend", lambda device: EmulatedBackend(H200))
    monkeypatch.setattr(repack_sweep._Copies, "copy_as_much", lambda self, number, stream: None)
    monkeypatch.setattr(repack_sweep, "GpuStand", EmulatedStand)
    monkeypatch.setattr(sweep, "GpuStand", EmulatedStand)
    return repack_sweep


def test_a_record_has_copies_of_one_operand_and_the_products(tool, tmp_path, monkeypatch):
    """k is over n, and the rows of a alone are copied: its copy is longer than out."""
    path = tmp_path / "repack.json"
    monkeypatch.setattr(sys, "argv", ["repack_sweep.py", str(path), "--products", "9x64x100", "--layouts", "nn"])
    tool.main()
    record = json.loads(path.read_text())
    rows = [dict(zip(record["columns"]["launches"], row, strict=True)) for row in record["launches"]]
    assert {row["kind"] for row in rows} == {
        "repack", "both launches", "call", "driver's copy", "product of copies", "aligned"
    }  # fmt: skip
    assert {row["TB/s"] for row in rows if row["kind"] == "repack"} == {round(2 * 9 * 100 * 2 * 1e-6, 3)}


def test_a_copy_that_is_not_made_is_found(tool):
    problem = tool.posed(tool.Shape(9, 17, 33))
    copies = copied(problem, KERNELS["wgmma"], H200)
    with EmulatedStand(problem, EmulatedBackend(H200)) as stand, ExitStack() as until:
        assert "elements of the copy of a are wrong" in tool._Copies(problem, copies, stand, until).fault(
            lambda *arguments: None
        )
