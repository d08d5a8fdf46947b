"""Compile matrix products with Triton, which needs no GPU, and write their PTX, gzipped, into a folder.

    python tools/compile_triton_ptx.py tests/emulate/ptx

The emulator's tests use them as PTX from another compiler. Triton is not a dependency of this project.
"""

import gzip
import sys
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, stride_a, stride_b, stride_c,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """C = A B of row-major float16 matrices, tiles in groups of rows."""
    number = tl.program_id(axis=0)
    per_group = GROUP * tl.cdiv(N, TILE_N)
    first = number // per_group * GROUP
    rows = min(tl.cdiv(M, TILE_M) - first, GROUP)
    tile_m, tile_n = first + number % per_group % rows, number % per_group // rows
    m, n, k = tl.arange(0, TILE_M), tl.arange(0, TILE_N), tl.arange(0, TILE_K)
    a_tile = a + ((tile_m * TILE_M + m) % M)[:, None] * stride_a + k[None, :]
    b_tile = b + k[:, None] * stride_b + ((tile_n * TILE_N + n) % N)[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, TILE_K)):
        left = K - step * TILE_K
        total = tl.dot(
            tl.load(a_tile, mask=k[None, :] < left, other=0.0),
            tl.load(b_tile, mask=k[:, None] < left, other=0.0),
            total,
        )
        a_tile += TILE_K
        b_tile += TILE_K * stride_b
    m, n = tile_m * TILE_M + m, tile_n * TILE_N + n
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + stride_c * m[:, None] + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def matmul_tma(a, b, c, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    """C = A B^T of tensor descriptors."""
    number, tiles_m = tl.program_id(axis=0), tl.cdiv(M, TILE_M)
    m, n = number % tiles_m * TILE_M, number // tiles_m * TILE_N
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, TILE_K)):
        total = tl.dot(a.load([m, step * TILE_K]), b.load([n, step * TILE_K]).T, total)
    c.store([m, n], total.to(tl.float16))


def compile_ptx(kernel: Any, types: dict[str, str], constants: dict[str, int], architecture: int, warps: int) -> str:
    """The PTX of a kernel; `types` are those of its arguments, except constants."""
    divisible = {(index,): [["tt.divisibility", 16]] for index in range(9)} if kernel is matmul_kernel else {}
    signature = types | dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)
    target = GPUTarget("cuda", architecture, 32)
    compiled = triton.compile(source, target=target, options={"num_warps": warps, "num_stages": 3})
    return str(compiled.asm["ptx"])


def main(folder: str) -> None:
    """Write all files."""
    sizes = dict.fromkeys(("M", "N", "K"), "i32")
    pointers = {**dict.fromkeys("abc", "*fp16"), **sizes, **dict.fromkeys(("stride_a", "stride_b", "stride_c"), "i32")}
    descriptors = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[128,64]>", "c": "tensordesc<fp16[128,128]>"}
    texts = {}
    for architecture in (80, 90):
        for warps, tile_m, tile_k in ((4, 64, 32), (8, 128, 64)):
            constants = {"TILE_M": tile_m, "TILE_N": 128, "TILE_K": tile_k, "GROUP": 8}
            texts[f"sm{architecture}_{warps}_warps"] = compile_ptx(
                matmul_kernel, pointers, constants, architecture, warps
            )
    constants = {"TILE_M": 128, "TILE_N": 128, "TILE_K": 64}
    texts["sm90_tma"] = compile_ptx(matmul_tma, descriptors | sizes, constants, 90, 8)
    for name, text in texts.items():
        path = Path(folder) / f"triton_{name}.ptx.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
