"""The statistics and protocols of tilewright.measure, on synthetic contenders with a clock of their own."""

import random
import sys
import time
from types import SimpleNamespace

import pytest

from tilewright.measure import protocol, sensors
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


def test_sensors_read_the_board_that_cuda_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's device 0 is NVML's number 1."""
    watts = {b"0000:1B:00.0": 100, b"0000:3B:00.0": 700}
    success = sensors.driver.CUresult.CUDA_SUCCESS
    driver = SimpleNamespace(
        cuInit=lambda flags: (success,),
        cuDeviceGet=lambda device: (success, f"handle {device}"),
        cuDeviceGetPCIBusId=lambda length, handle: (
            success,
            {"handle 0": b"0000:3B:00.0"}[handle].ljust(13, b"\0").ljust(length),
        ),
    )
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: list(watts)[index],
        nvmlDeviceGetHandleByPciBusId=lambda bus_id: next(name for name in watts if name == bus_id),
        nvmlDeviceGetPowerUsage=lambda handle: watts[handle] * 1e3,
        nvmlDeviceGetClockInfo=lambda handle, domain: 1980,
        nvmlDeviceGetTemperature=lambda handle, sensor: 50,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
    )
    monkeypatch.setattr(sensors, "driver", driver)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with sensors.Sensors(0, period_seconds=1e-3) as reader:
        while (reading := reader.reading()) is None:
            time.sleep(1e-3)
    assert reading == sensors.Reading(watts=700, sm_clock_mhz=1980, celsius=50)
