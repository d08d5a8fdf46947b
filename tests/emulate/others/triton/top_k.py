"""The largest K values of each row in order, with their columns, sorted as keys of value and column."""

import triton
import triton.language as tl


@triton.jit
def top_k(x, values, columns, width, WIDTH: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    value = tl.load(x + row * width + column, mask=column < width, other=-32768)
    key = (value.to(tl.int32) << 16) | (WIDTH - 1 - column)
    best = tl.topk(key, K)
    at = tl.arange(0, K)
    tl.store(values + row * K + at, (best >> 16).to(tl.int16))
    tl.store(columns + row * K + at, WIDTH - 1 - (best & 65535))


@triton.jit
def sort_rows(x, out, width, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    value = tl.load(x + row * width + column, mask=column < width, other=float("inf"))
    tl.store(out + row * width + column, tl.sort(value), mask=column < width)
