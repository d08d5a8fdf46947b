"""Rungs with room for one CTA and for two: what is compiled, what is timed, and results that agree in the emulator."""

import json
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from tilewright.bench.inputs import Shape
from tilewright.bench.micro import occupancy
from tilewright.cli import app
from tilewright.cli.products import problem_of
from tilewright.errors import TilewrightError
from tilewright.hardware import H200
from tilewright.measure.protocol import Burst, Work

PROBLEM = problem_of(Shape(64, 64, 64, "fp32", "nn"), bias=False, activation=None)
QUICK = Burst(cycles=3, idle_seconds=0, warmups=0)


def test_room_for_two_halves_the_registers_and_changes_no_result():
    found = occupancy.check(PROBLEM)
    assert [(each.rung, each.ctas) for each in found] == [
        ("uncoalesced", 1), ("uncoalesced", 2), ("coalesced", 1), ("coalesced", 2),
    ]  # fmt: skip
    assert [each.registers <= 32 for each in found] == [False, True] * 2
    assert all(each.tflops is None for each in found)


class Place:
    """A GPU on which kernels of two CTAs take half the time."""

    hardware = H200

    def __init__(self, fault=""):
        self.wrong = fault

    def fault(self, candidate, compiled):
        return self.wrong

    def work(self, candidate, compiled, until):
        seconds = 1e-3 if compiled.registers > 32 else 0.5e-3
        return Work(lambda times: times * seconds)


def test_rungs_take_turns():
    told = []
    make = lambda numbers: nullcontext(Place())  # noqa: E731
    found = occupancy.measure(PROBLEM, make, QUICK, lambda share, doing: told.append(share))
    assert [each.tflops for each in found] == pytest.approx([2 * 64**3 / 1e9, 2 * 64**3 / 0.5e9] * 2)
    assert all(len(each.samples_us) == 3 for each in found)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_wrong_result_is_no_measurement():
    with pytest.raises(TilewrightError, match="gives a wrong result on the H200"):
        occupancy.measure(PROBLEM, lambda numbers: nullcontext(Place("it is wrong")), QUICK)


def test_the_command(monkeypatch, tmp_path):
    from tilewright.backends import gpu

    words = ["bench", "micro", "occupancy"]
    path = tmp_path / "record.json"
    done = CliRunner().invoke(app, [*words, "--backend", "emulator", "--output", str(path), "--json"])
    record = json.loads(done.stdout)
    assert record == json.loads(path.read_text())
    assert (record["gpu"], record["m"], len(record["cases"])) == (None, 64, 4)
    monkeypatch.setattr("tilewright.cli.bench.micro.products.wants_gpu", lambda backend: True)
    monkeypatch.setattr(gpu, "backend", lambda device: Place())
    monkeypatch.setattr("tilewright.bench.micro.power.gpu_stand", lambda problem: lambda made: nullcontext(Place()))
    monkeypatch.setattr(occupancy, "PROTOCOL", QUICK)
    rows = [row.split() for row in CliRunner().invoke(app, [*words, "--shape", "64"]).stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows[1:]] == [
        (each, ctas) for each in ("uncoalesced", "coalesced") for ctas in "12"
    ]
