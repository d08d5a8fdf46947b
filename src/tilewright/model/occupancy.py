"""Occupancy: how many CTAs of a kernel an SM holds at once, and what limits them.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and "Shared Memory" of each
capability for the carveouts; NVIDIA's occupancy calculator
for the units of allocation; A. Gordić, "Inside NVIDIA GPUs", for both definitions and the example.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.rounding import ceil_div, round_up

WARP = 32
REGISTERS = 65_536
"""The 32-bit registers of an SM, since sm_50."""
REGISTER_UNIT = 256
"""Registers are given to warps in such pieces."""
WARP_UNIT = 4
"""An SM has four parts, each with a quarter of the registers, so warps with equal registers fit by fours."""
MOST_REGISTERS = 255
"""Registers of a thread."""
MOST_THREADS = 1024
"""Threads of a CTA."""


class SmLimits(NamedTuple):
    """What an SM of a compute capability holds.

    warps, ctas: the most at once. carveouts: how many KiB of L1's array can be shared memory of all CTAs together.
    reserved_smem_bytes: what the system takes of it for each CTA. smem_unit: shared memory is given in such pieces.
    """

    warps: int
    ctas: int
    carveouts: tuple[int, ...]
    reserved_smem_bytes: int = 1024
    smem_unit: int = 128

    @property
    def smem_bytes(self) -> int:
        """The most shared memory of all CTAs together."""
        return self.carveouts[-1] * 1024

    def offered(self, nbytes: int, name: str = "carveout") -> int:
        """The bytes, if so many can be shared memory; an ArgumentValueError lists those that can."""
        offered = [kib * 1024 for kib in self.carveouts]
        if nbytes not in offered:
            raise ArgumentValueError(
                f"{name}={nbytes} bytes cannot be set aside for shared memory: use {', '.join(map(str, offered))}"
            )
        return nbytes


_SMALL = 0, 8, 16, 32, 64, 100
_LARGE = *_SMALL, 132, 164
_LARGEST = *_LARGE, 196, 228
LIMITS = {
    70: SmLimits(64, 32, (0, 8, 16, 32, 64, 96), 0, 256),
    75: SmLimits(32, 16, (32, 64), 0, 256),
    80: SmLimits(64, 32, _LARGE),
    86: SmLimits(48, 16, _SMALL),
    87: SmLimits(48, 16, _LARGE),
    89: SmLimits(48, 24, _SMALL),
    90: SmLimits(64, 32, _LARGEST),
    100: SmLimits(64, 32, _LARGEST),
    103: SmLimits(64, 32, _LARGEST),
    120: SmLimits(48, 24, _SMALL),
}
"""By compute capability times ten."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The CTAs of a kernel that an SM holds at once, as each resource alone would allow.

    warps_per_cta: of the kernel. most_warps: of the SM.
    """

    by_registers: int
    by_smem: int
    by_warps: int
    by_ctas: int
    warps_per_cta: int
    most_warps: int

    @property
    def ctas(self) -> int:
        """CTAs per SM, which some call the occupancy; 0 if one needs more than an SM has."""
        return min(self.by_registers, self.by_smem, self.by_warps, self.by_ctas)

    @property
    def warps(self) -> int:
        """Warps per SM."""
        return self.ctas * self.warps_per_cta

    @property
    def share(self) -> float:
        """Of the warps that an SM can hold, the share that it does: the other definition of occupancy."""
        return self.warps / self.most_warps

    @property
    def limits(self) -> tuple[str, ...]:
        """The resources that allow no more: of registers, shared memory, warps and CTAs."""
        allowed = {
            "registers": self.by_registers,
            "shared memory": self.by_smem,
            "warps": self.by_warps,
            "CTAs": self.by_ctas,
        }
        return tuple(name for name, ctas in allowed.items() if ctas == self.ctas)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = {"ctas": self.ctas, "warps": self.warps, "share": self.share, "limits": list(self.limits)}
        return {**asdict(self), **derived}


def occupancy(
    capability: int, threads: int, registers: int, smem_bytes: int = 0, *, carveout: int | None = None
) -> Occupancy:
    """The Occupancy of a kernel.

    capability: times ten, such as 90. threads: of a CTA. registers: of a thread, as compiled. smem_bytes: of a CTA,
    static and dynamic. carveout: how many bytes of an SM are SMEM, one of its `carveouts`; the most if not given.
    Raises an ArgumentValueError for an unknown capability, and for what no kernel can have.
    """
    if capability not in LIMITS:
        known = ", ".join(map(str, LIMITS))
        raise ArgumentValueError(f"capability={capability} is unknown: use one of {known} (times ten)")
    limits = LIMITS[capability]
    available = limits.smem_bytes if carveout is None else limits.offered(carveout)
    for name, value, least, most in (
        ("threads", threads, 1, MOST_THREADS),
        ("registers", registers, 1, MOST_REGISTERS),
        ("smem_bytes", smem_bytes, 0, limits.smem_bytes - limits.reserved_smem_bytes),
    ):
        if not least <= value <= most:
            raise ArgumentValueError(
                f"{name}={value} is not possible on an SM of sm_{capability}: give {least} to {most}"
            )
    warps = ceil_div(threads, WARP)
    of_warp = round_up(registers * WARP, REGISTER_UNIT)
    warps_with_registers = REGISTERS // of_warp // WARP_UNIT * WARP_UNIT
    of_cta = round_up(smem_bytes + limits.reserved_smem_bytes, limits.smem_unit)
    return Occupancy(
        by_registers=warps_with_registers // warps,
        by_smem=available // of_cta if of_cta else limits.ctas,
        by_warps=limits.warps // warps,
        by_ctas=limits.ctas,
        warps_per_cta=warps,
        most_warps=limits.warps,
    )
