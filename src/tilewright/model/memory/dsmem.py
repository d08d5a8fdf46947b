"""DSMEM: the shared memory of the other CTAs of a cluster, against the way through L2.

A CTA that needs what another one has can read it there, or the other one writes it to GMEM and it comes back through
L2. How much must be in flight follows from the latency, by Little's law: bytes = latency x bytes per clock.
Source of the latencies: W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
Microbenchmarking", 2024, who measured 180 clocks for a load from the SMEM of another SM, 32% less than from L2. What
atomics take beyond that was measured on an H200 (results/loads_h200.json).
"""

from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.model.chips import CHIPS, SMEM_BYTES_PER_CLOCK, AnyChip, chip_of

ATOMIC_CLOCKS = {"SMEM": 0, "DSMEM": 7, "L2": 104}
"""Clocks that an atomic takes more than a load, where atomics are done, on Hopper. DRAM does none, nor does L1."""


class Level(NamedTuple):
    """A place from which an SM loads.

    clocks: from a load to its value. bytes_per_clock: what an SM gets, if all load at once; None if nobody has
    published it. atomic: clocks from an atomic to its value; None where none is done, or none was measured.
    """

    name: str
    clocks: int
    nanoseconds: float
    bytes_per_clock: float | None
    atomic: int | None

    @property
    def in_flight(self) -> float | None:
        """Bytes that an SM must have asked for at any time, so that latency costs no bandwidth."""
        return None if self.bytes_per_clock is None else self.clocks * self.bytes_per_clock

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "in_flight": self.in_flight}


def levels(chip: AnyChip) -> tuple[Level, ...]:
    """From where an SM loads, nearest first; an ArgumentValueError if nobody has published the latencies."""
    chip = chip_of(chip)
    known, gpu = chip.latencies, chip.gpu
    if known is None:
        measured = ", ".join(name for name, each in CHIPS.items() if each.latencies is not None)
        raise ArgumentValueError(f"chip={chip.name!r} has no published latencies: use {measured}")
    dram = gpu.memory_bandwidth / (gpu.sm_count * gpu.cuda_core_clock)
    l2 = chip.l2_bytes_per_clock and chip.l2_bytes_per_clock / gpu.sm_count
    found = (
        ("SMEM", known.smem, float(SMEM_BYTES_PER_CLOCK)), ("L1", known.l1, float(SMEM_BYTES_PER_CLOCK)),
        ("DSMEM", known.dsmem, None), ("L2", known.l2, l2), (chip.memory, known.dram, dram),
    )  # fmt: skip
    more = ATOMIC_CLOCKS if chip.generation.name == "Hopper" else {}
    return tuple(
        Level(
            name, clocks, clocks / gpu.cuda_core_clock * 1e9, rate, clocks + more[name] if name in more else None
        )
        for name, clocks, rate in found if clocks
    )  # fmt: skip
