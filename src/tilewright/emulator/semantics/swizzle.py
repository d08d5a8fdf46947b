"""The shared-memory swizzle that TMA and wgmma share.

A swizzle permutes 16-byte chunks by XORing bits 4..6 of a shared-memory address with bits 7..9. It acts on the address
itself and not on the offset in a tile, so advancing a tile's address within a row keeps the row readable (PTX ISA,
"Swizzling Modes" of tensors and "Shared Memory Matrix Layout" of wgmma):

    span 128:  bits 4-6 ^= bits 7-9
    span  64:  bits 4-5 ^= bits 7-8
    span  32:  bit  4   ^= bit  7
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

SWIZZLE_SPANS = (0, 32, 64, 128)
"""Bytes within which a swizzle permutes 16-byte chunks, by CUtensorMapSwizzle; 0 means no swizzle."""

SWIZZLE_PERIOD = 1024
"""Bytes after which every swizzle pattern repeats."""

CHUNK = np.dtype(np.complex128)
"""A 16-byte chunk: the swizzle keeps it whole, and NumPy moves an element of this type as one."""

Address = TypeVar("Address", int, npt.NDArray[np.int64])


def swizzle(address: Address, span: int) -> Address:
    """The place of the byte with the linear CTA-relative shared address `address` under the swizzle `span`.

    The function is its own inverse. `span` is one of SWIZZLE_SPANS.
    """
    chunk_bits = max(span - 16, 0)
    return address ^ ((address >> 3) & chunk_bits)
