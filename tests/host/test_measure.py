"""The statistics and protocols of tilewright.measure, on synthetic contenders with a clock of their own."""

import ctypes
import json
import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from cuda.bindings import driver

from tilewright.ladder.timed import CYCLES, IDLE_SECONDS
from tilewright.measure import protocol, sensors
from tilewright.measure.protocol import Burst, Settled, Work
from tilewright.measure.sensors import Reading
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

    def __init__(self, drift: float = 0.0):
        self.worked = 0.0
        self.drift = drift
        self.calls: list[tuple[str, int]] = []

    def work(self, seconds: float, name: str = "", launches: int = 1) -> Work:
        def run(times: int) -> float:
            spent = times * launches * seconds * (1 + self.drift * self.worked)
            self.worked += spent
            self.calls.append((name, times))
            return spent

        return Work(run, launches)


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The requested seconds of sleep; the test does not wait."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    return slept


def seconds_of(cycles: list[protocol.Cycle], name: str) -> list[float]:
    return [cycle[name].seconds for cycle in cycles]


@pytest.mark.parametrize("way", [Burst(), Settled()], ids=["burst", "settled"])
def test_linear_drift_does_not_favor_either_contender(way: protocol.Protocol, rests: list[float]) -> None:
    machine = Machine(drift=0.02)
    cycles = list(way.measure({"ours": machine.work(1e-3), "theirs": machine.work(1.1e-3)}))
    ratio = paired_ratio(seconds_of(cycles, "ours"), seconds_of(cycles, "theirs"))
    assert ratio.median == pytest.approx(1.1, rel=2e-3)
    assert len(cycles) == way.cycles >= 5


@pytest.mark.parametrize("way", [Burst(cycles=2), Settled(cycles=2)], ids=["burst", "settled"])
def test_a_sample_is_of_one_launch_however_many_the_work_has(way: protocol.Protocol, rests: list[float]) -> None:
    cycles = list(way.measure({"graph": Machine().work(4e-6, launches=250)}))
    assert seconds_of(cycles, "graph") == pytest.approx([4e-6, 4e-6])


def test_contenders_take_turns_there_and_back_and_the_next_cycle_begins_with_the_other(rests: list[float]) -> None:
    machine = Machine()
    contenders = {name: machine.work(1e-3, name) for name in "abc"}
    list(Burst(cycles=2).measure(contenders))
    timed = [name for name, times in machine.calls if times == Burst().launches]
    assert "".join(timed) == "abccba" + "cbaabc"
    assert rests == [Burst().idle_seconds] * 12


@pytest.mark.parametrize(
    ("seconds", "launches", "times"),
    [
        (1e-3, 1, 10),  # as many as asked for
        (1e-5, 1, 100),  # for a millisecond, which the clock resolves
        (1e-5, 100, 1),  # which one graph may fill
        (3e-2, 1, 3),  # for a tenth of a second, after which power would limit the clocks
        (0.5, 1, 1),
    ],
)
def test_a_burst_is_neither_too_short_nor_too_long(
    seconds: float, launches: int, times: int, rests: list[float]
) -> None:
    machine = Machine()
    list(Burst(cycles=1).measure({"only": machine.work(seconds, launches=launches)}))
    assert machine.calls[-1][1] == times


def test_slow_work_is_done_once_a_cycle_and_once_to_see_that_it_is_slow(rests: list[float]) -> None:
    machine = Machine()
    contenders = {"slow": machine.work(2.5, "slow"), "quick": machine.work(1e-3, "quick")}
    cycles = list(Burst(cycles=3).measure(contenders))
    assert [times for name, times in machine.calls if name == "slow"] == [1] * (1 + 3)
    assert len(rests) == 3 + 6
    assert seconds_of(cycles, "slow") == pytest.approx([2.5] * 3)
    assert seconds_of(cycles, "quick") == pytest.approx([1e-3] * 3)


