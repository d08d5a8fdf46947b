"""How many CTAs of `simt` share an SM: as many as find room, or as few as let all SMs have as many."""

from functools import cache
from typing import Any

from tilewright.hardware import RESERVED_SMEM_BYTES, SMEM_UNIT, WARP, Hardware
from tilewright.rounding import ceil_div

_WARPS = {32: 16, 64: 12}
"""Those that have registers on an SM, by the most sums of a thread: 128 registers, or 168."""

_WARPS_OF_MANY_SUMS = 8
"""The same for more sums: with fewer than 256 registers, ptxas spills."""

_L1_BYTES = 4096
"""What CTAs leave of an SM to L1. Six CTAs of 32x128 tiles with parts of k would fill all of an SM, and take a fifth
longer than the times of four and five suggest."""


def ctas_with_registers(tile: Any) -> int:
    """The CTAs of a SimtConfig, or of its Constants, that find registers on an SM."""
    return _with_registers(tile.thread_m * tile.thread_n, tile.threads)


def ctas_with_room(tile: Any, smem_bytes: int, hardware: Hardware) -> int:
    """Those that find registers and shared memory, of which each takes so many bytes."""
    return _with_room(tile.thread_m * tile.thread_n, tile.threads, smem_bytes, _smem_of_sm(hardware))


@cache  # each launch asks, and few answers differ
def _with_room(sums: int, threads: int, smem_bytes: int, smem_of_sm: int) -> int:
    with_smem = (smem_of_sm - _L1_BYTES) // (smem_bytes + RESERVED_SMEM_BYTES)
    return max(1, min(_with_registers(sums, threads), with_smem))


def _with_registers(sums: int, threads: int) -> int:
    warps = next((warps for most, warps in _WARPS.items() if sums <= most), _WARPS_OF_MANY_SUMS)
    return max(1, warps * WARP // max(threads, 1))


def evenly(clusters: int, at_once: int, room: int) -> int:
    """The CTAs of an SM if all have as many, in as few waves as with all that have room.

    at_once: the clusters that work at once with a CTA on each SM.
    """
    return ceil_div(clusters, at_once * ceil_div(clusters, at_once * room))


def spare_bytes(ctas: int, smem_bytes: int, hardware: Hardware) -> int:
    """The shared memory besides so many bytes with which a CTA leaves room for no more than `ctas` on an SM."""
    too_many = _smem_of_sm(hardware) // (ctas + 1) // SMEM_UNIT * SMEM_UNIT + SMEM_UNIT
    return max(0, too_many - RESERVED_SMEM_BYTES - smem_bytes)


def _smem_of_sm(hardware: Hardware) -> int:
    return hardware.smem_bytes + RESERVED_SMEM_BYTES
