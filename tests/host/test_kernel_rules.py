"""What kernels refuse before anything is compiled: sizes, layouts, and Configs of wrong types."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest

import tilewright
from tilewright.dtypes import bf16, fp32
from tilewright.hardware import A100, H200
from tilewright.jit.source import package_headers
from tilewright.kernels import tma
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.refusal import MAX_EXTENT
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig, ring_of
from tilewright.problem import ACTIVATIONS, OPERANDS, Epilogue, Matrix, Problem
from tilewright.rounding import round_up


def product(dtype, m=64, n=64, k=64, batch=()):
    strides = (0,) * len(batch)
    a, b, out = (Matrix(dtype, max(columns, 8), 1, strides) for columns in (k, n, n))
    return Problem(m, n, k, a, b, out, batch)


def dtype_of(kernel):
    return fp32 if kernel.name == "simt" else bf16


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("extent", ["m", "n", "k", "batch"])
def test_extents_leave_room_for_the_last_tile(kernel, extent):
    is_copy = kernel.name == "copy"
    if is_copy and extent == "k":
        return

    def refusal(size):
        sizes = {"k": 0 if is_copy else 64} | {extent: (size,) if extent == "batch" else size}
        return kernel.refuses(product(dtype_of(kernel), **sizes), H200)

    assert refusal(MAX_EXTENT) is None
    assert f"is {MAX_EXTENT + 8} and at most {MAX_EXTENT} is counted: split" in refusal(MAX_EXTENT + 8).reason
    assert not refusal(MAX_EXTENT + 8).avoidable


def test_no_tile_is_larger_than_the_room_for_the_last():
    # simt: two buffers of at least 8 elements of 4 bytes a row. mma: three stages of at least 32 elements of 2 bytes.
    row_bytes = min(2 * 8 * 4, 3 * 32 * 2)
    most_rows = max(gpu.smem_bytes for gpu in (A100, H200)) // row_bytes
    assert MAX_EXTENT - 1 + most_rows < 2**31
    tall = SimtConfig(tile_m=1024, tile_n=32, tile_k=8, warp_m=128, thread_n=16)
    KERNELS["simt"].check(tall, product(fp32)._replace(a=Matrix(fp32, 65, 1, alignment=4), b=Matrix(fp32, 65, 1)), H200)
    assert MAX_EXTENT - 1 + tall.tile_m < 2**31


@pytest.mark.parametrize(
    "changes",
    [
        {"a": Matrix(bf16, 64, 1, alignment=8)},
        {"a": Matrix(bf16, 65, 1)},
        {"b": Matrix(bf16, 64, 2)},
        {"b": Matrix(bf16, -64, 1)},
    ],
)
def test_what_tma_cannot_address_could_be_avoided(changes):
    assert KERNELS["wgmma"].refuses(product(bf16)._replace(**changes), H200).avoidable


@pytest.mark.parametrize(
    ("problem", "hardware", "reason"),
    [
        (product(fp32), H200, "wgmma multiplies bf16, fp16 and int8 by themselves, and fp8, and a is fp32"),
        (product(bf16), A100, "wgmma needs sm_90a"),
        (product(bf16, k=0), H200, "wgmma needs at least one product to sum"),
    ],
)
def test_what_no_layout_would_change_could_not(problem, hardware, reason):
    refusal = KERNELS["wgmma"].refuses(problem, hardware)
    assert refusal.reason.startswith(reason)
    assert not refusal.avoidable


@pytest.mark.parametrize(
    "config", [MmaConfig(), SimtConfig(), WgmmaConfig(), CopyConfig()], ids=lambda config: type(config).__name__
)
def test_config_fields_of_another_type_are_refused_by_name(config):
    (kernel,) = (kernel for kernel in KERNELS.values() if kernel.config_type is type(config))
    problem = product(dtype_of(kernel))
    kernel.check(config, problem, H200)
    for field in fields(config):
        right = getattr(config, field.name)
        wanted = type(right).__name__
        for wrong in (float(right) if wanted != "str" else 4, str(right) if wanted != "str" else None, right == right):
            if type(wrong) is type(right):
                continue
            message = f"{field.name}={wrong!r} of type {type(wrong).__name__}, and {field.name} is of type {wanted}"
            with pytest.raises(ConfigError, match="convert it") as refusal:
                kernel.check(replace(config, **{field.name: wrong}), problem, H200)
            assert message in str(refusal.value)


@pytest.mark.parametrize("kernel", EVERY_KERNEL.values(), ids=EVERY_KERNEL)
def test_a_config_that_is_asked_for_has_a_public_name(kernel):
    dtype = kernel.inputs[0] if isinstance(kernel, LadderKernel) else dtype_of(kernel)
    with pytest.raises(ConfigError, match=f"kernel '{kernel.name}' takes") as refusal:
        kernel.check(object(), product(dtype), H200)
    if fields(kernel.config_type):
        assert f"pass tilewright.{kernel.config_type.__name__}(...)" in str(refusal.value)
        assert getattr(tilewright, kernel.config_type.__name__) is kernel.config_type
    else:
        assert "nothing to choose, so leave config out" in str(refusal.value)


def test_clusters_larger_than_the_gpu_are_no_candidates_and_are_refused():
    wgmma, problem, small = KERNELS["wgmma"], product(bf16, 512, 512, 512), H200._replace(sm_count=1)
    configs = wgmma.configs(problem, small)
    assert configs
    assert all(wgmma.assemble(config, problem, small).shape.grid == 1 for config in configs)
    with pytest.raises(ConfigError, match=r"clusters of 2 CTAs.* H200 has 1: take smaller clusters"):
        wgmma.check(WgmmaConfig(cluster_m=2), problem, small)


def test_more_tiles_than_a_grid_has_are_refused():
    problem = product(bf16, m=17, n=1, k=1, batch=(2**31 - 5000,))
    config = MmaConfig(tile_m=16, tile_n=16, tile_k=32, stages=3, warps_m=1, warps_n=1)
    with pytest.raises(ConfigError, match=r"4294957296 tiles and at most 2147483647 .* larger tiles"):
        KERNELS["mma"].check(config, problem, H200)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_every_activation_is_a_type_of_the_epilogue(activation):
    problem = product(bf16)._replace(epilogue=Epilogue(activation=activation))
    functor = KERNELS["mma"].constants(MmaConfig(), problem).epilogue.Activation.spelling
    assert f"struct {functor} {{" in package_headers()["epilogue/activation.cuh"]


def test_cuda_has_the_operands_in_the_order_of_the_table():
    declared = re.findall(r"^  MatrixParameters (\w+);", package_headers()["parameters.cuh"], re.MULTILINE)
    assert tuple(declared) == OPERANDS


def test_mma_copies_columns_of_a_stacked_b_in_pairs():
    """Three warps would copy three rows of b's tile at a time, 4 bytes a thread."""
    a, b = np.zeros((64, 64), np.float16), np.zeros((130, 66), np.float16)[:, :64].T

    def planned(config):
        return tilewright.plan(
            a, b, gate="stacked", epilogue="silu(x) * y", kernel="mma", config=config, backend="emulator"
        )

    with pytest.raises(ConfigError, match=r"b_threads_per_row.*take an even number of warps"):
        planned(MmaConfig(96, 96, 64, 3, 1, 3))
    assert planned(MmaConfig(64, 64, 64, 3)).config == MmaConfig(64, 64, 64, 3)


