"""Codes of fp8 that Triton converts four at a time, one in each thread: the other three have no value."""

import triton
import triton.language as tl


@triton.jit
def float8_e4b15(codes, halves, again, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.load(codes + at).to(tl.float8e4b15, bitcast=True).to(tl.float16)
    tl.store(halves + at, values)
    tl.store(again + at, tl.load(halves + at).to(tl.float8e4b15).to(tl.uint8, bitcast=True))
