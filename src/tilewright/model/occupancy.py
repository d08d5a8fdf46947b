"""Occupancy: how many CTAs of a kernel an SM holds at once, and what limits them.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; NVIDIA's occupancy calculator
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

    warps, ctas: the most at once. smem_bytes: shared memory of all CTAs together. reserved_smem_bytes: what the system
    takes of it for each CTA. smem_unit: shared memory is given in such pieces.
    """

    warps: int
    ctas: int
    smem_bytes: int
    reserved_smem_bytes: int = 1024
    smem_unit: int = 128


_KIB = 1024
LIMITS = {
    70: SmLimits(64, 32, 96 * _KIB, 0, 256),
    75: SmLimits(32, 16, 64 * _KIB, 0, 256),
    80: SmLimits(64, 32, 164 * _KIB),
    86: SmLimits(48, 16, 100 * _KIB),
    87: SmLimits(48, 16, 164 * _KIB),
    89: SmLimits(48, 24, 100 * _KIB),
    90: SmLimits(64, 32, 228 * _KIB),
    100: SmLimits(64, 32, 228 * _KIB),
    103: SmLimits(64, 32, 228 * _KIB),
    120: SmLimits(48, 24, 100 * _KIB),
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
    static and dynamic. carveout: how many bytes of an SM are shared memory; the most that it can have, if not given.
    Raises an ArgumentValueError for an unknown capability, and for what no kernel can have.
    """
    if capability not in LIMITS:
        known = ", ".join(map(str, LIMITS))
        raise ArgumentValueError(f"capability={capability} is unknown: use one of {known} (times ten)")
    limits = LIMITS[capability]
    available = limits.smem_bytes if carveout is None else carveout
    for name, value, least, most in (
        ("threads", threads, 1, MOST_THREADS),
        ("registers", registers, 1, MOST_REGISTERS),
        ("smem_bytes", smem_bytes, 0, limits.smem_bytes - limits.reserved_smem_bytes),
        ("carveout", available, 0, limits.smem_bytes),
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
