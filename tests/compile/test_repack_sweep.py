"""tools/repack_sweep.py and narrow_sweep.py, with kernels in the emulator and launches that take a constant time."""

import json
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from random import Random
from types import SimpleNamespace

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


def test_narrow_products_are_multiplied_by_both_kernels_and_their_record_has_all_configs(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(TOOLS))
    narrow, sweep = import_module("narrow_sweep"), import_module("sweep")
    monkeypatch.setattr(narrow, "backend", lambda device: EmulatedBackend(H200))
    monkeypatch.setattr(sweep, "GpuStand", EmulatedStand)
    shapes = iter([narrow.Shape(33, 65, 41), narrow.Shape(34, 50, 66, 1, "nn"), narrow.Shape(34, 50, 66, 1, "nn")])
    monkeypatch.setattr(narrow, "_shape", lambda random, elements: next(shapes))
    clock = iter([0.0, 1.0, 2.0, 9.0])
    monkeypatch.setattr(narrow, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    path = tmp_path / "narrow.json"
    monkeypatch.setattr(sys, "argv", ["narrow_sweep.py", str(path), "--seconds", "5"])
    narrow.main()
    assert "2 products: choices have 1.000 of the best, at least 1.00; times of mma" in capsys.readouterr().out
    record = json.loads(path.read_text())
    rows = [dict(zip(record["columns"]["launches"], row, strict=True)) for row in record["launches"]]
    configs = {(row["m"], row["kernel"], row["config"][:24]) for row in rows}
    assert {kernel for _, kernel, _ in configs} == {"wgmma", "mma"}
    assert len(configs) == len(rows) == 6


def test_narrow_products_are_drawn_with_rows_that_tma_cannot_address(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    narrow = import_module("narrow_sweep")
    random = Random(0)
    for _ in range(100):
        problem = narrow.posed(narrow._shape(random, "bf16"))
        assert KERNELS["wgmma"].refuses(problem, H200)