def test_slow_work_changes_its_place_from_cycle_to_cycle(rests: list[float]) -> None:
    """A drift that one pass does not even out within a cycle is evened out by the next."""
    machine = Machine(drift=1e-3)
    contenders = {"ours": machine.work(1.0, "ours"), "theirs": machine.work(1.1, "theirs")}
    cycles = list(Burst(cycles=4).measure(contenders))
    assert [name for name, _ in machine.calls[2:]] == ["ours", "theirs", "theirs", "ours"] * 2
    ours, theirs = (sum(seconds_of(cycles, name)) for name in ("ours", "theirs"))
    assert theirs / ours == pytest.approx(1.1, rel=1e-3)


def test_a_slow_contender_settles_and_is_measured_once_a_cycle() -> None:
    machine = Machine()
    contenders = {"quick": machine.work(1e-3, "quick"), "slow": machine.work(2.5, "slow")}
    cycles = list(Settled(cycles=2).measure(contenders))
    assert [times for name, times in machine.calls if name == "slow"] == [1] * (1 + 2)
    assert seconds_of(cycles, "slow") == pytest.approx([2.5] * 2)


def test_the_ladder_of_the_largest_preset_is_measured_in_four_minutes(rests: list[float]) -> None:
    """8192^3 at each rung's recorded rate; the first rung takes seconds for one product."""
    record = json.loads((Path(__file__).parents[2] / "results" / "ladder_4096.json").read_text())
    machine = Machine()
    seconds = {rung["name"]: 2 * 8192**3 / rung["tflops"] / 1e12 for rung in record["rungs"]}
    assert max(seconds.values()) > 2
    list(Burst(CYCLES, IDLE_SECONDS).measure({name: machine.work(each) for name, each in seconds.items()}))
    verifying = 4 * sum(seconds.values())  # two sets of inputs, twice
    assert machine.worked + sum(rests) + verifying < 240


def test_a_slice_keeps_the_gpu_busy_and_its_second_half_counts() -> None:
    """The first half is at half the speed, as after another contender."""
    spent: list[float] = []

    def run(times: int) -> float:
        spent.append(times * (2e-3 if sum(spent) % 1.2 < 0.6 else 1e-3))
        return spent[-1]

    sample = Settled().turn(Work(run), 2e-3, None)
    assert sample.seconds == pytest.approx(1e-3)
    assert sum(spent) == pytest.approx(1.2, abs=0.03)


def test_a_cycle_that_is_interrupted_is_lost_and_those_before_are_not(rests: list[float]) -> None:
    machine = Machine()

    def run(times: int) -> float:
        if machine.worked > 0.5:
            raise KeyboardInterrupt
        return machine.work(1e-2).run(times)

    cycles: list[protocol.Cycle] = []
    with pytest.raises(KeyboardInterrupt):
        cycles.extend(Burst().measure({"only": Work(run)}))
    assert 1 <= len(cycles) < Burst().cycles


class Nvml:
    """A board at 600 W whose energy counter moves every 40 ms, and which CUDA knows by another number than NVML."""

    def __init__(self, clock: SimpleNamespace, counter: bool = True, power: bool = True):
        self.clock, self.counter, self.power = clock, counter, power
        self.users = 0

    def nvmlInit_v2(self) -> int:
        self.users += 1
        return 0

    def nvmlShutdown(self) -> int:
        self.users -= 1
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: bytes, handle: object) -> int:
        return 0 if bus_id == b"0000:3B:00.0" else 6

    def _answer(self, reference: object, value: float) -> int:
        reference._obj.value = int(value)  # type: ignore[attr-defined]
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: object, reference: object) -> int:
        return self._answer(reference, 550e3) if self.power else 3

    def nvmlDeviceGetClockInfo(self, handle: object, domain: int, reference: object) -> int:
        assert domain == 1
        return self._answer(reference, 1980)

    def nvmlSystemGetDriverVersion(self, text: object, nbytes: int) -> int:
        text.value = b"580.95.05"[: nbytes - 1]  # type: ignore[attr-defined]
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object, reference: object) -> int:
        return self._answer(reference, 700e3) if self.power else 3

    def nvmlDeviceGetMaxClockInfo(self, handle: object, domain: int, reference: object) -> int:
        assert domain == 1
        return self._answer(reference, 1980)

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int, reference: object) -> int:
        return self._answer(reference, 50)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object, reference: object) -> int:
        steps = int(self.clock.now / 0.04 + 1e-6)
        return self._answer(reference, 1e9 + 600e3 * 0.04 * steps) if self.counter else 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.perf_counter", lambda: time.now)
    return time


