"""A rung: a kernel with its idea in words, and what was published about such kernels."""

from dataclasses import dataclass
from typing import Literal

from tilewright.kernels.family import Kernel

Road = Literal["CUDA cores", "warp tensor cores", "Hopper"]
"""What a part of the ladder multiplies with; each road ends with the production kernel of its unit."""


@dataclass(frozen=True, slots=True)
class Published:
    """What an article measured: `tflops` of its kernel for `shape` (m, n, k) on `gpu`."""

    tflops: float
    shape: tuple[int, int, int]
    gpu: str
    source: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One kernel of the ladder: its road, a title, the idea in one sentence, and published figures of such a kernel."""

    kernel: Kernel
    road: Road
    title: str
    idea: str
    published: tuple[Published, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name


GORDIC = "Gordić, Inside NVIDIA GPUs: anatomy of high performance matmul kernels (2025)"
"""The article that most rungs follow; its Hopper figures are Pranjal Shankhdhar's."""
