"""Attention, backward: a program owns a tile of keys and values, and adds its part of dq with atomics."""

import triton
import triton.language as tl


@triton.jit
def attention_backward(
    q, k, v, d_out, log_sums, deltas, dq, dk, dv, rows, scale, HEAD: tl.constexpr, TILE_Q: tl.constexpr,
    TILE_K: tl.constexpr, NO_ATOMIC: tl.constexpr = False,
):  # fmt: skip
    key = tl.program_id(0) * TILE_K + tl.arange(0, TILE_K)
    column = tl.arange(0, HEAD)
    keys = tl.load(k + key[:, None] * HEAD + column[None, :])
    values = tl.load(v + key[:, None] * HEAD + column[None, :])
    sum_k = tl.zeros((TILE_K, HEAD), tl.float32)
    sum_v = tl.zeros((TILE_K, HEAD), tl.float32)
    for start in range(0, rows, TILE_Q):
        row = start + tl.arange(0, TILE_Q)
        queries = tl.load(q + row[:, None] * HEAD + column[None, :])
        of_out = tl.load(d_out + row[:, None] * HEAD + column[None, :])
        log_sum = tl.load(log_sums + row)
        delta = tl.load(deltas + row)
        weights = tl.exp2(tl.dot(keys, queries.T) * scale - log_sum[None, :])
        sum_v = tl.dot(weights.to(tl.float16), of_out, sum_v)
        of_weights = tl.dot(values, of_out.T)
        of_scores = (weights * (of_weights - delta[None, :])).to(tl.float16)
        sum_k = tl.dot(of_scores, queries, sum_k)
        where = dq + row[:, None] * HEAD + column[None, :]
        part = tl.dot(of_scores.T, keys)
        if NO_ATOMIC:
            tl.store(where, tl.load(where) + part)  # reported: NO_ATOMIC
        else:
            tl.atomic_add(where, part, sem="relaxed")
    tl.store(dk + key[:, None] * HEAD + column[None, :], sum_k)
    tl.store(dv + key[:, None] * HEAD + column[None, :], sum_v)
