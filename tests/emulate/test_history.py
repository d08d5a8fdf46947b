"""What clusters have released is told apart by moments, in memory and time that stay in proportion.

Of one cluster, however often it releases; of many clusters; and of what threads have read and not yet acquired.
"""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device
from tilewright.emulator import launch as launch_module
from tilewright.emulator.checks import checker, ground, releases
from tilewright.emulator.checks.carried import ALL, SEEN, Past
from tilewright.emulator.checks.clocks import Clocks, nbytes_of_lane
from tilewright.emulator.checks.history import History
from tilewright.emulator.checks.releases import Releases

COLUMNS = 300


def released(count, changes, seed=0):
    """A history of this many releases, one at each moment from 1, and the cumulative rows of each."""
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


LAST_BLOCK = """
extern "C" __global__ void last_block(int* out) {
  __shared__ int ticket;
  out[1 + blockIdx.x * blockDim.x + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) ticket = atomicAdd(out, 1);
  __syncthreads();
  if (ticket != gridDim.x - 1) return;
  __threadfence();
  int sum = 0;
  for (int block = 0; block < gridDim.x; block++) sum += out[1 + block * blockDim.x + (threadIdx.x ^ 1)];
  __syncthreads();
  out[1 + threadIdx.x] = sum;
}
"""


@pytest.fixture
def launched(monkeypatch):
    """Launch a kernel (int* out), and get the Clocks and the Releases of its machines."""
    made = []

    def watched(original):
        class Watched(original):
            def __init__(self, *args):
                super().__init__(*args)
                made.append(self)

        return Watched

    for module, original in ((ground, Clocks), (checker, Releases)):
        monkeypatch.setattr(module, original.__name__, watched(original))

    def launch(source, grid, block, cluster=1):
        device = Device(memory_bytes=1 << 20)
        out = device.upload(np.zeros(1 << 14, np.int32))
        device.launch(device.load(compile_ptx(source)), (grid,), (block,), [out], cluster=(cluster,))
        assert not device.reports
        return [[each for each in made if isinstance(each, kind)] for kind in (Clocks, Releases)]

    return launch


@pytest.mark.parametrize("grid", [16, 128])
def test_ctas_that_have_ended_take_one_column_for_each_place(grid, launched, monkeypatch):
    monkeypatch.setattr(launch_module, "RESIDENT_LANES", 0)
    monkeypatch.setattr(launch_module, "CHUNK_LANES", 8 * 32)
    clocks, _ = launched(LAST_BLOCK, grid, 32)
    assert len(clocks) == grid // 8
    *columns, last = [len(each.clusters) for each in clocks]
    assert columns == [7] + [8] * (grid // 8 - 2)  # no thread reads from the last CTA
    assert last == 9  # whose fence acquires what was released too, beside what is known past fence.sc


def test_columns_for_clusters_that_run_together_are_there_from_the_start(launched, monkeypatch):
    grown = []
    fit = Clocks.fit
    monkeypatch.setattr(Clocks, "fit", lambda *args, **options: grown.append(args[2:]) or fit(*args, **options))
    (clocks,), _ = launched(LAST_BLOCK, 200, 32)
    assert len(clocks.clusters) == 199  # no one reads of the last
    assert not any(grown)  # no caller asked for more columns


def test_a_past_tells_the_latest_moments_of_those_it_includes():
    first = Past({1: (5, 3), 2: (8, 0)})
    second = Past({first: (ALL, SEEN), 2: (4, 4), 3: (9, 1)})
    assert second.until(ALL) == {1: 5, 2: 8, 3: 9}
    assert second.until(SEEN) == {1: 3, 2: 4, 3: 1}
    assert Past({first: (ALL, 0)}).until(SEEN) == {}
    assert Past({first: (ALL, ALL)}).until(SEEN) == {1: 5, 2: 8}  # past a proxy fence


COUNTS = """
extern "C" __global__ void counts(int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  FIRST
  for (int j = 0; j < COUNT; j++) {
    atomicAdd(out + (i * 7 + j * 13) % 256, 1);
    NEXT
  }
}
"""


def counts(first, count, then=""):
    return COUNTS.replace("FIRST", first).replace("COUNT", str(count)).replace("NEXT", then)


def calls_of(monkeypatch, name):
    """The list that each call of a method of Releases is added to."""
    calls, method = [], getattr(Releases, name)
    monkeypatch.setattr(Releases, name, lambda *args: calls.append(args) or method(*args))
    return calls


def test_a_fence_of_one_thread_costs_others_nothing_that_they_do_not_read(launched, monkeypatch):
    heard = calls_of(monkeypatch, "_hear")
    launched(counts("if (i == 0) __threadfence();", 1), 4, 64)
    assert len(heard) == 0
    launched(counts("if (i == 0) __threadfence(); i %= 128;", 1), 4, 64)
    assert len(heard) == 2  # thread 0 of CTA 2, as released and as sequenced


@pytest.mark.parametrize("count", [4, 32])
def test_a_narrow_fence_acquires_what_was_read_once(count, launched, monkeypatch):
    acquired = calls_of(monkeypatch, "_acquire")
    launched(counts("__threadfence();", count, "__threadfence_block();"), 1, 64)
    assert 0 < len(acquired) <= 64 * count


def test_what_threads_fenced_and_read_takes_a_row_each_at_most(launched):
    _, (made,) = launched(counts('asm volatile("fence.acq_rel.gpu;" ::: "memory");', 16), 2, 128)
    assert len({id(knew.shared) for fenced in made._fenced.values() for knew in fenced.knew}) == 2
    assert 0 < len(made._unacquired) <= 256
    assert all(len(heard.rows) == 1 and len(heard.moments) <= 2 for heard in made._unacquired.values())


@pytest.mark.parametrize("cluster", [1, 2])
def test_the_estimate_is_what_the_rows_take(cluster, launched):
    for first, columns_to_come in (("__threadfence();", 0), ("", 4 // cluster)):
        source = counts(first, 1)
        clocks = launched(source, 4, 64, cluster)[0][-1]
        traits = Device(memory_bytes=1 << 16).load(compile_ptx(source)).program.traits
        estimate = nbytes_of_lane(traits, 64, cluster, 4 // cluster)
        kinds, lanes, columns = clocks.facts.shape
        assert estimate * lanes == kinds * lanes * (columns + columns_to_come) * 4
