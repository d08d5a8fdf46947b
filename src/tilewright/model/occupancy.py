"""Occupancy: how many CTAs of a kernel an SM holds at once, and what limits them.

Sources: NVIDIA's occupancy calculator for the units of allocation; A. Gordić, "Inside NVIDIA GPUs", for both
definitions and the example.
"""

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.hardware import REGISTERS, WARP
from tilewright.model.chips import AnyChip, gpu_of
from tilewright.rounding import ceil_div, natural, round_up

REGISTER_UNIT = 256
"""Registers are given to warps in such pieces."""
WARP_UNIT = 4
"""An SM has four parts, each with a quarter of the registers, so warps with equal registers fit by fours."""
MOST_REGISTERS = 255
"""Registers of a thread."""
MOST_THREADS = 1024
"""Threads of a CTA."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The CTAs of a kernel that an SM holds at once, as each resource alone would allow.

    by_smem: None if a CTA takes none, and the system reserves none for it. warps_per_cta: of the kernel. most_warps: of
    the SM.
    """

    by_registers: int
    by_smem: int | None
    by_warps: int
    by_ctas: int
    warps_per_cta: int
    most_warps: int

    @property
    def ctas(self) -> int:
        """CTAs per SM, which some call the occupancy; 0 if one needs more than an SM has."""
        return min(each for each in self._allowed.values() if each is not None)

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
        return tuple(name for name, ctas in self._allowed.items() if ctas == self.ctas)

    @property
    def _allowed(self) -> dict[str, int | None]:
        return {
            "registers": self.by_registers,
            "shared memory": self.by_smem,
            "warps": self.by_warps,
            "CTAs": self.by_ctas,
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = {"ctas": self.ctas, "warps": self.warps, "share": self.share, "limits": list(self.limits)}
        return {**asdict(self), **derived}


def occupancy(
    chip: AnyChip, threads: int, registers: int, smem_bytes: int = 0, *, carveout: int | None = None
) -> Occupancy:
    """The Occupancy of a kernel on a chip.

    threads: of a CTA. registers: of a thread, as compiled. smem_bytes: of a CTA, static and dynamic. carveout: how many
    bytes of an SM are SMEM, one of its `carveouts`; the most if not given. Raises an ArgumentValueError for what no
    kernel can have.
    """
    limits = gpu_of(chip).limits
    available = limits.smem_bytes if carveout is None else limits.offered(carveout)
    threads = natural("threads", threads, 1, MOST_THREADS)
    registers = natural("registers", registers, 1, MOST_REGISTERS)
    smem_bytes = natural("smem_bytes", smem_bytes, 0, limits.smem_bytes - limits.reserved_smem_bytes)
    warps = ceil_div(threads, WARP)
    of_warp = round_up(registers * WARP, REGISTER_UNIT)
    warps_with_registers = REGISTERS // of_warp // WARP_UNIT * WARP_UNIT
    of_cta = round_up(smem_bytes + limits.reserved_smem_bytes, limits.smem_unit)
    return Occupancy(
        by_registers=warps_with_registers // warps,
        by_smem=available // of_cta if of_cta else None,
        by_warps=limits.warps // warps,
        by_ctas=limits.ctas,
        warps_per_cta=warps,
        most_warps=limits.warps,
    )
