"""The traffic that the model gives each kernel's blocks, against what the emulator counts."""

from functools import cache

import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp32
from tilewright.hardware import H200
from tilewright.kernels.ladder.cuda_cores import RUNGS as CUDA_CORES
from tilewright.kernels.ladder.hopper import RUNGS as HOPPER
from tilewright.kernels.ladder.warp_tensor_cores import RUNGS as WARPS
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.model.tiling.levels import levels

M, N, K = 256, 512, 128

PRODUCTION = {
    "wgmma": WgmmaConfig(cluster_m=2, stages=3),
    "mma": MmaConfig(warps_n=4),
    "simt": SimtConfig(tile_m=64, tile_n=64, warp_m=32, thread_n=4),
}
BY_TMA = [rung.kernel.name for rung in HOPPER]
IN_SMEM = ["smem_tiles", "register_tiles", "warp_tiles", "simt", "wmma_padded", "mma_smem", "mma_swizzled", "mma"]
"""Kernels whose warps load SMEM."""


@cache
def counted(name):
    """The counters and the model's levels of a product in whole tiles."""
    backend = EmulatedBackend(count_memory=True)
    kernel = next(rung.kernel for rung in (*CUDA_CORES, *WARPS, *HOPPER) if rung.kernel.name == name)
    dtype = fp32 if kernel.unit == "cuda_cores" else bf16
    a, b = np.ones((M, K), dtype.numpy_dtype), np.ones((K, N), dtype.numpy_dtype)
    if kernel.unit == "wgmma":
        b = np.ascontiguousarray(b.T).T
    plan = tw.plan(a, b, kernel=name, config=PRODUCTION.get(name), backend=backend)
    out, counters = plan.counted(a, b)
    assert (out == K).all()
    constants = kernel.check(plan.config, plan.problem, plan.backend.hardware)
    found = levels(M, N, K, kernel.blocking(constants), dtype.nbytes, dtype.nbytes)
    return counters, {level.name: level for level in found}


@pytest.mark.parametrize("name", BY_TMA)
def test_what_tma_and_wgmma_read(name):
    counters, model = counted(name)
    assert counters.tma_read_bytes == model["L2"].read_bytes
    assert counters.wgmma_read_bytes == model["SMEM"].read_bytes
    assert "registers" not in model


@pytest.mark.parametrize("name", IN_SMEM)
def test_what_ctas_read_from_l2(name):
    counters, model = counted(name)
    assert 32 * counters.global_sectors["ld"] == model["L2"].read_bytes


@pytest.mark.parametrize(("name", "steps_ahead"), [("mma_smem", 0), ("mma_swizzled", 0), ("mma", 1)])
def test_what_ldmatrix_reads(name, steps_ahead):
    """`mma` loads fragments a step ahead, also behind the last of its 8 steps of 16."""
    counters, model = counted(name)
    passes = counters.shared_wavefronts["ldmatrix"] - counters.shared_conflicts["ldmatrix"]
    assert 128 * passes * 8 == model["SMEM"].read_bytes * (8 + steps_ahead)


@pytest.mark.parametrize("name", ["smem_tiles", "register_tiles", "warp_tiles", "simt"])
def test_a_pass_over_the_banks_delivers_128_bytes_at_most(name):
    """The lanes of a warp ask for few different words at a time, so passes are more than bytes alone would need."""
    counters, model = counted(name)
    passes = counters.shared_wavefronts["ld"] - counters.shared_conflicts["ld"]
    assert model["SMEM"].read_bytes < 128 * passes <= model["registers"].read_bytes


def test_the_square_block_of_a_thread_does_most_for_a_word():
    assert counted("register_tiles")[1]["registers"].fma_per_word == 4
    assert counted("smem_tiles")[1]["registers"].fma_per_word == 0.5


def test_copies_of_boxes_move_what_their_tensor_maps_say():
    """wgmma_basic copies a box of A and one of B for each 64 x 64 tile and each 64 of k."""
    counters, _ = counted("wgmma_basic")
    kernel = next(rung.kernel for rung in HOPPER if rung.kernel.name == "wgmma_basic")
    problem = Product(M, N, K, bf16, bf16).problem
    maps = [spec.model for spec in kernel.assemble(kernel.best(problem, H200), problem, H200).arguments.tensor_maps]
    copies = (M // 64) * (N // 64) * (K // 64)
    assert counters.tma_loaded_bytes == copies * sum(each.box_bytes for each in maps)
    assert counters.tma_read_bytes == copies * sum(each.box_sectors for each in maps) * 32