def test_each_cta_that_splits_k_needs_a_k_block():
    wgmma, config = KERNELS["wgmma"], WgmmaConfig(128, 64, split_k=4, overlap=False)
    wgmma.check(config, product(bf16, k=3 * 64 + 1), H200)
    with pytest.raises(ConfigError, match=r"splits k into 4 parts and .* has 3 k-blocks of 64: take a smaller split_k"):
        wgmma.check(config, product(bf16, k=3 * 64), H200)


def test_the_k_blocks_of_a_cta_are_counted_in_32_bits():
    """Operands that are broadcast along a long batch take little memory for any number of k-blocks."""
    wgmma, config, k_blocks = KERNELS["wgmma"], WgmmaConfig(64, 8, 2, epilogue="direct"), 2**14
    tiles = H200.sm_count * ((2**31 - 1) // k_blocks)
    wgmma.check(config, product(bf16, k=64 * k_blocks, n=8, batch=(tiles,)), H200)
    with pytest.raises(ConfigError, match=r"gives each CTA 2147483648 k-blocks .* split the product"):
        wgmma.check(config, product(bf16, k=64 * k_blocks, n=8, batch=(tiles + 1,)), H200)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"group_m": 0}, "group_m=0: tiles are walked in bands of 1 to 64 rows"),
        ({"group_m": 65}, "group_m=65: tiles are walked in bands of 1 to 64 rows"),
        ({"prefetch": -1}, "up to 64 k-blocks are brought to L2 ahead"),
        ({"prefetch": 65}, "up to 64 k-blocks are brought to L2 ahead"),
    ],
)
def test_limits_of_what_is_passed_to_a_launch(changes, reason):
    with pytest.raises(ConfigError, match=reason):
        KERNELS["wgmma"].check(WgmmaConfig(**changes), product(bf16), H200)


