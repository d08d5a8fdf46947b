"""What clusters have released is told apart by moments, in memory that does not grow with their number."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, releases
from tilewright.emulator.history import History

COLUMNS = 300


def released(count, changes, seed=0):
    """A history of so many releases, one at each moment from 1, and each of their rows, cumulative."""
    history, random = History(), np.random.default_rng(seed)
    rows = np.zeros((2, COLUMNS), np.int32)
    told = []
    for moment in range(1, count + 1):
        rows[random.integers(2, size=changes), random.integers(COLUMNS, size=changes)] = moment
        partly = np.where(random.random(rows.shape) < 0.5, rows, 0)  # a thread does not know of all
        history.add(moment, partly.astype(np.int32))
        told.append(partly if not told else np.maximum(told[-1], partly))
    return history, told


@pytest.mark.parametrize("changes", [1, 20, 400])
def test_each_moment_is_told_apart(changes):
    history, told = released(200, changes)
    assert history.until(0) is None
    for moment in np.random.default_rng(1).permutation(200).tolist():
        np.testing.assert_array_equal(history.until(moment + 1), told[moment])


def test_covers_what_was_released_and_no_more():
    history, columns = History(), np.array([0, 3, 400])
    history.add(5, np.array([[7, 0, 0, 2]], np.int32))
    history.add(9, np.array([[0, 0, 0, 8]], np.int32))
    assert history.covers(5, 0, columns, np.array([7, 3, 1])).tolist() == [True, False, False]
    assert history.covers(9, 0, columns, np.array([8, 8, 1])).tolist() == [False, True, False]
    assert not history.covers(4, 0, columns, np.array([1, 1, 1])).any()
    assert not history.covers(9, 1, columns, np.array([1, 1, 1])).any()


def test_columns_that_come_later():
    history = History()
    history.add(1, np.array([[4, 0]], np.int32))
    history.add(2, np.array([[0, 5, 6], [1, 0, 0]], np.int32))
    np.testing.assert_array_equal(history.until(1), [[4, 0]])
    np.testing.assert_array_equal(history.until(2), [[4, 5, 6], [1, 0, 0]])


def test_a_long_history_forgets_its_beginning():
    """Who asks for it gets more and never less: a race may be missed, but none is invented."""
    history, told = released(3000, 250)
    assert len(history.frames) * 2 * COLUMNS <= 1 << 18
    for moment in (1, 300, 1500, 3000):
        assert (history.until(moment) >= told[moment - 1]).all()
    np.testing.assert_array_equal(history.until(3000), told[-1])


ATOMICS = """
extern "C" __global__ void count(int* out) {
  for (int i = 0; i < 32; i++) {
    int old;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;"
                 : "=r"(old) : "l"(out + blockIdx.x * 128 + threadIdx.x) : "memory");
  }
}
"""


def test_many_atomics_keep_few_whole_rows(monkeypatch):
    histories = []

    class Watched(History):
        def __init__(self):
            super().__init__()
            self.added = 0
            histories.append(self)

        def add(self, moment, rows):
            self.added += 1
            super().add(moment, rows)

    monkeypatch.setattr(releases, "History", Watched)
    device = Device(memory_bytes=1 << 20)
    out = device.upload(np.zeros(20 * 128, np.int32))
    device.launch(device.load(compile_ptx(ATOMICS)), (20,), (128,), [out])
    assert [history.added for history in histories] == [4096] * 20  # 81,920 in all
    assert sum(len(history.frames) for history in histories) < 81920 // 10
    assert (device.read(out, 20 * 128 * 4).view(np.int32) == 32).all()
