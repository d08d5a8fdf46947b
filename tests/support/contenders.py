"""Contenders and inputs without a GPU: a clock that only launches move, and results that are right or wrong as told."""

import copy
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np

from tilewright.bench import Absent, Contender, Prepared, Shape, contenders, record, session
from tilewright.bench.inputs import Verdict
from tilewright.cli.products import problem_of
from tilewright.hardware import H200
from tilewright.measure.protocol import Work

MACHINE = {
    "gpu": "a GPU", "date": "2026-11-21T12:00:00", "command": "bench", "versions": {"torch": "2.11", "cuda": "13.0"},
}  # fmt: skip

SHAPE = Shape(4096, 2048, 1024, label="a layer")


class FakeInputs:
    """Inputs whose sets are names; `graphs` are the launches that were captured, `outs` what lies in the sets' outs."""

    hardware, device, light_seconds, sets = H200, 0, 1e-4, ("first", "second", "third")

    def __init__(self, shape=SHAPE, *, data="randn", seed=0):
        self.shape, self.data, self.seed = shape, data, seed
        self.elements, self.scales = shape.elements, {}
        self.problem = problem_of(shape, bias=False, activation=None)
        self.launched, self.graphs, self.outs = [], [], ["NaN"] * len(self.sets)

    def as_dict(self):
        return {**asdict(self.shape), "data": self.data, "seed": self.seed, "input_sets": len(self.sets)}

    def current(self):
        return nullcontext()

    def verify(self, work, accumulator, outs=None, ending=None):
        outs = self.outs if outs is None else outs
        outs[:] = ["NaN"] * len(self.sets)
        self.launched.clear()
        work()
        right = all(launch.right for launch, _ in self.launched)
        reached = {number for _, number in self.launched} == set(range(len(self.sets)))
        return Verdict(right and reached and "NaN" not in outs, 0.001 if right else float("nan"))

    def work(self, launch, *, graph=False):
        if graph:
            launch.capture()
            self.graphs.append(launch)
        launches = 30 if graph else 1
        turn = 0

        def run(times):
            nonlocal turn
            for _ in range(times * launches):
                self.launched.append((launch, turn % len(self.sets)))
                launch(turn % len(self.sets))
                turn += 1
            return times * launches * launch.seconds

        return Work(run, launches)


class FakeLaunch:
    """A launch that takes `seconds` and writes to `outs`.

    captures: whether it can be captured into a graph. interrupts: calls before it is interrupted, None for never.
    """

    outs = None

    def __init__(self, seconds, right=True, captures=True, interrupts=None):
        self.seconds, self.right, self.captures, self.interrupts = seconds, right, captures, interrupts
        self.count = self.released = 0

    def __call__(self, number):
        self.count += 1
        self.outs[number] = "a product"
        if self.interrupts is not None and self.count > self.interrupts:
            raise KeyboardInterrupt

    def release(self):
        self.released += 1

    def capture(self):
        if not self.captures:
            raise RuntimeError("operation not permitted when stream is capturing")


class FakeContender(Contender):
    """A contender with a fake launch.

    absent: the reason why it is absent. error: the error that `prepare` raises. own: it has outs of its own.
    multiplies: it has a result to be verified.
    tunes: it has a tuner; `tuned` lists the shapes that it tuned, and `given` the choices that it was given.
    """

    def __init__(
        self, name, seconds=1e-3, *, absent=None, error=None, own=False, tunes=False, multiplies=True, **launch
    ):
        self.name, self.absent, self.error, self.own, self.tunes = name, absent, error, own, tunes
        self.multiplies = multiplies
        self.tuned, self.given = [], []
        self.launch = FakeLaunch(seconds, **launch)

    def prepare(self, inputs, choice=None):
        if self.absent:
            raise Absent(self.absent)
        if self.error:
            raise self.error
        outs = ["NaN"] * len(inputs.sets) if self.own else None
        self.launch.outs = outs if self.own else inputs.outs
        self.given.append(choice)
        if self.tunes and choice is None:
            self.tuned.append(inputs.shape)
            choice = {"tile": len(self.tuned)}
        about = {"version": "1.0"}
        return Prepared(self.launch, about, self.launch.release, outs=outs, choice=choice, multiplies=self.multiplies)


def fake_machine(monkeypatch, made):
    """A GPU for `tilewright bench`, on which `made` makes the contenders by name; returns `made`, to be changed."""
    monkeypatch.setattr(contenders, "contenders_named", lambda names: [made[name]() for name in names])
    monkeypatch.setattr(session, "Inputs", FakeInputs)
    monkeypatch.setattr(session, "gpu_is_usable", lambda: True)
    monkeypatch.setattr(record, "machine", lambda: copy.deepcopy(MACHINE))
    monkeypatch.setattr(record, "board_facts", lambda: {"driver": "580.1", "power_limit_watts": 700.0})
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 1)
    monkeypatch.setattr("tilewright.bench.inputs.torch_on_gpu", lambda: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return made


class HostInputs:
    """Inputs in host memory, which the emulator multiplies, as far as a contender with an epilogue uses them."""

    hardware = H200

    def __init__(self, shape, sets=1):
        self._rng = np.random.default_rng(0)
        self.shape, self.elements = shape, shape.elements
        self.problem = problem_of(shape, bias=False, activation=None)
        transposed = [letter == "t" for letter in shape.layout]
        self.sets = tuple(
            (self.make(shape.m, shape.k, transposed[0]), self.make(shape.k, shape.n, transposed[1]), None)
            for _ in range(sets)
        )
        self.rows = np.arange(0, shape.m, 3)

    def make(self, rows, columns, transposed=False):
        stored = (columns, rows) if transposed else (rows, columns)
        values = self._rng.standard_normal(stored).astype(np.dtype(self.problem.a.dtype.numpy_dtype))
        return values.T if transposed else values

    def empty(self, *shape, kind=None):
        return np.full(shape, np.nan, (kind or self.problem.out.dtype).numpy_dtype)

    def numbers(self, array):
        return array.astype(np.float64)
