"""Observers of one's own hear of what happens, whatever else listens, and may end a launch."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, Observer, OutOfBounds
from tilewright.errors import ArgumentTypeError

SOURCE = """
extern "C" __global__ void kernel(int* out) {
  __shared__ int held[64];
  held[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = held[63 - threadIdx.x];
}
"""


class Recorder(Observer):
    """Keeps the names of the events, and what is accessed."""

    def __init__(self, fails=None):
        self.told, self.accesses, self.fails = [], [], fails

    def note(self, name):
        self.told.append(name)
        if name == self.fails:
            raise RuntimeError(f"no {name}")

    def began(self, words):
        self.words = words
        self.note("began")

    def accessed(self, site, kind, space, group, where, width, chosen):
        self.accesses.append((self.words.instruction(site).opcode, kind, space, group.size, width))
        self.note("accessed")

    def barrier_passed(self, barrier, groups):
        assert all(group.warps.count for group in groups)
        self.note("barrier_passed")

    def ran(self, start, instructions, warps):
        self.note("ran")

    def ended(self):
        self.note("ended")


def launch(observers, grid=3, nbytes=3 * 64 * 4, **options):
    device = Device(memory_bytes=1 << 20, observers=observers, **options)
    out = device.allocate(nbytes)
    kernel = device.load(compile_ptx(SOURCE))
    for _ in range(2):  # a device may launch again
        device.launch(kernel, grid, 64, [out])
    return device.read(out, nbytes).view(np.int32)


@pytest.mark.parametrize("checks", [True, False])
def test_several_observers_hear_the_same_with_checks_and_without(checks):
    first, second = Recorder(), Recorder()
    found = launch([first, second], checks=checks, count_memory=checks)
    assert (found == np.tile(np.arange(64)[::-1], 3)).all()
    assert first.told == second.told
    assert first.told.count("began") == first.told.count("ended") == 2
    assert first.told[-2:] == ["ran", "ended"]
    assert first.accesses[:3] == [
        ("st", "st", "shared", 192, 4),
        ("ld", "ld", "shared", 192, 4),
        ("st", "st", "global", 192, 4),
    ]


def test_every_wave_of_a_grid_begins_and_ends(monkeypatch):
    monkeypatch.setattr("tilewright.emulator.launch.RESIDENT_LANES", 0)
    monkeypatch.setattr("tilewright.emulator.launch.CHUNK_LANES", 64)
    recorder = Recorder()
    launch([recorder])
    assert [name for name in recorder.told if name in ("began", "ended")] == ["began", "ended"] * 6


@pytest.mark.parametrize("event", ["began", "accessed", "barrier_passed", "ran", "ended"])
def test_an_observer_may_end_a_launch_and_nothing_is_left_of_that(event):
    recorder = Recorder(fails=event)
    with pytest.raises(RuntimeError, match=f"no {event}"):
        launch([recorder])
    assert not vars(recorder.words.topology)


def test_an_error_of_the_kernel_comes_after_the_last_events():
    recorder = Recorder()
    with pytest.raises(OutOfBounds):
        launch([recorder], nbytes=64)
    assert recorder.told[-1] == "ended"


def test_what_is_no_observer_is_refused_by_its_place():
    class Duck:
        pass

    with pytest.raises(ArgumentTypeError, match=r"observers\[1\] is .*Duck.* must be an Observer: derive its class"):
        Device(observers=[Observer(), Duck()])  # type: ignore[list-item]


def test_a_method_that_is_nearly_an_event_is_refused():
    class Misspelt(Observer):
        def store(self, *event):
            pass

    class Helped(Observer):
        store = 3

        def line_of(self, site):
            return site

    with pytest.raises(ArgumentTypeError, match=r"observers\[1\] has a method 'store', .* mean 'stored'\?"):
        Device(observers=[Helped(), Misspelt()])


def test_observers_without_brackets_are_refused():
    with pytest.raises(ArgumentTypeError, match=r"must be a sequence of them, such as \[observer\]"):
        Device(observers=Observer())


def test_an_event_may_be_set_on_the_object():
    heard = []
    observer = Observer()
    observer.ended = lambda: heard.append("ended")
    launch([observer])
    assert heard == ["ended"] * 2


@pytest.mark.parametrize("event", ["ran", "ended"])
def test_an_error_at_the_end_does_not_hide_that_of_the_kernel(event):
    with pytest.raises(OutOfBounds):
        launch([Recorder(fails=event)], nbytes=64)
