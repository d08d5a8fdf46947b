"""What each GPU is, as one frozen dataclass of data-sheet facts; the models and the planner read only this."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hardware:
    """Facts of one GPU.

    `arch` is what NVRTC compiles for; `sm_count` multiprocessors; `smem_bytes` the most dynamic shared memory of a
    block; `l2_bytes`, `memory_bandwidth` (bytes/s); `boost_clock` (Hz); the rates are dense multiply-adds per
    clock and SM: `tensor_macs` for bf16/fp16 with fp32 accumulation, `fp32_macs` on the CUDA cores.
    Sources: NVIDIA data sheets and the CUDA programming guide's table of compute capabilities.
    """

    name: str
    arch: str
    sm_count: int
    smem_bytes: int
    l2_bytes: int
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


_MB = 1 << 20

A100 = Hardware("A100", "sm_80", 108, 166_912, 40 * _MB, 2.039e12, 1.410e9, 1024, 64)
H100_SXM = Hardware("H100-SXM", "sm_90a", 132, 232_448, 50 * _MB, 3.35e12, 1.830e9, 2048, 128)
H100_PCIE = Hardware("H100-PCIe", "sm_90a", 114, 232_448, 50 * _MB, 2.0e12, 1.620e9, 2048, 128)
H200 = Hardware("H200", "sm_90a", 132, 232_448, 60 * _MB, 4.8e12, 1.830e9, 2048, 128)
H800 = Hardware("H800", "sm_90a", 132, 232_448, 50 * _MB, 3.35e12, 1.830e9, 2048, 128)
H20 = Hardware("H20", "sm_90a", 78, 232_448, 60 * _MB, 4.0e12, 1.830e9, 512, 128)

GPUS = {gpu.name: gpu for gpu in (A100, H100_SXM, H100_PCIE, H200, H800, H20)}
