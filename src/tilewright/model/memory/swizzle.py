"""Swizzles of SMEM, bit by bit.

Swizzle<B, M, S> takes B bits of an offset from bit M + S on, and XORs them into the B bits from bit M on. All other
bits stay. With M = 4, whole chunks of 16 bytes change places; with S = 3, the bits above those of a row of 128 bytes,
which is all 32 banks, decide how. So rows are permuted differently, and a column of chunks meets all banks.

    offset     A B C D E F G H  I J K L M N O P      bit 15 ... bit 0
    128 bytes              G H  I W Y Z              W Y Z = J K L xor G H I
     64 bytes                H  I   Y Z                Y Z =   K L xor   H I
     32 bytes                   I     Z                  Z =     L xor     I

The names are CuTe's (include/cute/swizzle.hpp). The spans are those of TMA and wgmma (PTX ISA, "Swizzling Modes").
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.rounding import integers, natural

Offset = TypeVar("Offset", int, npt.NDArray[np.int64])

CHUNK_BYTES = 16
"""What a swizzle of TMA keeps whole: the bytes that a lane accesses at once."""
PATTERN_BYTES = 1 << 16
"""The longest period of which a pattern shows all bits."""
_LETTERS = "ABCDEFGHIJKLMNOP"
"""The names of the bits 15 to 0."""
_FLIPPED = "WYZ"
"""The names of the bits that a swizzle of TMA may flip, 6 to 4."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The application of a swizzle to an offset, as CuTe does it: every value that it computes on the way.

    bit_mask: B ones. source_mask: these at the bits that decide (CuTe: yyy_msk). masked: these bits of the offset.
    shifted: the same bits where they are applied. result: offset xor shifted.
    """

    offset: int
    bit_mask: int
    source_mask: int
    masked: int
    shifted: int
    result: int


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Swizzle<bits, base, shift>: `bits` bits from `base` on are XORed with those that lie `shift` higher.

    Raises an ArgumentValueError unless all three are natural numbers with bits <= shift, as a swizzle must not decide
    by bits that it changes.
    """

    bits: int
    base: int = 4
    shift: int = 3

    def __post_init__(self) -> None:
        whole = len(integers((self.bits, self.base, self.shift))) == 3
        if (
            not whole
            or min(self.bits, self.base, self.shift) < 0
            or self.bits > self.shift
            or self.base + self.shift > 32
        ):
            raise ArgumentValueError(
                f"{self} is no swizzle: give 0 <= B <= S and M >= 0, such as 3,4,3 for 128 bytes, 2,4,3 for 64 and "
                "1,4,3 for 32"
            )

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>"

    def __call__(self, offset: Offset) -> Offset:
        """Where the byte at `offset` is put, in bytes from a place that is aligned to the period; its own inverse."""
        return offset ^ ((offset & self.source_mask) >> self.shift)

    @property
    def bit_mask(self) -> int:
        """B ones."""
        return (1 << self.bits) - 1

    @property
    def source_mask(self) -> int:
        """The bits of an offset that decide."""
        return self.bit_mask << (self.base + self.shift)

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats, to which a tile is aligned."""
        return 1 << (self.base + self.shift + self.bits)

    @property
    def span(self) -> int:
        """Bytes within which the pattern permutes."""
        return 1 << (self.base + self.bits)

    def steps(self, offset: int) -> Steps:
        """How the place of one offset is computed. Raises an ArgumentValueError for a negative one."""
        natural("offset", offset)
        masked = offset & self.source_mask
        return Steps(offset, self.bit_mask, self.source_mask, masked, masked >> self.shift, self(offset))

    def pattern(self) -> str:
        """Which of the 16 low bits matter: their letters where they decide, W, Y, Z where they change, x elsewhere.

        Only swizzles within the bits of TMA's have letters for what changes; others have lower-case ones.
        """
        shown = []
        for bit in range(15, -1, -1):
            letter = _LETTERS[15 - bit]
            if self.base <= bit < self.base + self.bits:
                shown.append(_FLIPPED[6 - bit] if 4 <= bit <= 6 else letter.lower())
            else:
                shown.append(letter if self.source_mask >> bit & 1 else "x")
        return "".join(shown[:8]) + "_" + "".join(shown[8:])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": str(self),
            "bit_mask": self.bit_mask,
            "source_mask": self.source_mask,
            "pattern": self.pattern(),
            "span": self.span,
            "period": self.period,
        }


SWIZZLES = {128: Swizzle(3), 64: Swizzle(2), 32: Swizzle(1)}
"""The swizzles of TMA and wgmma by their span in bytes."""


def swizzle_of(span: int) -> Swizzle:
    """The swizzle of a span of TMA. Raises an ArgumentValueError that lists the spans."""
    if span not in SWIZZLES:
        raise ArgumentValueError(f"span={span} is no swizzle of TMA: use {', '.join(map(str, SWIZZLES))} bytes")
    return SWIZZLES[span]


def chunks_of_column(swizzle: Swizzle, rows: int = 8) -> list[int]:
    """Where column 0 of a tile lies: for each of its rows, as long as the span, the chunk among the eight of all banks.

    Eight different numbers mean that eight lanes read the column in one pass.
    """
    natural("rows", rows, 1, PATTERN_BYTES)
    places = swizzle(np.arange(rows, dtype=np.int64) * swizzle.span)
    return [int(chunk) for chunk in places // CHUNK_BYTES % 8]
