"""The order of driver calls behind a timing, against a driver whose clock only launches move."""

from enum import IntEnum
from types import SimpleNamespace

import pytest

from tilewright.measure import timing

LAUNCH_SECONDS = 20e-6


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver:
    """Enough of cuda.bindings.driver for one thread, one stream and two events."""

    CUresult = Status
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self):
        self.clock, self.captured, self.capturing = 0.0, 0, False
        self.times, self.live, self.replays = {}, [], 0
        self.status = Status.CUDA_SUCCESS

    def launch(self, stream):
        assert stream == 7
        if self.capturing:
            self.captured += 1
        else:
            self.clock += LAUNCH_SECONDS

    def _create(self, name, value):
        self.live.append(name)
        return Status.CUDA_SUCCESS, value

    def _destroy(self, name):
        self.live.remove(name)
        return (Status.CUDA_SUCCESS,)

    def cuCtxSynchronize(self):
        return (self.status,)

    def cuStreamCreate(self, flags):
        return self._create("stream", 7)

    def cuStreamDestroy(self, stream):
        return self._destroy("stream")

    def cuEventCreate(self, flags):
        return self._create("event", object())

    def cuEventDestroy(self, event):
        return self._destroy("event")

    def cuEventRecord(self, event, stream):
        self.times[event] = self.clock
        return (Status.CUDA_SUCCESS,)

    def cuEventSynchronize(self, event):
        return (self.status,)

    def cuEventElapsedTime(self, start, end):
        return Status.CUDA_SUCCESS, (self.times[end] - self.times[start]) * 1e3

    def cuStreamBeginCapture(self, stream, mode):
        self.capturing = True
        return (Status.CUDA_SUCCESS,)

    def cuStreamEndCapture(self, stream):
        self.capturing = False
        return self._create("graph", "graph")

    def cuGraphInstantiate(self, graph, flags):
        return self._create("executable", "executable")

    def cuGraphLaunch(self, executable, stream):
        self.replays += 1
        # Every fourth replay is disturbed.
        self.clock += self.captured * LAUNCH_SECONDS * (3 if self.replays % 4 == 0 else 1)
        return (Status.CUDA_SUCCESS,)

    def cuGraphExecDestroy(self, executable):
        return self._destroy("executable")

    def cuGraphDestroy(self, graph):
        return self._destroy("graph")


@pytest.fixture
def driver(monkeypatch):
    double = Driver()
    monkeypatch.setattr(timing, "driver", double)
    return double


def test_the_median_of_graph_replays_is_taken_and_everything_freed(driver):
    found = timing.time_launches(driver.launch, samples=15)
    assert found.median == pytest.approx(LAUNCH_SECONDS)
    assert found.low <= found.median <= found.high
    assert found.samples == 15
    assert driver.captured == found.launches == round(timing.SAMPLE_SECONDS / LAUNCH_SECONDS)
    assert driver.replays == 16
    assert driver.live == []


def test_long_launches_are_replayed_one_by_one(driver, monkeypatch):
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", LAUNCH_SECONDS / 2)
    found = timing.time_launches(driver.launch, samples=1)
    assert (found.launches, found.samples) == (1, 1)
    assert found.low == found.median == found.high == pytest.approx(LAUNCH_SECONDS)


def test_a_launch_that_fails_leaves_no_capture_open(driver):
    def fails(stream):
        if driver.capturing:
            raise ValueError("no such shape")
        driver.launch(stream)

    with pytest.raises(ValueError, match="no such shape"):
        timing.time_launches(fails)
    assert not driver.capturing
    assert driver.live == []


def test_an_error_of_the_gpu_is_raised(driver):
    driver.status = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        timing.time_launches(driver.launch)
