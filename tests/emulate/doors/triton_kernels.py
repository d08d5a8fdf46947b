"""Kernels for the tests of Triton's door; they are in a module of their own since it imports Triton."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit
def add_beyond(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i), i < n)  # the loads lack their mask: line 20


@triton.heuristics({"EVEN": lambda of: of["n"] % of["BLOCK"] == 0})
@triton.jit
def with_heuristics(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i))
    else:
        tl.store(out + i, -tl.load(x + i, i < n), i < n)


autotuned = triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["out"]
)(with_heuristics)


@triton.jit
def multiply(a, b, c, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    m, n = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(tl.cdiv(K, STEP)):
        total = tl.dot(a.load([m, step * STEP]), b.load([n, step * STEP]).T, total)
    c.store([m, n], total.to(tl.float16))


@triton.jit
def double(a, out, rows, columns, TILE: tl.constexpr):
    read = tl.make_tensor_descriptor(a, shape=[rows, columns], strides=[columns, 1], block_shape=[TILE, TILE])
    write = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[TILE, TILE])
    m, n = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    write.store([m, n], read.load([m, n]) * 2)


@triton.jit
def mixed(x, factor, negate, pair, nothing, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + pair[0] + i) * factor
    if negate:
        value = -value
    tl.store(x + pair[1] + i, value)


@triton.jit
def copies(pair, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(pair[1] + i, tl.load(pair[0] + i))


def plain(x):
    return x + 1


@triton.jit
def calls_plain(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), plain(1.0))


@triton.jit
def adds_a_string(x):
    return x + "a"


@triton.jit
def calls_a_wrong_one(x, N: tl.constexpr):
    tl.static_assert(N > 3, "N is too small")
    tl.store(x + tl.arange(0, N), adds_a_string(1.0))


wrong_heuristics = triton.heuristics({"EVEN": lambda of: of["none"]})(with_heuristics)
