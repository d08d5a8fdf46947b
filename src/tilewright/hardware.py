"""What each GPU is, as one frozen dataclass of data-sheet facts; the models and the planner read only this."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Hardware:
    """Facts of one GPU.

    `arch` is what NVRTC compiles for; `sm_count` multiprocessors; `smem_bytes` the most dynamic shared memory of a
    block; `memory_bandwidth` (bytes/s); `boost_clock` (Hz); the rates are dense multiply-adds per
    clock and SM: `tensor_macs` for bf16/fp16 with fp32 accumulation, `fp32_macs` on the CUDA cores.
    Sources: NVIDIA data sheets and the CUDA programming guide's table of compute capabilities.
    """

    name: str
    arch: str
    sm_count: int
    smem_bytes: int
    memory_bandwidth: float
    boost_clock: float
    tensor_macs: int
    fp32_macs: int

    @property
    def capability(self) -> int:
        """Compute capability times ten: 90 for `sm_90a`."""
        return int("".join(ch for ch in self.arch if ch.isdigit()))

    def peak_flops(self, dtype_bytes: int) -> float:
        """Floating-point operations per second at the boost clock: tensor cores for 2-byte types, else CUDA cores."""
        macs = self.tensor_macs if dtype_bytes == 2 else self.fp32_macs
        return 2.0 * macs * self.sm_count * self.boost_clock


A100 = Hardware("A100", "sm_80", 108, 166_912, 2.039e12, 1.410e9, 1024, 64)
H100_SXM = Hardware("H100-SXM", "sm_90a", 132, 232_448, 3.35e12, 1.830e9, 2048, 128)
H100_PCIE = Hardware("H100-PCIe", "sm_90a", 114, 232_448, 2.0e12, 1.620e9, 2048, 128)
H200 = Hardware("H200", "sm_90a", 132, 232_448, 4.8e12, 1.830e9, 2048, 128)
H800 = Hardware("H800", "sm_90a", 132, 232_448, 3.35e12, 1.830e9, 2048, 128)
H20 = Hardware("H20", "sm_90a", 78, 232_448, 4.0e12, 1.830e9, 512, 128)

GPUS = {gpu.name: gpu for gpu in (A100, H100_SXM, H100_PCIE, H200, H800, H20)}

_SMEM_BYTES = {80: 166_912, 87: 166_912} | dict.fromkeys((90, 100, 103, 110), 232_448)
"""The most shared memory of a block by capability (CUDA programming guide)."""
_LEAST_SMEM_BYTES = 101_376
"""What a block has since capability 8.0 at least."""


def standing_for(arch: str) -> Hardware:
    """The H200 for sm_90a, the first entry of any other architecture, else an A100 of that `arch` and its SMEM."""
    entry = next((gpu for gpu in (H200, *GPUS.values()) if gpu.arch == arch), None)
    if entry is not None:
        return entry
    unnamed = replace(A100, name="unnamed GPU", arch=arch)
    return replace(unnamed, smem_bytes=_SMEM_BYTES.get(unnamed.capability, _LEAST_SMEM_BYTES))


def recognise(device_name: str) -> Hardware | None:
    """The entry whose model the driver's name of a device means ("NVIDIA H100 80GB HBM3"); None where there is none.

    The rates per clock and SM are the device's; memory, clocks and SMs differ among the boards of a model.
    """
    words = set(re.split(r"[\W_]+", device_name))
    entries = (gpu for gpu in GPUS.values() if gpu.name.split("-")[0] in words)
    return max(entries, key=lambda gpu: len(words.intersection(gpu.name.split("-"))), default=None)
