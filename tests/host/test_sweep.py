"""tools/sweep.py, with launches whose times are made up, and what tools/calibrate.py reads of its record."""

import json
import sys
from types import SimpleNamespace

import calibrate
import pytest
import sweep

from tilewright.hardware import H200
from tilewright.measure.protocol import Work
from tilewright.model.cost import COSTS

FIRST, SECOND = (10.0, 12.0, 11.0), (12.0, 15.0, 14.0)
"""Times in us of each Config's launches in the first half of the turns, and in the second."""


class Stand:
    """Every candidate is right, and takes the next one of FIRST and SECOND."""

    def __init__(self, problem, backend):
        self._works = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def fault(self, candidate, compiled):
        return ""

    def work(self, candidate, compiled, until):
        number, self._works = self._works, self._works + 1
        lasts = iter([FIRST[number]] * sweep.ROUNDS + [SECOND[number]] * sweep.ROUNDS)
        return Work(lambda times: times * next(lasts) / 1e6)


class Pool:
    """Compiles nothing."""

    def __init__(self, compilations):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def build_all(self, sources, arch):
        return [(source, b"") for source in sources]


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "CompilerPool", Pool)
    monkeypatch.setattr(sweep, "GpuStand", Stand)
    monkeypatch.setattr(sweep, "backend", lambda device: SimpleNamespace(hardware=H200))
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=iter([0.0, 0.0, 10.0]).__next__))
    path = tmp_path / "sweep.json"
    monkeypatch.setattr(sys, "argv", ["sweep.py", str(path), "--seconds", "5", "--best", "1", "--random", "2"])
    sweep.main()
    return path


def test_halves_of_the_launches_have_their_own_medians(record):
    columns = json.loads(record.read_text())["columns"]["launches"]
    rows = [dict(zip(columns, row, strict=True)) for row in json.loads(record.read_text())["launches"]]
    assert [(row["us"], row["again"]) for row in rows] == list(zip(FIRST, SECOND, strict=True))


@pytest.mark.parametrize(("picked", "share"), [(0, 1.0), (1, 12 / 15), (2, 12 / 14)])
def test_the_best_is_found_by_one_half_and_compared_by_the_other(record, monkeypatch, picked, share):
    (measured,) = calibrate.load(record)
    predicted = measured.us * 0 + 2
    predicted[picked] = 1
    monkeypatch.setattr(calibrate, "predict", lambda measured, costs: predicted)
    assert measured.share(COSTS) == pytest.approx(share)
    assert calibrate.evaluate([measured], COSTS).of_best.mean == pytest.approx(share)


def test_luck_of_the_least_time_is_not_held_against_the_pick(record, monkeypatch):
    """The second Config is as quick in other launches as the one of the least time."""
    (measured,) = calibrate.load(record)
    lucky = measured._replace(again=measured.us[[1, 1, 1]])
    monkeypatch.setattr(calibrate, "predict", lambda measured, costs: -measured.us)
    assert lucky.share(COSTS) == 1.0
