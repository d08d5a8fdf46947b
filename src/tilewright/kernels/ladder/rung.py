"""A rung: a kernel with its idea in words, and published results of such kernels."""

from dataclasses import dataclass
from typing import Literal

from tilewright.dtypes import DType, bf16, fp16, fp32
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.measure.data import Data

Road = Literal["CUDA cores", "warp tensor cores", "Hopper"]
"""A part of the ladder, by the unit that multiplies; each road ends with the production kernel of its unit."""


_PRODUCTION: dict[Road, tuple[str, tuple[DType, ...]]] = {
    "CUDA cores": ("nn", (fp32,)),
    "warp tensor cores": ("nn", (fp16, bf16)),
    "Hopper": ("nt", (bf16, fp16)),
}
"""Layout and element types in which a road's production kernel is compared with the rungs before it."""


@dataclass(frozen=True, slots=True)
class Published:
    """A figure from an article: `tflops` of its kernel, or `tflops` to `upto`, for `shape` (m, n, k) on `gpu`."""

    tflops: float
    shape: tuple[int, int, int]
    gpu: str
    source: str
    upto: float | None = None

    @property
    def range(self) -> str:
        """The figure, or its two ends."""
        return f"{self.tflops:g}" if self.upto is None else f"{self.tflops:g} to {self.upto:g}"


@dataclass(frozen=True, slots=True)
class Rung:
    """One kernel of the ladder: its road, a title, the idea in one sentence, and published figures of such a kernel.

    A side step has no gain; the rungs after it continue from the one before it.

    data: the numbers that show the idea.
    note: a remark that its figures need.
    """

    kernel: Kernel
    road: Road
    title: str
    idea: str
    published: tuple[Published, ...] = ()
    side_step: bool = False
    data: Data = "randn"
    note: str = ""

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def layout(self) -> str:
        """The layout of A and B when the rung is climbed."""
        return self.kernel.layout if isinstance(self.kernel, LadderKernel) else _PRODUCTION[self.road][0]

    @property
    def inputs(self) -> tuple[DType, ...]:
        """The element types of A and B, the usual one first."""
        return self.kernel.inputs if isinstance(self.kernel, LadderKernel) else _PRODUCTION[self.road][1]


GORDIC = "Gordić, Inside NVIDIA GPUs: anatomy of high performance matmul kernels (2025)"
"""The article that most rungs follow."""

SHANKHDHAR = "Shankhdhar, Outperforming cuBLAS on H100: a worklog, and fast.cu (2024); quoted by Gordić"
"""The source of the Hopper figures; the fast.cu repository has their size, 4096, and their GPU, an H100 SXM."""

GEMM_CHAPTER = "GEMM in depth, chapter 9 of a CUDA course"
"""A course chapter that does not name its author: register tiles, and a first kernel on wmma."""
