"""Puts operands of wgmma where its descriptors expect them."""

import numpy as np

from tilewright.emulator.semantics.matrix_descriptor import MatrixDescriptor
from tilewright.emulator.semantics.tensor_map import TensorMap
from tilewright.emulator.semantics.tma import load_tile

SPANS = [0, 32, 64, 128]


def place_operand(shared, base, address, matrix, major, span):
    """TMA-load matrix (rows, K) to `address` of the CTA at `base`, as many boxes as its swizzle needs.

    Returns a function giving the descriptor of the 32 bytes of K from column k on.
    """
    size = matrix.itemsize
    tensor = np.ascontiguousarray(matrix if major == "k" else matrix.T)
    width = (span or 16) // size  # elements of a box along the contiguous dimension
    other, contiguous = tensor.shape
    box_bytes = width * other * size
    assert box_bytes % 128 == 0
    arena = tensor.reshape(-1).view(np.uint8)
    tensor_map = TensorMap(4096, f"u{8 * size}", (contiguous, other), (contiguous * size,), (width, other), span)
    for i in range(-(-contiguous // width)):
        place = address + i * box_bytes
        load_tile(arena, 4096, tensor_map, (i * width, 0), shared, base + place, place)

    def descriptor(k):
        if major == "k":
            start = address + k // width * box_bytes + k % width * size
            leading, stride = box_bytes, 8 * (span or 16)
        else:
            start = address + k * width * size
            leading, stride = (box_bytes, 8 * span) if span else (8 * 16, box_bytes)
        return MatrixDescriptor(start, leading, stride, span).encode()

    return descriptor
