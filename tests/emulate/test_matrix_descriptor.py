"""Matrix descriptors of wgmma against the canonical layouts, written as plain loops."""

import itertools

import numpy as np
import pytest

from tilewright.emulator.semantics.matrix_descriptor import MatrixDescriptor, operand_chunks, operand_extent

SPANS = [0, 32, 64, 128]
XOR_MASK = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def canonical_offset(major, span, leading, stride, mn, k):
    """Byte offset, swizzle apart, of the 16-bit element (mn, k) in the canonical layouts; T = 8 elements."""
    if major == "k":
        if span == 0:  # ((8, m), (T, 2)) : ((T, SBO), (1, LBO))
            return mn % 8 * 16 + mn // 8 * stride + k % 8 * 2 + k // 8 * leading
        # ((8, m), (T, 2)) : ((span, SBO), (1, T))
        return mn % 8 * span + mn // 8 * stride + k * 2
    if span == 0:  # ((T, 1, m), (8, k)) : ((1, T, SBO), (T, LBO))
        return mn % 8 * 2 + mn // 8 * stride + k % 8 * 16 + k // 8 * leading
    # ((T, span / 16, m), (8, k)) : ((1, T, LBO), (span, SBO))
    return mn % (span // 2) * 2 + mn // (span // 2) * leading + k % 8 * span + k // 8 * stride


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("major", ["k", "mn"])
def test_a_descriptor_reads_the_canonical_layout(major, span):
    rows, start, leading, stride = 72, 0x2020, 0x6480, 0x1A80
    shared = np.random.default_rng(0).integers(0, 256, 1 << 18, dtype=np.uint8)
    chunks = operand_chunks(MatrixDescriptor(start, leading, stride, span).encode(), rows, major)
    operand = shared.reshape(-1, 16)[chunks].view(np.uint16).reshape((rows, 16) if major == "k" else (16, rows))
    touched = []
    for mn, k in itertools.product(range(rows), range(16)):
        address = start + canonical_offset(major, span, leading, stride, mn, k)
        address ^= address >> 3 & XOR_MASK[span]
        touched.append(address)
        assert operand[(mn, k) if major == "k" else (k, mn)] == shared.view(np.uint16)[address // 2]
    extent = operand_extent(MatrixDescriptor(start, leading, stride, span).encode(), rows, major)
    assert extent == (min(touched), max(touched) + 1)


@pytest.mark.parametrize(("mode", "span"), [(0, 0), (1, 128), (2, 64), (3, 32)])
def test_descriptor_fields_are_those_of_the_ptx_isa(mode, span):
    bits = 0x1234 | 0x0567 << 16 | 0x089A << 32 | mode << 62
    assert MatrixDescriptor.decode(bits) == MatrixDescriptor(0x12340, 0x5670, 0x89A0, span)
    assert MatrixDescriptor.decode(bits).encode() == bits
    with pytest.raises(ValueError, match="base offset 3"):
        MatrixDescriptor.decode(bits | 3 << 49)
