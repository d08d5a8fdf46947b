"""What a scheduler can issue in a clock: operands from the banks of registers, and fp32 beside integers.

Each quarter of an SM has a scheduler, which issues an instruction of one warp in a clock, and units of 16 or 32 lanes.
A unit of 16 lanes takes two clocks for a warp, so the scheduler can serve two such units in turn.

Sources: Z. Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018, for the banks;
NVIDIA's white paper of Tesla V100 for the units.
"""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.model.chips import AnyChip, chip_of
from tilewright.rounding import MOST_COUNTED, ceil_div, natural

QUARTERS, WARP = 4, 32
MOST_SOURCES = 3
"""Of an instruction: a multiply-add reads two factors and an addend."""


class Banks(NamedTuple):
    """The banks of an SM's registers: register r is in bank r modulo `banks`, which gives `words` registers a clock."""

    banks: int
    words: int


VOLTA, MAXWELL = Banks(2, 2), Banks(4, 1)
"""Two banks of 64 bits since Volta, and four of 32 bits before."""


def read_clocks(registers: Collection[int], file: Banks = VOLTA) -> int:
    """Clocks in which an instruction reads its source registers; a register that it reads twice counts once.

    Raises an ArgumentValueError for what is no register, and for more of them than an instruction reads.
    """
    if len(registers) > MOST_SOURCES:
        raise ArgumentValueError(
            f"registers={list(registers)} are more than an instruction reads: give {MOST_SOURCES} at most"
        )
    for register in registers:
        if not 0 <= register < 255:
            raise ArgumentValueError(f"register={register} is none: give 0 to 254")
    asked = Counter(register % file.banks for register in set(registers))
    return max((ceil_div(count, file.words) for count in asked.values()), default=0)


def mix_clocks(chip: AnyChip, fp32: int, int32: int) -> int:
    """Clocks in which a quarter of an SM executes so many instructions of warps on fp32 and on integers.

    Both units work side by side, and the scheduler issues one instruction a clock. Raises an ArgumentValueError for
    numbers out of range.
    """
    _require_counts(fp32, int32)
    return max(fp32 + int32, fp32 * _warp_clocks(chip, "fp32"), int32 * _warp_clocks(chip, "int32"))


def shared_clocks(chip: AnyChip, fp32: int, int32: int) -> int:
    """The same if one unit did both, with as many lanes as the chip has for fp32, as GPUs before Volta have it."""
    _require_counts(fp32, int32)
    return (fp32 + int32) * _warp_clocks(chip, "fp32")


def _require_counts(fp32: int, int32: int) -> None:
    for name, count in (("fp32", fp32), ("int32", int32)):
        natural(name, count, 0, MOST_COUNTED)


def _warp_clocks(chip: AnyChip, operands: str) -> int:
    """Clocks of a warp's instruction on the CUDA cores of a quarter of an SM."""
    (lanes,) = (
        rate.macs / QUARTERS for rate in chip_of(chip).rates if (rate.unit, rate.operands) == ("CUDA cores", operands)
    )
    return int(WARP / lanes)
