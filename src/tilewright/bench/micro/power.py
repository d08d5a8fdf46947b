"""What the bits of A and B cost: watts, clock and rate of a product of zeros, of a constant, of sparse and random bits.

A wire takes energy when it changes, so the same multiplications draw less if their bits are alike. The products take
turns at the power limit, each long enough for the board to settle.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.emulated import EmulatedBackend
from tilewright.backends.gpu import backend
from tilewright.bench.micro.clocks import wrong_result
from tilewright.errors import ArgumentValueError
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.measure.protocol import Cycle, Protocol, Settled
from tilewright.measure.sensors import Sensors, combined
from tilewright.planner.tuning.candidates import Candidate, untuned
from tilewright.planner.tuning.search import Progress
from tilewright.planner.tuning.search import Stand as TimedStand
from tilewright.planner.tuning.stand import GpuStand, Numbers, Stand
from tilewright.problem import Problem

DATA = ("zeros", "constant", "bits:0", "bits:25", "bits:50", "bits:75", "randn")
"""What is multiplied, from what changes least to what changes most."""
PROTOCOL = Settled(cycles=2, slice_seconds=2.4)
"""Each is measured for 1.2 seconds after 1.2 seconds of itself, four times: 67 seconds for all of DATA."""

MakeStand = Callable[[Numbers | None], AbstractContextManager[TimedStand]]
"""A function that makes a place for candidates, whose operands hold the numbers of the given function, or random ones.
"""


@dataclass(frozen=True, slots=True)
class Power:
    """A product of one kind of data, settled: mean watts and MHz that the board reports, and 10^12 FLOP/s.

    watts, mhz: None without NVML. samples_us: microseconds of a launch, by cycle.
    """

    data: str
    watts: float | None
    mhz: float | None
    tflops: float
    samples_us: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def numbers(data: str, count: int) -> NDArray[np.float32]:
    """So many numbers of a kind, which become bf16.

    `zeros`; `constant`, which is pi; `randn`, of a normal distribution; `bits:P`, the same, but each bit of a mantissa
    stays with a chance of P percent and is zero otherwise. Raises an ArgumentValueError for another kind.
    """
    if data == "zeros":
        return np.zeros(count, np.float32)
    if data == "constant":
        return np.full(count, np.pi, np.float32)
    random = np.random.default_rng(0)
    drawn = random.standard_normal(count, np.float32)
    if data == "randn":
        return drawn
    kind, _, share = data.partition(":")
    if kind != "bits" or not share.isdecimal() or not 0 <= int(share[:9]) <= 100:
        raise ArgumentValueError(f"data={data!r} is unknown: use zeros, constant, randn, or bits:P of 0 to 100 percent")
    kept = np.full(count, 0xFF800000, np.uint32)  # sign and exponent
    for bit in range(16, 23):  # the mantissa of a bf16, at the upper end of an fp32's
        kept |= (random.random(count, np.float32) < int(share) / 100).astype(np.uint32) << np.uint32(bit)
    return (drawn.view(np.uint32) & kept).view(np.float32)


def gpu_stand(problem: Problem) -> MakeStand:
    """Stands on the first GPU."""
    return lambda made: GpuStand(problem, backend(0), numbers=made)


def check(problem: Problem, wanted: Sequence[str], report: Progress = lambda share, doing: None) -> None:
    """Multiply each kind of data in the emulator, which has no power; a TilewrightError if a result is wrong."""
    emulator = EmulatedBackend()
    for number, data in enumerate(wanted):
        report(number / len(wanted), data)
        with Stand(problem, emulator, numbers=partial(numbers, data)) as stand:
            verified(untuned(problem, emulator.hardware), stand)


def measure(
    problem: Problem,
    wanted: Sequence[str],
    make: MakeStand,
    protocol: Protocol,
    report: Progress = lambda share, doing: None,
) -> list[Power]:
    """The product with each kind of data, in turns; a TilewrightError if a result is wrong.

    report: is told the share of the work that is done.
    """
    with ExitStack() as until:
        works = {}
        for data in wanted:
            report(0.0, f"preparing {data}")
            stand = until.enter_context(make(partial(numbers, data)))
            candidate = untuned(problem, stand.hardware)
            works[data] = stand.work(candidate, verified(candidate, stand), until)
        sensors, cycles = until.enter_context(Sensors()), []
        for cycle in protocol.measure(works, sensors):
            cycles.append(cycle)
            report(len(cycles) / protocol.cycles, f"cycle {len(cycles)} of {protocol.cycles}")
        return [_power(data, cycles, problem.flops) for data in works]


def verified(candidate: Candidate, stand: Stand | TimedStand) -> CompiledKernel:
    """A candidate, compiled; a TilewrightError if its result on the stand is wrong."""
    compiled = build(candidate.source, stand.hardware.arch)
    if stand.fault(candidate, compiled):
        raise wrong_result(compiled.name, stand.hardware.name)
    return compiled


def _power(data: str, cycles: Sequence[Cycle], flops: float) -> Power:
    seconds = [cycle[data].seconds for cycle in cycles]
    reading = combined((cycle[data].reading for cycle in cycles), fmean)
    return Power(
        data,
        None if reading is None else reading.watts,
        None if reading is None else reading.sm_clock_mhz,
        flops / median(seconds) / 1e12,
        tuple(each * 1e6 for each in seconds),
    )
