"""Stand-ins for what the tuner compiles and measures with."""

import random
from collections import Counter
from contextlib import nullcontext

from tilewright.hardware import H200
from tilewright.jit.compile import CompilationError
from tilewright.measure.protocol import Protocol, Sample, Work


class Turns(Protocol):
    """Contenders in turns, without waiting."""

    name = "turns"
    turn_seconds = 0.0

    def turn(self, work, once, sensors):
        return Sample(work.run(1) / work.launches)


class InstantPool:
    """Compiles nothing, in an order of its own."""

    def __init__(self, failing=(), seed=0):
        self.failing, self.order = failing, random.Random(seed)
        self.units = []

    def build_all(self, units, arch):
        shuffled = list(units)
        self.units += shuffled
        self.order.shuffle(shuffled)
        for unit in shuffled:
            yield unit, CompilationError("ptxas is unhappy", "log") if unit in self.failing else "compiled"


class PretendedStand:
    """A GPU whose times are known: `us` of a Config, with some noise."""

    def __init__(self, us, wrong=(), hardware=H200, noise=0.01):
        self.us, self.wrong, self.hardware, self.noise = us, wrong, hardware, noise
        self.order, self.timed, self.runs = random.Random(1), [], Counter()
        self.operands_seconds = 0.0

    def fault(self, candidate, compiled):
        assert compiled == "compiled"
        return "it is wrong" if candidate.config in self.wrong else ""

    def work(self, candidate, compiled, until):
        until.enter_context(nullcontext())
        self.timed.append(candidate.config)
        us = self.us(candidate.config)

        def run(times):
            self.runs[candidate.config] += times
            return times * 10 * us * 1e-6 * self.order.gauss(1, self.noise)

        return Work(run, launches=10)
