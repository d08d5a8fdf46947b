"""The clocks of a wgmma.mma_async when the tensor cores have a queue of them: the slower of multiplying and reading.

An instruction multiplies 64 rows of A by n columns of B over 32 bytes along k, whatever the type: 16 elements of bf16,
32 of fp8, 8 of tf32. A type of half the width multiplies at twice the rate, so the clocks do not depend on the type.

Sources: the measured clocks of an H800 are from "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture" (arXiv
2402.13499), those of an H20 and the model from the wgmma latency article (docs/ladder/README.md), and the clocks of A
in registers from an H200 (results/wgmma_clocks_h200.json).
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from tilewright.dtypes import bf16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import GPUS, WGMMA_N
from tilewright.model.chips import SMEM_BYTES_PER_CLOCK, AnyChip, gpu_of
from tilewright.rounding import one_of

Source = Literal["smem", "registers"]
"""Where a wgmma finds its A; B is always in SMEM."""

ROWS = 64
"""The rows of A of one wgmma."""
K_BYTES = 32
"""The bytes of a row of A along k that one wgmma takes."""

REGISTER_CLOCKS = 13
"""The clocks in which registers deliver A, whatever its type, as an H200 with n up to 24 shows."""

MEASURED = {
    "H800": {8: 18, 16: 20, 32: 24, 64: 32, 128: 64, 256: 128},
    "H20": {8: 18, 16: 32, 32: 64, 64: 128, 128: 256, 256: 512},
}
"""Published clocks by GPU and n, with A and B in SMEM."""


@dataclass(frozen=True, slots=True)
class WgmmaTime:
    """The clocks of one wgmma among many, on the four tensor cores of an SM.

    n: columns of B. source: of A. multiply: clocks of the tensor cores. read_a: clocks in which its source delivers A.
    read_b: those in which shared memory delivers B.
    """

    n: int
    source: Source
    multiply: float
    read_a: float
    read_b: float

    @property
    def read(self) -> float:
        """Clocks in which both operands are delivered: one after the other by shared memory, or side by side."""
        return self.read_a + self.read_b if self.source == "smem" else max(self.read_a, self.read_b)

    @property
    def clocks(self) -> float:
        """Clocks from one instruction to the next: reading the next one's operands overlaps multiplying."""
        return max(self.multiply, self.read)

    @property
    def bound(self) -> Literal["tensor cores", "shared memory", "registers"]:
        """The part that takes longest."""
        if self.multiply >= self.read:
            return "tensor cores"
        return "shared memory" if self.source == "smem" else "registers"

    @property
    def share(self) -> float:
        """The share of the tensor cores' rate that is left."""
        return self.multiply / self.clocks

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = ("read", "clocks", "bound", "share")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def wgmma_time(chip: AnyChip, n: int, source: Source = "smem") -> WgmmaTime:
    """The time of a wgmma of n columns on a Hopper GPU.

    Raises an ArgumentValueError for another GPU, an n that the instruction does not have, or an unknown source.
    """
    gpu = gpu_of(chip)
    if not has_wgmma(gpu):
        raise ArgumentValueError(
            f"chip={gpu.name} has no wgmma, which Hopper alone has: use {', '.join(hopper_gpus())}"
        )
    if n not in WGMMA_N:
        raise ArgumentValueError(f"n={n} is not an extent of wgmma: use 8, 16, 24 and so on up to 256")
    one_of("source", source, get_args(Source))
    elements = K_BYTES // bf16.nbytes
    return WgmmaTime(
        n,
        source,
        multiply=ROWS * n * elements / gpu.macs("wgmma", bf16),
        read_a=ROWS * K_BYTES / SMEM_BYTES_PER_CLOCK if source == "smem" else REGISTER_CLOCKS,
        read_b=n * K_BYTES / SMEM_BYTES_PER_CLOCK,
    )


def least_full_n(chip: AnyChip, source: Source = "smem") -> int:
    """The least n at which both operands are there as soon as the tensor cores can take them."""
    return next(n for n in WGMMA_N if wgmma_time(chip, n, source).bound == "tensor cores")


def hopper_gpus() -> list[str]:
    """The names of the GPUs that have the instruction."""
    return [name for name, gpu in GPUS.items() if has_wgmma(gpu)]


def has_wgmma(chip: AnyChip) -> bool:
    """Whether a GPU has the instruction."""
    return any(unit == "wgmma" for unit, _, _ in gpu_of(chip).rates)
