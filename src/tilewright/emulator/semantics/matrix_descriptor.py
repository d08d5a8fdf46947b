"""The places of a wgmma operand's elements in shared memory, from its 64-bit matrix descriptor.

A descriptor holds, from bit 0 (PTX ISA, "Matrix Descriptor Format" of wgmma):

    63 62 | 61 .. 52 | 51 .. 49 | 48 46 | 45 .. 32 | 31 30 | 29 .. 16 | 15 14 | 13 .. 0
    swizzle          | base     |       | stride   |       | leading  |       | start
                     | offset   |       | offset   |       | offset   |       | address

The last three are bytes >> 4; swizzle is 0 for none, 1 for 128, 2 for 64 and 3 for 32 bytes. The layouts
below are made of 16-byte chunks; LBO and SBO are the leading and the stride dimension byte offset, and `span`
the bytes of the swizzle, which at last permutes the chunks by their address bits.

K-major (rows of A and of B transposed are contiguous along k; one wgmma takes two chunks of each row):

    no swizzle                                  swizzle
              k chunk 0      k chunk 1                    k chunk 0, 1
    rows 0-7  [8 x 16 B] LBO [8 x 16 B]         rows 0-7  [8 x span bytes, chunk 1 next to chunk 0]
       SBO                                         SBO
    rows 8-15 [8 x 16 B]     [8 x 16 B]         rows 8-15 [8 x span bytes]

MN-major (elements are contiguous along m or n, here called mn; 16-bit elements only, so 16 steps of k):

    no swizzle                                  swizzle, P = span / 16 chunks (64 elements for 128 bytes)
              k 0-7          k 8-15                            k 0-7              k 8-15
    mn chunk 0 [8 x 16 B] LBO [8 x 16 B]        mn chunks 0..P-1  [8 x span bytes] SBO [8 x span bytes]
       SBO                                         LBO
    mn chunk 1 [8 x 16 B]     [8 x 16 B]        mn chunks P..2P-1 [8 x span bytes]     [8 x span bytes]

where each [8 x ...] is contiguous, its 8 lines being rows of the operand for K-major and steps of k for
MN-major.

Sources: PTX ISA, "Strides" and "Shared Memory Matrix Layout" of wgmma; the canonical layouts documented in
CUTLASS, include/cute/atom/mma_traits_sm90_gmma.hpp.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.swizzle import swizzle

Major = Literal["k", "mn"]
"""The dimension along which an operand is contiguous in shared memory."""

_SPAN_OF_MODE = (0, 128, 64, 32)


@dataclass(frozen=True)
class MatrixDescriptor:
    """A decoded descriptor: an address in the CTA's shared memory, offsets and the swizzle span, in bytes."""

    start: int
    leading_offset: int
    stride_offset: int
    swizzle: int

    @classmethod
    def decode(cls, bits: int) -> "MatrixDescriptor":
        """Decode 64 bits. Raises ValueError for a base offset; aligned operands need none."""
        base_offset = bits >> 49 & 7
        if base_offset:
            raise ValueError(
                f"matrix descriptor {bits:#018x} has base offset {base_offset}, which is not supported: "
                "align the operand to the period of its swizzle (1024 bytes for the 128-byte swizzle)"
            )
        return cls(
            (bits & 0x3FFF) << 4,
            (bits >> 16 & 0x3FFF) << 4,
            (bits >> 32 & 0x3FFF) << 4,
            _SPAN_OF_MODE[bits >> 62 & 3],
        )

    def encode(self) -> int:
        """The 64 bits that decode to this."""
        return (
            self.start >> 4
            | self.leading_offset >> 4 << 16
            | self.stride_offset >> 4 << 32
            | _SPAN_OF_MODE.index(self.swizzle) << 62
        )


@lru_cache(maxsize=4096)
def operand_chunks(bits: int, rows: int, major: Major) -> npt.NDArray[np.int64]:
    """Indices, in 16-byte chunks of the CTA's shared memory, of the operand that one wgmma reads.

    bits: the descriptor.
    rows: the operand's extent in m or n, a multiple of 8.

    Returns shape (rows, 2), as (row, k chunk), for K-major and (16, rows // 8), as (k, mn chunk), for
    MN-major; either way the chunks in order are a C-ordered matrix. The array is cached and read-only.
    Raises ValueError as MatrixDescriptor.decode.
    """
    d = MatrixDescriptor.decode(bits)
    if major == "k":
        row, chunk = np.ogrid[:rows, :2]
        row_pitch, chunk_pitch = (d.swizzle, 16) if d.swizzle else (16, d.leading_offset)
        address = row // 8 * d.stride_offset + row % 8 * row_pitch + chunk * chunk_pitch
    else:
        k, chunk = np.ogrid[:16, : rows // 8]
        if d.swizzle:
            atom, within = np.divmod(chunk, d.swizzle // 16)
            address = atom * d.leading_offset + within * 16 + k // 8 * d.stride_offset + k % 8 * d.swizzle
        else:
            address = chunk * d.stride_offset + k // 8 * d.leading_offset + k % 8 * 16
    chunks: npt.NDArray[np.int64] = swizzle(d.start + address.astype(np.int64), d.swizzle) >> 4
    chunks.flags.writeable = False
    return chunks


def operand_extent(bits: int, rows: int, major: Major) -> tuple[int, int]:
    """The lowest and the highest byte of the CTA's shared memory that operand_chunks reaches for the same arguments."""
    chunks = operand_chunks(bits, rows, major)
    return 16 * int(chunks.min()), 16 * int(chunks.max()) + 15
