"""What kernels refuse before anything is compiled: sizes, layouts, and Configs of wrong types."""

import re
from dataclasses import fields, replace

import pytest

import tilewright
from tilewright.dtypes import bf16, fp32
from tilewright.hardware import A100, H200
from tilewright.jit.source import package_headers
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.tiled import MAX_EXTENT
from tilewright.kernels.wgmma_config import WgmmaConfig
from tilewright.problem import ACTIVATIONS, OPERANDS, Epilogue, Matrix, Problem


def product(dtype, m=64, n=64, k=64, batch=()):
    strides = (0,) * len(batch)
    a, b, out = (Matrix(dtype, max(columns, 8), 1, strides) for columns in (k, n, n))
    return Problem(m, n, k, a, b, out, batch)


def dtype_of(kernel):
    return fp32 if kernel.name == "simt" else bf16


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("extent", ["m", "n", "k", "batch"])
def test_extents_leave_room_for_the_last_tile(kernel, extent):
    def refusal(size):
        sizes = {extent: (size,) if extent == "batch" else size}
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
    KERNELS["simt"].check(tall, replace(product(fp32), a=Matrix(fp32, 65, 1, alignment=4), b=Matrix(fp32, 65, 1)), H200)
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
    assert KERNELS["wgmma"].refuses(replace(product(bf16), **changes), H200).avoidable


@pytest.mark.parametrize(
    ("problem", "hardware", "reason"),
    [
        (product(fp32), H200, "wgmma multiplies bf16 by bf16 or fp16 by fp16, and a is fp32"),
        (product(bf16), A100, "wgmma needs sm_90a"),
        (product(bf16, k=0), H200, "wgmma needs at least one product to sum"),
    ],
)
def test_what_no_layout_would_change_could_not(problem, hardware, reason):
    refusal = KERNELS["wgmma"].refuses(problem, hardware)
    assert refusal.reason.startswith(reason)
    assert not refusal.avoidable


@pytest.mark.parametrize("config", [MmaConfig(), SimtConfig(), WgmmaConfig()], ids=lambda config: type(config).__name__)
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
    wgmma, problem, small = KERNELS["wgmma"], product(bf16, 512, 512, 512), replace(H200, sm_count=1)
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
    problem = replace(product(bf16), epilogue=Epilogue(activation=activation))
    functor = KERNELS["mma"].constants(MmaConfig(), problem).epilogue.Activation.spelling
    assert f"struct {functor} {{" in package_headers()["epilogue/activation.cuh"]


def test_cuda_has_the_operands_in_the_order_of_the_table():
    declared = re.findall(r"^  MatrixParameters (\w+);", package_headers()["parameters.cuh"], re.MULTILINE)
    assert tuple(declared) == OPERANDS
