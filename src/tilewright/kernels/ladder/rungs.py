"""The rungs in the order in which they are climbed, and what was published about them."""

from dataclasses import dataclass
from typing import Literal

from tilewright.kernels.family import Kernel
from tilewright.kernels.ladder import cuda_cores

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


GORDIC = "Gordić, Inside NVIDIA GPUs (2025)"

_RUNGS = (
    Rung(
        cuda_cores.Uncoalesced(),
        "CUDA cores",
        "Uncoalesced",
        "One thread for each element of out, and threads side by side take elements below each other.",
        (Published(0.243, (4096, 4096, 4096), "H100 PCIe", GORDIC),),
    ),
)

LADDER: dict[str, Rung] = {rung.name: rung for rung in _RUNGS}
"""Every rung by its kernel's name, the first to be climbed first."""
