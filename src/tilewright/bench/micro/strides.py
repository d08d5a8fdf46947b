"""The bandwidth of GMEM by stride: one sector in so many bytes is read, and all others are left out.

What L2 fetches for a sector may be more, and is set as well. The model beside it is `tilewright.model.memory.dram`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.bench.micro.clocks import wrong_result
from tilewright.bench.micro.runners import GpuRunner, Runner
from tilewright.errors import ArgumentValueError
from tilewright.hardware import SECTOR_BYTES
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit, translation_unit
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.memory.dram import FETCHES, dram_of

STRIDES = (32, 64, 96, 128, 256, 512, 1024, 2048, 4096)
BYTES = 1 << 35
"""Of memory that is read through: even the sectors of the largest stride do not fit into L2."""
THREADS, CTAS, IN_FLIGHT = 512, 4, 8
"""Of a CTA, CTAs of an SM, and reads of a thread."""


@dataclass(frozen=True, slots=True)
class Case:
    """One sector of 32 bytes in each `stride` bytes, with at most `fetch` bytes that L2 fetches for it."""

    stride: int
    fetch: int = 64

    def __post_init__(self) -> None:
        if not SECTOR_BYTES <= self.stride <= 1 << 16 or self.stride % 16:
            raise ArgumentValueError(
                f"stride={self.stride} is not measured: give bytes from {SECTOR_BYTES} to 65536, whole pieces of 16"
            )
        if self.fetch not in FETCHES:
            raise ArgumentValueError(f"fetch={self.fetch} is no limit of L2: use {', '.join(map(str, FETCHES))}")


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes per second of the sectors that were wanted; and the most that the model allows.

    measured: None in the emulator.
    """

    stride: int
    fetch: int
    measured: float | None
    model: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def unit() -> TranslationUnit:
    """The kernel, the same for all strides."""
    return translation_unit(
        entry="strided_read",
        kernel_header="micro/strided_read.cuh",
        kernel_template="strided_read_kernel",
        constants={"threads": THREADS, "in_flight": IN_FLIGHT},
        parameters=[("const uint8_t*", "memory"), ("uint32_t*", "sums"), ("int", "sectors"), ("int", "stride")],
        launch_bounds=(THREADS, 1),
    )


def run(case: Case, kernel: CompiledKernel, runner: Runner, nbytes: int) -> float | None:
    """The seconds to read the sectors of so many bytes; None in the emulator, which has no clock.

    Raises a TilewrightError unless each sector was read once: all words are 1, and their sum is exact.
    """
    numbers = [nbytes // case.stride, case.stride]
    ctas = CTAS * runner.hardware.sm_count if isinstance(runner, GpuRunner) else 2
    shape, seconds = LaunchShape(ctas, THREADS, 1, 0), None
    sums = np.zeros((ctas, THREADS), np.uint32)
    if isinstance(runner, GpuRunner):
        with runner.fetching(case.fetch):
            seconds = runner.seconds(kernel, shape, nbytes // 4, [sums], numbers)
    else:
        runner.run(kernel, shape, [np.ones(nbytes // 4, np.uint32)], [sums], numbers)
    if int(sums.sum(dtype=np.uint64)) != 4 * numbers[0]:
        raise wrong_result(kernel.name, runner.name)
    return seconds


def measure(wanted: Sequence[Case], runner: Runner, nbytes: int = BYTES) -> Iterator[Bandwidth]:
    """The bandwidth of each case, in order; an ArgumentValueError for a GPU without HBM."""
    dram = dram_of(runner.hardware.name)
    kernel = build(unit(), runner.hardware.arch)
    for case in wanted:
        seconds = run(case, kernel, runner, nbytes)
        found = None if seconds is None else nbytes // case.stride * SECTOR_BYTES / seconds
        yield Bandwidth(case.stride, case.fetch, found, dram.strided_bandwidth(case.stride, case.fetch))
