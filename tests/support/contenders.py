"""Contenders and inputs without a GPU: a clock that only launches move, and results that are right or wrong as told."""

from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace

from tilewright.bench import Absent, Contender, Prepared, Shape
from tilewright.bench.inputs import Verdict
from tilewright.hardware import H200
from tilewright.measure.protocol import Work

SHAPE = Shape(4096, 2048, 1024, label="a layer")


class FakeInputs:
    """Inputs whose sets are names; `graphs` are the launches that were captured, `outs` what lies in the sets' outs."""

    hardware, device, light_seconds, sets = H200, 0, 1e-4, ("first", "second", "third")

    def __init__(self, shape=SHAPE, *, data="randn", seed=0):
        self.shape, self.data, self.seed = shape, data, seed
        self.problem = SimpleNamespace()
        self.launched, self.graphs, self.outs = [], [], ["NaN"] * len(self.sets)

    def as_dict(self):
        return {**asdict(self.shape), "data": self.data, "seed": self.seed, "input_sets": len(self.sets)}

    def current(self):
        return nullcontext()

    def verify(self, work, accumulator, outs=None):
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
    """

    def __init__(self, name, seconds=1e-3, *, absent=None, error=None, own=False, **launch):
        self.name, self.absent, self.error, self.own = name, absent, error, own
        self.launch = FakeLaunch(seconds, **launch)

    def prepare(self, inputs):
        if self.absent:
            raise Absent(self.absent)
        if self.error:
            raise self.error
        outs = ["NaN"] * len(inputs.sets) if self.own else None
        self.launch.outs = outs if self.own else inputs.outs
        return Prepared(self.launch, {"version": "1.0"}, self.launch.release, outs=outs)
