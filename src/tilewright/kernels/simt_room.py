"""How many CTAs of `simt` share an SM: as many as find room, or as few as let all SMs have as many."""

from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.hardware import RESERVED_SMEM_BYTES, SMEM_UNIT, WARP, Hardware

if TYPE_CHECKING:
    from tilewright.model.tiling.tiles import Array

Count = TypeVar("Count", int, "Array")

_FEW_SUMS = 32
_WARPS, _WARPS_OF_FEW_SUMS = 8, 16
"""Those that have registers on an SM: 256 for a thread, or 128 if it has few sums. With less, ptxas spills, or loads
fragments too late (results/fp32_configs_h200.json)."""


def ctas_with_registers(tile: Any) -> int:
    """The CTAs of a SimtConfig, or of its Constants, that find registers on an SM."""
    few = tile.thread_m * tile.thread_n <= _FEW_SUMS
    warps = _WARPS_OF_FEW_SUMS if few else _WARPS
    threads: int = max(tile.threads, 1)
    return max(1, warps * WARP // threads)


def ctas_with_room(tile: Any, smem_bytes: int, hardware: Hardware) -> int:
    """Those that find registers and shared memory, of which each takes so many bytes."""
    return min(ctas_with_registers(tile), _smem_of_sm(hardware) // (smem_bytes + RESERVED_SMEM_BYTES))


def evenly(clusters: Count, at_once: Count, room: Count) -> tuple[Count, Count]:
    """The CTAs of an SM if all have as many, and the waves that this takes; no more than with as many as have room.

    at_once: the clusters that work at once with a CTA on each SM.
    """
    waves = -(-clusters // (at_once * room))
    return -(-clusters // (at_once * waves)), waves


def spare_bytes(ctas: int, smem_bytes: int, hardware: Hardware) -> int:
    """The shared memory besides so many bytes with which a CTA leaves room for no more than `ctas` on an SM."""
    too_many = _smem_of_sm(hardware) // (ctas + 1) // SMEM_UNIT * SMEM_UNIT + SMEM_UNIT
    return max(0, too_many - RESERVED_SMEM_BYTES - smem_bytes)


def _smem_of_sm(hardware: Hardware) -> int:
    return hardware.smem_bytes + RESERVED_SMEM_BYTES
