"""A histogram: each program counts its part, and adds the counts to those of all."""

import triton
import triton.language as tl


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr, BINS: tl.constexpr, NO_ATOMIC: tl.constexpr = False):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, mask=place < n, other=0)
    own = tl.histogram(values, BINS, mask=place < n)
    bins = counts + tl.arange(0, BINS)
    if NO_ATOMIC:
        tl.store(bins, tl.load(bins) + own)  # reported: NO_ATOMIC
    else:
        tl.atomic_add(bins, own, sem="relaxed")
