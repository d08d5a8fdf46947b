"""The roofline: what each level of memory allows a product on which a kernel does so many operations for each byte.

A kernel that does `intensity` operations for each byte that crosses a level cannot do more than intensity times the
level's bandwidth, nor more than the units' peak. Both are equal at the ridge.

Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", 2009. They draw the
memory; the levels above it have roofs of the same shape.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tilewright.dtypes import DType, parse
from tilewright.hardware import Unit
from tilewright.model.chips import AnyChip, chip_of
from tilewright.model.tiling.levels import Level


class Roof(NamedTuple):
    """What a level of memory allows.

    level: its name. bytes_per_second: of all SMs. intensity: operations of the product for each byte that crosses it.
    peak: operations per second of the unit that multiplies.
    """

    level: str
    bytes_per_second: float
    intensity: float
    peak: float

    @property
    def ridge(self) -> float:
        """The intensity from which on the level does not limit."""
        return self.peak / self.bytes_per_second

    @property
    def allowed(self) -> float:
        """Operations per second."""
        return min(self.peak, self.intensity * self.bytes_per_second)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "ridge": self.ridge, "allowed": self.allowed}


def roofs(chip: AnyChip, unit: Unit, dtype: DType | str, crossed: Iterable[Level]) -> list[Roof]:
    """The roof of each level, at the boost clock of the unit that multiplies.

    dtype: of A and B, also by its name. Raises an ArgumentValueError if the unit does not multiply such elements.
    """
    known_chip = chip_of(chip)
    gpu = known_chip.gpu
    clock = gpu.clock(unit)
    peak = 2.0 * gpu.macs(unit, parse(dtype, "dtype")) * gpu.sm_count * clock
    known = {level.name: level.bytes_per_second for level in known_chip.levels_at(clock)}
    known["GMEM"] = gpu.memory_bandwidth
    return [Roof(level.name, known[level.name], level.intensity, peak) for level in crossed]


def lowest(found: Sequence[Roof]) -> Roof:
    """The roof that limits: the first of those that allow the least."""
    return min(found, key=lambda roof: roof.allowed)