def test_a_grid_that_waits_for_the_one_ahead_may_start_before_its_end():
    def shape(name, config, dtype, gpu=H200):
        return KERNELS[name].assemble(config, product(dtype), gpu).shape

    assert shape("wgmma", WgmmaConfig(), bf16).dependent
    for name, config, dtype in (("mma", MmaConfig(), bf16), ("simt", SimtConfig(), fp32)):
        assert shape(name, config, dtype).dependent
        assert shape(name, config, dtype).keeps_l1
        assert not shape(name, config, dtype, A100).dependent


@pytest.mark.parametrize(
    ("config", "mn_major", "smem_bytes"),
    [
        # stages * (A + B + 2 mbarriers), then for a warp two boxes of 16 x 64
        (WgmmaConfig(128, 256, 4), (False, False), 4 * (16384 + 32768 + 16) + 8 * 2 * 2048),
        (WgmmaConfig(64, 256, 2, tile_k=128), (False, False), 2 * (2 * (8192 + 32768) + 16) + 4 * 2 * 2048),
        # tiles along m or n come in panels of 64
        (WgmmaConfig(192, 40, 3, epilogue="direct"), (True, True), 3 * (24576 + 8192 + 16)),
        (WgmmaConfig(192, 40, 3, epilogue="direct"), (False, False), 3 * (24576 + 5120 + 16)),
        # those of all columns of the first row block of two: three of 64, one of 200, three of 32
        (WgmmaConfig(256, 192, 3), (False, False), 3 * (32768 + 24576 + 16) + 8 * 3 * 2048),
        (WgmmaConfig(256, 200, 3), (False, False), 3 * (32768 + 25600 + 16) + 8 * 6400),
        (WgmmaConfig(256, 96, 3), (False, False), 3 * (32768 + 12288 + 16) + 8 * 3 * 1024),
        # one of all columns, which neither 64 nor 32 divides
        (WgmmaConfig(128, 40, 2), (False, False), 2 * (16384 + 5120 + 16) + 8 * 1280),
        # three senders' sums of 128 x 16, an mbarrier, and a box of 16 x 16
        (WgmmaConfig(128, 64, 2, split_k=4), (False, False), 2 * (16384 + 8192 + 16) + 8 * 512 + 3 * 8192 + 8),
    ],
)
def test_shared_memory_by_hand(config, mn_major, smem_bytes):
    assert ring_of(config, *mn_major).smem_bytes == round_up(smem_bytes, 1024)


@pytest.mark.parametrize("smem_bytes", [101_376, 232_448])
@pytest.mark.parametrize(("stage_bytes", "staging_bytes"), [(16_384, 0), (49_152, 8_200), (24_600, 65_536)])
def test_a_ring_has_as_many_stages_as_fit(smem_bytes, stage_bytes, staging_bytes):
    stages = tma.ring_stages(smem_bytes, stage_bytes, staging_bytes)
    assert tma.ring_bytes(stages, stage_bytes, staging_bytes) <= smem_bytes
    assert tma.ring_bytes(stages + 1, stage_bytes, staging_bytes) > smem_bytes
