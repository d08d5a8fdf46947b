"""What each rung on a warp's tensor cores shows, as the emulator counts it; every number is derived, none copied.

Eight rows of 16 bytes are what a warp reads of SMEM in one pass, if they cover the 32 banks. A fragment of A or B,
16x16 elements of 2 bytes, takes four passes.
"""

from functools import cache

import numpy as np
import pytest

import tilewright as tw
from support.lines import counts_at
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.ladder.warp_tensor_cores import MmaWarpConfig

M, N, K = 128, 256, 128

BLOCKS = (M // 16) * (N // 16) * (K // 16)
"""Products of 16x16x16."""


@cache
def count(kernel, dtype="float16", config=None):
    """The counters of one M x N x K product."""
    backend = EmulatedBackend(count_memory=True)
    a, b = (np.ones(shape, tw.dtypes.parse(dtype, "dtype").numpy_dtype) for shape in ((M, K), (K, N)))
    plan = tw.plan(a, b, kernel=kernel, config=config, backend=backend)
    assert (plan(a, b) == K).all()
    return plan.counters


def passes_per_access(counts, kind="ld"):
    """Passes of the banks for each that is needed."""
    passes = counts.shared_wavefronts[kind]
    return passes / (passes - counts.shared_conflicts[kind])


# ---------------------------------------------------------------- GMEM


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_wmma_reads_half_of_each_sector_of_gmem(dtype):
    """A warp reads 8 rows of 16 bytes at once, which lie in 8 sectors of 32, and each product loads both blocks."""
    counters = count("wmma_gmem", dtype)
    for load in ("wmma_load_a(", "wmma_load_b("):
        counts = counts_at(counters, "ladder/wmma_gmem.cuh", load)
        assert counts.global_requests == {"ld": 4 * BLOCKS}
        assert counts.sectors_per_request == {"ld": 8}
    assert counters.tensor_flops == 2 * M * N * K


@pytest.mark.parametrize("kernel", ["wmma_smem", "wmma_padded", "mma_smem", "mma_swizzled"])
def test_tiles_are_read_once_from_gmem(kernel):
    """A once for each 128 columns of out, B once for each 128 rows; every byte of every sector is used."""
    counters = count(kernel)
    assert 32 * counters.global_sectors["ld"] == 2 * (M * K * (N // 128) + K * N * (M // 128))
    assert counters.sectors_per_request["ld"] == 16  # 16 bytes a lane


def test_one_warp_reads_its_blocks_for_itself():
    """Of A 16 rows of 32 bytes, one sector each, and of B 16 rows of 16 bytes, half a sector each."""
    counters, header = count("mma_warp"), "ladder/mma_warp.cuh"
    for line in ("copy_chunk(smem_a", "copy_chunk(smem_b"):
        counts = counts_at(counters, header, line)
        assert counts.global_requests == {"ld": 2 * BLOCKS}
        assert counts.sectors_per_request == {"ld": 16}


# ---------------------------------------------------------------- SMEM


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("kernel", "passes"), [("wmma_smem", 8), ("wmma_padded", 1)])
def test_padding_ends_the_bank_conflicts_of_wmma(kernel, passes, dtype):
    """Rows of 128 or 256 bytes all start in bank 0: 8 passes for 8 rows. 16 bytes more, and each starts 4 banks on.

    A warp of 4x2 blocks loads 4 + 2 fragments for 8 products.
    """
    counters = count(kernel, dtype)
    for line, fragments in (("wmma_load_a(a[i]", BLOCKS * 4 // 8), ("wmma_load_b(b[j]", BLOCKS * 2 // 8)):
        counts = counts_at(counters, "ladder/wmma_smem.cuh", line)
        assert counts.shared_wavefronts == {"ld": fragments * 4 * passes}
        assert passes_per_access(counts) == passes


@pytest.mark.parametrize(
    ("kernel", "passes_a", "passes_b"),
    [
        ("mma_warp", 2, 1),  # rows of 32 bytes: 4 of them go round the banks; rows of 16 bytes: 8 do
        ("mma_smem", 4, 8),  # 64 bytes: 2; 256 bytes: 1
        ("mma_swizzled", 1, 1),  # chunks that a matrix has below each other differ in their place modulo 8
    ],
)
def test_the_bank_conflicts_of_ldmatrix(kernel, passes_a, passes_b):
    counters = count(kernel)
    load_b = "m8n8.x2.trans" if kernel == "mma_warp" else "m8n8.x4.trans"
    assert passes_per_access(counts_at(counters, "ptx/ldmatrix.cuh", "m8n8.x4.shared"), "ldmatrix") == passes_a
    assert passes_per_access(counts_at(counters, "ptx/ldmatrix.cuh", load_b), "ldmatrix") == passes_b


@pytest.mark.parametrize("kernel", ["wmma_padded", "mma_swizzled"])
def test_no_line_has_bank_conflicts_where_that_is_the_idea(kernel):
    """Neither copies nor fragments nor the way of out through SMEM."""
    assert not any(count(kernel).shared_conflicts.values())


def test_larger_blocks_of_a_warp_read_less_smem():
    """Bytes read for each 16x16x16 product: 512 of A and 256 of B for half of it; (4 + 4) * 512 for 16 of them."""
    for kernel, for_each in (("mma_warp", 2 * 512 + 2 * 256), ("mma_smem", 8 * 512 // 16), ("mma_swizzled", 256)):
        counters = count(kernel)
        ideal = counters.shared_wavefronts["ldmatrix"] - counters.shared_conflicts["ldmatrix"]
        assert ideal * 128 == BLOCKS * for_each


# ---------------------------------------------------------------- out, and sums in fp16


def test_stmatrix_makes_whole_rows_of_out():
    """16 bytes a lane, 16 sectors; from fragments a store writes 8 rows of 16 bytes, half a sector each."""
    swizzled, plain = count("mma_swizzled"), count("mma_smem")
    assert swizzled.sectors_per_request["st"] == 16
    assert 32 * swizzled.global_sectors["st"] == 2 * M * N
    assert 32 * plain.global_sectors["st"] == 2 * 2 * M * N
    assert swizzled.shared_requests["stmatrix"] == M * N // 256


def test_mma_warp_adds_in_the_type_that_its_config_names():
    for accumulator in ("fp32", "fp16"):
        kinds = count("mma_warp", config=MmaWarpConfig(accumulator)).tensor_instructions
        assert kinds == {f"mma.m16n8k16.f{accumulator[2:]}.f16.f16": 2 * BLOCKS}


def test_sums_in_fp16_are_for_fp16():
    a, b = (np.ones(shape, tw.dtypes.bf16.numpy_dtype) for shape in ((16, 16), (16, 8)))
    with pytest.raises(tw.ConfigError, match="bf16 in fp32 only: take accumulator='fp32'"):
        tw.plan(a, b, kernel="mma_warp", config=MmaWarpConfig("fp16"), backend=EmulatedBackend())
