"""The clocks of a warp's read of SMEM by what it asks of the banks, in many warps of an SM at once.

The model beside them is `tilewright.model.memory.banks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.micro.clocks import Clocks, clocks_between, wrong_result
from tilewright.bench.micro.runners import Runner
from tilewright.errors import ArgumentValueError
from tilewright.hardware import WARP
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit, translation_unit
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.memory.banks import BANK_BYTES, BANKS, Indices, bank_use
from tilewright.model.memory.pattern import addresses_of
from tilewright.rounding import round_up

Access = Literal["ld", "ldmatrix"]

WIDTHS = (4, 8, 16)
"""Bytes of a lane that are whole words; a matrix has rows of 16."""
MOST_BYTES = 32 << 10
"""Of SMEM."""
WARPS = 16
"""Of an SM: four for each scheduler, so that some can always ask."""
LOADS = 8
"""Reads of a round, which do not wait for each other: as cuda/micro/bank_reads.cuh has them, each a row further."""
ROW_BYTES = BANKS * BANK_BYTES
ROUNDS = 512


@dataclass(frozen=True, slots=True)
class Case:
    """Reads of `width` bytes by all lanes of a warp, each at its address, which an expression of `lane` gives."""

    addresses: str
    width: int = 4
    access: Access = "ld"

    def __post_init__(self) -> None:
        if self.width not in WIDTHS or (self.access, self.width) in (("ldmatrix", 4), ("ldmatrix", 8)):
            raise ArgumentValueError(
                f"width={self.width} of {self.access} is not measured: use 4, 8 or 16 for ld, and 16 for ldmatrix"
            )
        offsets = self.offsets()
        bank_use(offsets, self.width, self._kind)  # which refuses addresses that no access has
        if offsets.min() < 0 or offsets.max() + self.width > MOST_BYTES:
            raise ArgumentValueError(
                f"addresses={self.addresses!r} are not all from 0 to {MOST_BYTES:,} bytes: give each lane one there"
            )

    @property
    def _kind(self) -> Literal["ld", "st"]:
        """In the words of the model, which counts matrices as stores of their rows."""
        return "ld" if self.access == "ld" else "st"

    @property
    def passes(self) -> int:
        """Over the banks, by the model: the fewest clocks."""
        return bank_use(self.offsets(), self.width, self._kind).wavefronts

    def offsets(self) -> Indices:
        """The address of each lane."""
        return addresses_of(self.addresses, WARP)

    @property
    def nbytes(self) -> int:
        """Of SMEM, as far as all reads reach."""
        return round_up(int(self.offsets().max()) + self.width, ROW_BYTES) + LOADS * ROW_BYTES

    def unit(self) -> TranslationUnit:
        """The kernel, one for all addresses that reach as far."""
        return translation_unit(
            entry=f"bank_reads_{self.access}_{self.width}_{self.nbytes}",
            kernel_header="micro/bank_reads.cuh",
            kernel_template="bank_reads_kernel",
            constants={
                "width": self.width,
                "matrices": self.access == "ldmatrix",
                "bytes": self.nbytes,
                "loads": LOADS,
                "threads": WARP * WARPS,
            },
            parameters=[
                ("const uint32_t*", "offsets"),
                ("const uint32_t*", "memory"),
                ("uint32_t*", "sums"),
                ("int64_t*", "spans"),
                ("int", "rounds"),
            ],
            launch_bounds=(WARP * WARPS, 1),
        )


def run(case: Case, kernel: CompiledKernel, runner: Runner, rounds: int) -> NDArray[np.float64]:
    """The clocks of one read on each SM; a TilewrightError if a warp has not read what its lanes ask for.

    The clocks of the emulator are no times.
    """
    ctas = runner.hardware.sm_count if runner.name == "gpu" else 1
    memory = np.random.default_rng(0).integers(0, 1 << 32, case.nbytes // BANK_BYTES, np.uint32)
    offsets = case.offsets()
    sums, spans = np.zeros((ctas, WARPS, WARP), np.uint32), np.zeros((ctas, WARPS, 2), np.int64)
    arrays = [offsets.astype(np.uint32), memory]
    runner.run(kernel, LaunchShape(ctas, WARP * WARPS, 1, 0), arrays, [sums, spans], [rounds])
    words = offsets[:, None] // BANK_BYTES + np.arange(case.width // BANK_BYTES)
    by_row = [int(memory[words + row * BANKS].sum(dtype=np.uint64)) for row in range(LOADS + 1)]
    wanted = sum(sum(by_row[each % 2 : each % 2 + LOADS]) for each in range(rounds)) % (1 << 32)
    if (sums.sum(axis=2, dtype=np.uint32) != np.uint32(wanted)).any():
        raise wrong_result(kernel.name, runner.name)
    return clocks_between(spans) / (rounds * LOADS * WARPS)


CASES = (
    *(Case(f"lane*{stride}") for stride in (0, 4, 8, 16, 32, 64, 128, 132)),
    Case("lane*8", 8),
    Case("lane*16", 16),
    Case("lane//2*16", 16),
    Case("lane%8*128+lane//8*16", 16, "ldmatrix"),
    Case("lane%8*144+lane//8*16", 16, "ldmatrix"),
    Case("swizzle128(lane%8*128+lane//8*16)", 16, "ldmatrix"),
)
"""One word, rows, columns, padding, phases of wide reads, and matrices: plain, padded and swizzled."""


def measure(wanted: Sequence[Case], runner: Runner, rounds: int = ROUNDS) -> Iterator[Clocks]:
    """The clocks of each case, in order."""
    for case in wanted:
        kernel = build(case.unit(), runner.hardware.arch)
        run(case, kernel, runner, 1)  # which brings the kernel to the SMs
        found = run(case, kernel, runner, rounds)
        named: dict[str, str | int] = {"addresses": case.addresses, "width": case.width, "access": case.access}
        yield Clocks.of(named, found, case.passes)
