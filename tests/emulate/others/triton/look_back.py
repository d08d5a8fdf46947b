"""A prefix sum in one pass: a program waits for the sum of all before it, and publishes its own for the next."""

import triton
import triton.language as tl


@triton.jit
def prefix_sum(x, out, sums, flags, n, BLOCK: tl.constexpr, RELAXED: tl.constexpr = False):
    block = tl.program_id(0)
    place = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, mask=place < n, other=0)
    before = 0
    if block > 0:
        if RELAXED:
            while tl.atomic_add(flags + block - 1, 0, sem="relaxed") == 0:
                pass
        else:
            while tl.atomic_add(flags + block - 1, 0, sem="acquire") == 0:
                pass
        before = tl.load(sums + block - 1)  # reported: RELAXED
    tl.store(sums + block, before + tl.sum(values, 0))
    tl.atomic_xchg(flags + block, 1, sem="release")
    tl.store(out + place, before + tl.cumsum(values, 0), mask=place < n)