def reading_of(nvml: Nvml, clock: SimpleNamespace, seconds: float) -> Reading | None:
    reader = sensors.Sensors()
    for _ in range(round(seconds / 0.01)):
        clock.now += 0.01
        if (sample := sensors._sample(nvml, ctypes.c_void_p())) is not None:
            reader._samples.append(sample)
    return reader.reading()


def test_power_is_that_of_the_energy_counter_between_its_moves(clock: SimpleNamespace) -> None:
    reading = reading_of(Nvml(clock), clock, 0.3)
    assert reading is not None
    assert reading.watts == pytest.approx(600)
    assert (reading.sm_clock_mhz, reading.celsius) == (1980, 50)


@pytest.mark.parametrize(("counter", "seconds"), [(True, 0.05), (False, 0.3)])
def test_power_is_the_boards_own_mean_where_the_counter_says_too_little(
    counter: bool, seconds: float, clock: SimpleNamespace
) -> None:
    assert reading_of(Nvml(clock, counter), clock, seconds) == Reading(550, 1980, 50)


def test_a_board_that_does_not_tell_its_power_gives_no_reading(clock: SimpleNamespace) -> None:
    assert reading_of(Nvml(clock, power=False), clock, 0.1) is None


def test_sensors_read_the_board_that_cuda_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board at 3B:00 is CUDA's device 0, whatever NVML calls it."""
    success = driver.CUresult.CUDA_SUCCESS
    double = SimpleNamespace(
        cuInit=lambda flags: (success,),
        cuDeviceGet=lambda device: (success, f"handle {device}"),
        cuDeviceGetPCIBusId=lambda length, handle: (
            success,
            {"handle 0": b"0000:3B:00.0"}[handle].ljust(13, b"\0").ljust(length),
        ),
    )
    monkeypatch.setattr(sensors, "driver", double)
    nvml = Nvml(SimpleNamespace(now=0.0))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: nvml)
    with sensors.Sensors(0, period_seconds=1e-3) as reader:
        while (reading := reader.reading()) is None:
            time.sleep(1e-3)
        assert nvml.users == 1
    assert reading == Reading(watts=550, sm_clock_mhz=1980, celsius=50)
    assert nvml.users == 0
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByPciBusId_v2", lambda bus_id, handle: 6)
    with sensors.Sensors(0) as reader:
        assert reader.reading() is None
    assert nvml.users == 0


@pytest.mark.parametrize("power", [True, False])
def test_facts_of_a_board_are_those_that_nvml_knows(monkeypatch: pytest.MonkeyPatch, power: bool) -> None:
    nvml = Nvml(SimpleNamespace(now=0.0), power=power)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: nvml)
    monkeypatch.setattr(sensors, "_pci_bus_id", lambda device: b"0000:3B:00.0")
    limit = {"power_limit_watts": 700.0} if power else {}
    assert sensors.board_facts() == {"driver": "580.95.05", **limit, "max_sm_clock_mhz": 1980}
    assert nvml.users == 0
    monkeypatch.setattr(sensors, "_pci_bus_id", lambda device: b"0000:3C:00.0")
    assert sensors.board_facts() == {}


def test_without_nvml_there_are_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "LIBRARY", "libno-such-library.so.1")
    with sensors.Sensors(0) as reader:
        assert reader.reading() is None


def test_samples_of_both_passes_are_averaged_with_their_readings() -> None:
    samples = [protocol.Sample(1.0, Reading(600, 1500, 50)), protocol.Sample(3.0, Reading(700, 1400, 60))]
    assert protocol._mean(samples) == protocol.Sample(2.0, Reading(650, 1450, 55))
    assert protocol._mean([protocol.Sample(1.0), samples[1]]).reading == samples[1].reading
    assert protocol._mean([protocol.Sample(1.0)]).reading is None
