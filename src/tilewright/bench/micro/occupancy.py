"""What a second CTA on each SM gains kernels that wait for their loads: two rungs, with room for one CTA and for two.

The compiler has 64 registers for each of 1024 threads if one CTA is to fit, and 32 if two are. The model beside it is
`tilewright.model.occupancy`.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tilewright.backends.emulated import EmulatedBackend
from tilewright.bench.micro.power import MakeStand, verified
from tilewright.hardware import Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.ladder.cuda_cores import Coalesced, Uncoalesced
from tilewright.measure.protocol import Burst, Cycle, Protocol
from tilewright.model.occupancy import occupancy
from tilewright.planner.tuning.candidates import Candidate
from tilewright.planner.tuning.search import Progress
from tilewright.planner.tuning.search import Stand as TimedStand
from tilewright.planner.tuning.stand import Stand
from tilewright.problem import Problem

PROTOCOL = Burst(cycles=3, idle_seconds=0.5)


class _TwoOnAnSm:
    """Makes the compiler leave room for a second CTA."""

    def ctas_of_sm(self, constants: Any) -> int:
        """Two."""
        return 2


class RoomyUncoalesced(_TwoOnAnSm, Uncoalesced):
    """`uncoalesced` in 32 registers."""


class RoomyCoalesced(_TwoOnAnSm, Coalesced):
    """`coalesced` in 32 registers."""


KERNELS = (Uncoalesced(), RoomyUncoalesced(), Coalesced(), RoomyCoalesced())


@dataclass(frozen=True, slots=True)
class Resident:
    """A rung with its registers of a thread, the CTAs that an SM holds, and 10^12 FLOP/s, right after idle.

    tflops: None in the emulator. samples_us: microseconds of a launch, by cycle.
    """

    rung: str
    registers: int
    ctas: int
    tflops: float | None
    samples_us: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def measure(
    problem: Problem, make: MakeStand, protocol: Protocol, report: Progress = lambda share, doing: None
) -> list[Resident]:
    """Each rung with room for one CTA and for two, in turns; a TilewrightError if a result is wrong.

    report: is told the share of the work that is done.
    """
    with ExitStack() as until:
        stand = until.enter_context(make(None))
        ready = _ready(problem, stand)
        works = {str(number): stand.work(*each, until) for number, each in enumerate(ready)}
        cycles: list[Cycle] = []
        for cycle in protocol.measure(works):
            cycles.append(cycle)
            report(len(cycles) / protocol.cycles, f"cycle {len(cycles)} of {protocol.cycles}")
        samples = ([cycle[name].seconds for cycle in cycles] for name in works)
        return [
            _resident(*each, stand.hardware, problem, seconds) for each, seconds in zip(ready, samples, strict=True)
        ]


def check(problem: Problem) -> list[Resident]:
    """The same without times, in the emulator, whose results are compared."""
    with Stand(problem, EmulatedBackend()) as stand:
        return [_resident(*each, stand.hardware, problem, []) for each in _ready(problem, stand)]


def _ready(problem: Problem, stand: Stand | TimedStand) -> list[tuple[Candidate, CompiledKernel]]:
    found = []
    for kernel in KERNELS:
        config = kernel.config_type()
        candidate = Candidate(kernel, config, kernel.assemble(config, problem, stand.hardware))
        found.append((candidate, verified(candidate, stand)))
    return found


def _resident(
    candidate: Candidate, compiled: CompiledKernel, hardware: Hardware, problem: Problem, seconds: Sequence[float]
) -> Resident:
    held = occupancy(hardware, candidate.launch.shape.block, compiled.registers)
    return Resident(
        candidate.kernel.name,
        compiled.registers,
        held.ctas,
        problem.flops / median(seconds) / 1e12 if seconds else None,
        tuple(each * 1e6 for each in seconds),
    )
