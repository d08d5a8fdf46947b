"""The statistics and protocols of tilewright.measure, on synthetic contenders with a clock of their own."""

import random

import pytest

from tilewright.measure import protocol
from tilewright.measure.statistics import median_interval, paired_ratio


def test_interval_is_the_sign_test_interval() -> None:
    # n = 9: P(Binomial(9, 1/2) < 2) = 10/512, so ranks 2 and 8 cover 96.1%.
    interval = median_interval([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (interval.low, interval.median, interval.high) == (2, 5, 8)
    assert interval.confidence == pytest.approx(1 - 20 / 512)


def test_interval_of_few_samples_admits_its_confidence() -> None:
    interval = median_interval([1.0, 2.0, 3.0])
    assert (interval.low, interval.high) == (1.0, 3.0)
    assert interval.confidence == pytest.approx(0.75)


def test_interval_needs_a_sample() -> None:
    with pytest.raises(ValueError, match="samples is empty"):
        median_interval([])


def test_interval_covers_the_median_as_often_as_it_says() -> None:
    generator = random.Random(0)
    hits = 0
    for _ in range(2000):
        interval = median_interval([generator.expovariate(1.0) for _ in range(11)])
        hits += interval.low <= 0.6931 <= interval.high
    assert 0.94 < hits / 2000 < 0.995


class Machine:
    """A GPU that gets slower the longer it has worked, by the same factor for everybody."""

    def __init__(self, drift: float):
        self.worked = 0.0
        self.drift = drift

    def contender(self, seconds: float) -> protocol.Contender:
        def run(launches: int) -> float:
            spent = launches * seconds * (1 + self.drift * self.worked)
            self.worked += spent
            return spent

        return run


@pytest.mark.parametrize("run", ["burst", "settled"])
def test_linear_drift_does_not_favour_either_contender(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.time, "sleep", lambda seconds: None)
    machine = Machine(drift=0.02)
    contenders = {"ours": machine.contender(1e-3), "theirs": machine.contender(1.1e-3)}
    samples = getattr(protocol, run)(contenders)
    ratio = paired_ratio(samples["ours"], samples["theirs"])
    assert ratio.median == pytest.approx(1.1, rel=2e-3)
    assert len(samples["ours"]) == len(samples["theirs"]) >= 5


def test_progress_reaches_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.time, "sleep", lambda seconds: None)
    shares: list[float] = []
    protocol.burst({"only": Machine(0).contender(1e-3)}, rounds=4, progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
