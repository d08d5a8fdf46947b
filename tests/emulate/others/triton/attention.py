"""Causal attention, forward: one pass over the keys with a running maximum and sum."""

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, out, log_sums, rows, scale, HEAD: tl.constexpr, TILE_Q: tl.constexpr, TILE_K: tl.constexpr):
    begin = tl.program_id(1) * rows
    row = tl.program_id(0) * TILE_Q + tl.arange(0, TILE_Q)
    column = tl.arange(0, HEAD)
    queries = tl.load(q + (begin + row)[:, None] * HEAD + column[None, :], mask=row[:, None] < rows, other=0.0)
    highest = tl.full((TILE_Q,), float("-inf"), tl.float32)
    total = tl.zeros((TILE_Q,), tl.float32)
    result = tl.zeros((TILE_Q, HEAD), tl.float32)
    for start in range(0, tl.minimum((tl.program_id(0) + 1) * TILE_Q, rows), TILE_K):
        key = start + tl.arange(0, TILE_K)
        keys = tl.load(k + (begin + key)[None, :] * HEAD + column[:, None], mask=key[None, :] < rows, other=0.0)
        values = tl.load(v + (begin + key)[:, None] * HEAD + column[None, :], mask=key[:, None] < rows, other=0.0)
        scores = tl.where(key[None, :] <= row[:, None], tl.dot(queries, keys) * scale, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        total = total * shrink + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), values, result * shrink[:, None])
        highest = higher
    tl.store(log_sums + begin + row, highest + tl.log2(total), mask=row < rows)
    result = result / total[:, None]
    tl.store(out + (begin + row)[:, None] * HEAD + column[None, :], result.to(tl.float16), mask=row[:, None] < rows)
