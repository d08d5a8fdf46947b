"""What each rung on a warp's tensor cores shows, as the emulator counts it; every number is derived, none copied.

Eight rows of 16 bytes are what a warp reads of SMEM in one pass, if they cover the 32 banks. A fragment of A or B,
16x16 elements of 2 bytes, takes four passes.
"""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.lines import counts_at
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.ladder.warp_tensor_cores import MmaWarpConfig
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.model.volta.feeding import quad_pairs

M, N, K = 128, 256, 128

BLOCKS = (M // 16) * (N // 16) * (K // 16)
"""Products of 16x16x16."""


@cache
def count(kernel, dtype="float16", config=None):
    """The counters of one M x N x K product."""
    backend = EmulatedBackend(count_memory=True)
    a, b = (np.ones(shape, tw.dtypes.parse(dtype, "dtype").numpy_dtype) for shape in ((M, K), (K, N)))
    if EVERY_KERNEL[kernel].layout[0] == "t":
        a = np.asfortranarray(a)
    plan = tw.plan(a, b, kernel=kernel, config=config, backend=backend)
    out, counters = plan.counted(a, b)
    assert (out == K).all()
    return counters


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


@pytest.mark.parametrize("kernel", ["wmma_smem", "wmma_padded", "mma_smem", "mma_swizzled", "sparse_mma"])
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


@pytest.mark.parametrize("kernel", ["wmma_padded", "mma_swizzled", "volta_mma", "sparse_mma"])
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


# ---------------------------------------------------------------- quad pairs


def test_permuted_chunks_are_stored_and_loaded_without_conflicts():
    """16 bytes a lane, 8 lanes a pass: of a store 8 chunks of one row, of a load 2 chunks of each of 4 rows.

    A chunk is 4 banks wide, and rows of 128 or 256 halves go 2 or 4 times round the 32: unpermuted, chunk c of any row
    starts in bank 4 (c % 8). Stores of 8 neighbors would be free of conflicts, but of a load the 4 rows' chunks would
    share their banks, and take 4 passes. Permuted, neither does: bytes / 128 passes of stores; of loads 4 passes for
    each of the 2 + 2 that a warp needs for 64 x 64 x 4.
    """
    counters, header = count("volta_mma"), "ladder/volta_mma.cuh"
    stored = counts_at(counters, header, "store_shared(tile + PermutedRows")
    assert stored.shared_wavefronts == {"st": 2 * (M * K * (N // 256) + K * N * (M // 128)) // 128}
    warps, modeled = (M // 64) * (N // 64), quad_pairs()
    assert modeled.wavefronts == 2 * (32 // 4) * 2 * 4  # of A and B in a tile
    for line in ("load_shared(a[i]", "load_shared(b[j]"):
        loaded = counts_at(counters, header, line)
        assert loaded.shared_requests == {"ld": warps * (K // 4) * 2}
        assert loaded.shared_wavefronts == {"ld": warps * (K // 32) * modeled.wavefronts // 2}
    assert not any(counters.shared_conflicts.values())


def test_volta_multiplies_8x8x4_in_each_quad_pair():
    counters = count("volta_mma")
    assert counters.tensor_instructions == {"mma.m8n8k4.f32.f16.f16": M * N * K // (8 * 8 * 4)}
    assert counters.sectors_per_request["ld"] == 16  # 16 bytes a lane
    assert 32 * counters.global_sectors["ld"] == 2 * (M * K * (N // 256) + K * N * (M // 128))
    assert counters.barrier_waits == 8 * (K // 32)  # 8 warps, one barrier a tile


# ---------------------------------------------------------------- two of four


def draw(seed, shape, dtype, zeros):
    """Integers from -4 to 4; about this share of them is zero."""
    numbers = np.random.default_rng(seed)
    values = numbers.integers(1, 5, shape) * numbers.choice((-1, 1), shape)
    return np.where(numbers.random(shape) < zeros, 0, values).astype(tw.dtypes.parse(dtype, "dtype").numpy_dtype)


def two_of_four(dtype="float16"):
    """A matrix A whose groups of four have two non-zeros each, in any two places."""
    a = draw(1, (M, K), dtype, 0)
    order = np.random.default_rng(2).random((M, K // 4, 4)).argsort(axis=2).reshape(M, K)
    return np.where(order < 2, a, 0).astype(a.dtype)


def multiply_sparse(a, b):
    """The product in fp32, and how many instructions it took."""
    plan = tw.plan(a, b, out_dtype="float32", kernel="sparse_mma", backend=EmulatedBackend())
    out, counters = plan.counted(a, b)
    return out, sum(counters.tensor_instructions.values())


DENSE = 2 * BLOCKS
"""m16n8k16 that a product takes, those of mma_swizzled; mma.sp goes twice as deep."""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_of_four_take_half_the_instructions_and_any_other_a_is_right_too(dtype):
    assert sum(count("mma_swizzled", dtype).tensor_instructions.values()) == DENSE
    b = draw(3, (K, N), dtype, 0.1)
    for a, instructions in (
        (two_of_four(dtype), DENSE // 2),
        (np.negative(two_of_four(dtype)), DENSE // 2),  # with -0
        (draw(4, (M, K), dtype, 0), DENSE),  # no zeros: each half of each block
        (draw(5, (M, K), dtype, 0.5), DENSE),  # every pattern of zeros; a block without any group of 3 is unlikely
    ):
        out, taken = multiply_sparse(a, b)
        assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()
        assert taken == instructions


def test_one_group_of_three_costs_the_second_product_of_its_block():
    """16 rows by 32 of k, multiplied by N columns."""
    a, b = two_of_four(), draw(3, (K, N), "float16", 0)
    row, group = 37, slice(44, 48)
    a[row, group] = 1, 0, 2, 3
    out, taken = multiply_sparse(a, b)
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert taken == DENSE // 2 + N // 8


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_nan_and_infinity_under_zeros_of_a(odd, dtype):
    """Zero times such a number is NaN. Its tile of B, 32 of k by 128 columns, takes the dense instruction."""
    a, b = two_of_four(dtype), draw(3, (K, N), dtype, 0)
    b[45, 130] = odd
    out, taken = multiply_sparse(a, b)
    column = np.where(a[:, 45] < 0, -odd, np.where(a[:, 45] > 0, odd, np.nan))
    np.testing.assert_array_equal(out[:, 130], column)
    assert np.isfinite(np.delete(out, 130, axis=1)).all()
    assert taken == DENSE // 2 + (M // 16) * (128 // 8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_largest_number_is_no_infinity(dtype):
    a, b = two_of_four(dtype), draw(3, (K, N), dtype, 0)
    b[::7] = np.array([-1, 1] * (N // 2), np.float32) * np.float32(ml_dtypes.finfo(b.dtype).max)
    assert multiply_sparse(a, b)[1] == DENSE // 2
