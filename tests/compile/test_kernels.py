"""Every registered kernel through NVRTC: what is built of it fits in registers, and no rule of a Config can be broken.

By default each problem is built with the usual Config, and the first problem with all of them; TILEWRIGHT_TESTS=all
builds every Config of every problem, for each GPU.
"""

import os
import re
from dataclasses import replace
from operator import attrgetter

import pytest

from tilewright.dtypes import DType, bf16, fp8_e4m3, fp8_e5m2, fp16, fp32, int8, int32
from tilewright.expression.grammar import parse
from tilewright.expression.tree import SCALES, ZERO
from tilewright.hardware import A100, H200
from tilewright.jit.cache import build
from tilewright.jit.compile import CompilationError, compile
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.ladder.hopper import ScheduleConfig
from tilewright.kernels.ladder.warp_tensor_cores import MmaWarpConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.parameters import SAME_PARAMETERS
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner.copies import copied
from tilewright.problem import Epilogue, Matrix, Problem

EVERYTHING = os.environ.get("TILEWRIGHT_TESTS") == "all"


def problem(layout: str, dtype: DType, out: DType, alignment: int = 16, k: int = 264, **epilogue) -> Problem:
    """A 1000x520xk product whose rows are aligned to `alignment` bytes and to no more."""
    m, n = 1000, 520
    pad = alignment // dtype.nbytes if alignment < 16 else 0

    def stored(rows: int, columns: int, transposed: bool) -> Matrix:
        strides = (1, rows + pad) if transposed else (columns + pad, 1)
        return Matrix(dtype, *strides, alignment=alignment)

    a, b = stored(m, k, layout[0] == "t"), stored(k, n, layout[1] == "t")
    return Problem(m, n, k, a, b, Matrix(out, n, 1), epilogue=Epilogue(**epilogue))


def addend(dtype: DType) -> Matrix:
    return Matrix(dtype, 520, 1)


ROW = Matrix(fp32, 0, 1)
"""A bias along n."""

SCALED = {
    "expression": parse("gelu(acc)", ())._replace(operands=SCALES, recipe="row"),
    "operands": (Matrix(fp32, 1, 0), ROW),
}
"""An epilogue with a scale of each row and of each column."""

BY_TILE = {
    "expression": parse("acc", ())._replace(operands=SCALES, recipe="1x128_128x128"),
    "operands": (Matrix(fp32, 1, 1000), Matrix(fp32, 5, 1)),
}
BY_COLUMN = {
    "expression": parse("gelu(acc)", ())._replace(operands=SCALES, recipe="1x128_1x128"),
    "operands": (Matrix(fp32, 3, 1), Matrix(fp32, 520, 1)),
}
"""Epilogues with scales of blocks."""

SUMMED = {
    "expression": parse("gelu(acc + row)", ("row",))._replace(outputs=("amax", "column_sums")),
    "operands": (ROW,),
    "outputs": (Matrix(fp32, 0, 0), Matrix(fp32, 0, 1)),
}
"""An epilogue that sums columns."""

STACKED = problem("nn", bf16, bf16, expression=parse("silu(x) * y", (), "stacked"))
STACKED = STACKED._replace(n=512, out=Matrix(bf16, 256, 1))
SINGLE_PAIRS = problem("nt", fp32, fp32, expression=parse("silu(x) * y", (), "stacked"))
SINGLE_PAIRS = SINGLE_PAIRS._replace(
    n=512, k=511, a=Matrix(fp32, 511, 1), b=Matrix(fp32, 1, 511), out=Matrix(fp32, 256, 1)
)
"""A product of which two columns far apart become one, with b contiguous along n."""

STACKED_BY_TILE = problem(
    "nt",
    fp8_e4m3,
    bf16,
    k=272,
    expression=parse("silu(x) * y", (), "stacked")._replace(operands=SCALES, recipe="1x128_128x128"),
    operands=BY_TILE["operands"],
)
STACKED_BY_TILE = STACKED_BY_TILE._replace(n=512, out=Matrix(bf16, 256, 1))
"""The same of scales of blocks."""

PROBLEMS = (
    problem("nt", bf16, bf16),
    problem("nn", bf16, fp32, bias=ROW, activation="gelu"),
    problem("tn", fp16, fp16, c=addend(fp16), activation="relu"),
    problem("tt", fp16, bf16, c=addend(bf16), bias=ROW, activation="gelu_tanh"),
    problem("nt", bf16, bf16, alignment=8, activation="silu"),
    problem("nn", bf16, bf16, alignment=4, c=addend(fp32), bias=ROW),
    problem("nn", fp16, fp32, alignment=2, c=addend(fp16), bias=ROW, activation="gelu"),
    problem("tn", bf16, bf16, alignment=2),
    problem("nn", fp32, fp32),
    problem("tt", fp32, fp32, c=addend(fp32), bias=ROW, activation="gelu"),
    problem("nt", fp32, bf16, alignment=4, activation="gelu_tanh"),
    problem("tn", fp32, fp32, alignment=4, c=addend(fp16)),
    problem("nt", bf16, bf16, **SUMMED),
    problem("nn", fp32, fp32, **SUMMED),
    STACKED,
    problem("nt", int8, int32, k=272),
    problem("nt", int8, bf16, k=272, **SCALED),
    problem("nt", fp8_e4m3, bf16, k=272),
    problem("nt", fp8_e4m3, fp32, k=272, **SCALED),
    problem("nt", fp8_e5m2, bf16, k=272, **SCALED)._replace(fast_accumulation=True),
    problem("nt", fp8_e4m3, bf16, k=272, **BY_TILE),
    problem("nt", fp8_e4m3, bf16, k=272, **BY_COLUMN),
)


def units():
    """(kernel, config, problem, GPU) of all that is built here."""
    for kernel in KERNELS.values():
        for gpu in (H200, A100):
            taken = [each for each in PROBLEMS if kernel.refuses(each, gpu) is None]
            for each in taken:
                configs = kernel.configs(each, gpu)
                every = EVERYTHING or (each is taken[0] and gpu is H200)
                if every or gpu is H200 or each is taken[-1]:
                    for config in configs if every else configs[:1]:
                        name = f"{kernel.entry(config, each)}-{gpu.arch}-{PROBLEMS.index(each)}"
                        yield pytest.param(kernel, config, each, gpu, id=name)


@pytest.mark.parametrize("kernel", [each for each in KERNELS.values() if each.name != "copy"], ids=attrgetter("name"))
def test_the_emulator_runs_the_ptx_of_what_the_gpu_runs(kernel):
    product = next(each for each in PROBLEMS if kernel.refuses(each, H200) is None)
    unit = kernel.assemble(kernel.configs(product, H200)[0], product, H200).source
    # One in ten runs of NVRTC orders simt's loads of SMEM in another way, for either architecture.
    emulated, real = set(), set()
    for _ in range(8):
        emulated.add(compile(unit, H200.virtual_arch).ptx)
        real.add(compile(unit, H200.arch).ptx)
        if emulated & real:
            break
    assert emulated & real


@pytest.mark.parametrize(("kernel", "config", "product", "gpu"), list(units()))
def test_unit_fits_in_registers(kernel, config, product, gpu, record_property):
    launch = kernel.assemble(config, product, gpu)
    compiled = build(launch.source, gpu.arch)
    for name in ("registers", "spill_bytes", "stack_bytes", "static_smem_bytes"):
        record_property(name, getattr(compiled, name))
    assert compiled.spill_bytes == 0
    assert compiled.warnings == ()
    assert compiled.registers * launch.shape.block <= 65536


LARGE_TILES = (
    (BY_TILE, 256, 128, True),
    (BY_TILE, 256, 128, False),
    (BY_TILE, 128, 160, True),
    (BY_TILE, 128, 192, True),
    (BY_COLUMN, 256, 80, True),
    (BY_COLUMN, 256, 96, True),
    (BY_COLUMN, 256, 112, False),
    (BY_COLUMN, 128, 160, True),
    (BY_COLUMN, 192, 56, False),
)
"""The largest that leave registers for scales of blocks, and maybe for a row block that is held back."""


@pytest.mark.parametrize(("epilogue", "tile_m", "tile_n", "overlap"), LARGE_TILES)
def test_sums_products_and_scales_of_blocks_fit_in_registers(epilogue, tile_m, tile_n, overlap):
    how = "tma" if overlap else "direct"
    config = WgmmaConfig(tile_m, tile_n, 2, tile_k=128, cluster_m=2, epilogue=how, overlap=overlap)
    product = problem("nt", fp8_e4m3, bf16, k=272, **epilogue)
    compiled = build(KERNELS["wgmma"].assemble(config, product, H200).source, H200.arch)
    assert (compiled.spill_bytes, compiled.stack_bytes, compiled.warnings) == (0, 0, ())


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("epilogue", [SCALED, BY_TILE, BY_COLUMN], ids=["row", "1x128_128x128", "1x128_1x128"])
def test_products_of_two_k_blocks_fit_in_registers(epilogue, overlap):
    how = "tma" if overlap else "direct"
    config = WgmmaConfig(128, 128, 2, tile_k=128, wait_depth=1, epilogue=how, overlap=overlap)
    product = problem("nt", fp8_e4m3, bf16, k=272, **epilogue)
    compiled = build(KERNELS["wgmma"].assemble(config, product, H200).source, H200.arch)
    assert (compiled.spill_bytes, compiled.stack_bytes, compiled.warnings) == (0, 0, ())


@pytest.mark.parametrize(("out", "swap_ab"), [(bf16, False), (bf16, True), (fp32, False)])
def test_sums_that_zero_points_shift_fit_in_registers(out, swap_ab):
    expression = parse("acc", [])._replace(operands=(*SCALES, ZERO), recipe="row")
    operands = Matrix(fp32, 1, 0), Matrix(fp32, 0, 1), Matrix(int32, 1, 0)
    product = problem("nt", int8, out, k=272, expression=expression, operands=operands)
    taken = copied(product, KERNELS["wgmma"], H200)
    config = WgmmaConfig(128, 128, 4, tile_k=128, epilogue="direct", overlap=False, wait_depth=1, swap_ab=swap_ab)
    for launch in (KERNELS["wgmma"].assemble(config, taken.problem, H200), *taken.launches(H200)):
        compiled = build(launch.source, H200.arch)
        assert (compiled.spill_bytes, compiled.stack_bytes, compiled.warnings) == (0, 0, ())


HALF = problem("nt", bf16, bf16)
HALF_MN = problem("tn", bf16, bf16)
HALF_ODD = problem("nt", bf16, bf16, alignment=2)
SINGLE = problem("nt", fp32, fp32)
SINGLE_MN = problem("tn", fp32, fp32)
SUMLESS = HALF._replace(k=0)

GATED = HALF._replace(
    out=Matrix(bf16, HALF.n // 2, 1), epilogue=Epilogue(expression=parse("silu(x) * y", (), "interleaved"))
)
"""A product of which two columns become one."""

ILLEGAL = {
    **{
        name: ((HALF, replace(kernel.configs(HALF, H200)[0], schedule="zigzag")),)
        for name, kernel in EVERY_KERNEL.items()
        if issubclass(kernel.config_type, ScheduleConfig)
    },
    "copy": (
        (SUMLESS, CopyConfig(tile_m=12)),
        (SUMLESS, CopyConfig(tile_n=96)),
        (SUMLESS, CopyConfig(tile_m=0)),
        (SUMLESS, CopyConfig(tile_m=264, tile_n=64)),
    ),
    "gemv": (
        (HALF, GemvConfig(k_parts=3)),
        (problem("nn", bf16, bf16), GemvConfig(tile_m=8, tile_n=64, k_parts=2)),
        (HALF, GemvConfig(tile_m=3, k_parts=2)),
        (HALF, GemvConfig(tile_m=24)),
        (HALF, GemvConfig(tile_n=9)),
        (HALF, GemvConfig(warps=0)),
        (HALF, GemvConfig(ctas=0)),
        (HALF, GemvConfig(in_flight=0)),
        (HALF, GemvConfig(tile_m=16, tile_n=8, k_parts=8)),
        (HALF, GemvConfig(split_k=3)),
        (HALF, GemvConfig(tile_n=2, split_k=8)),
    ),
    "mma_warp": ((HALF, MmaWarpConfig("fp64")), (HALF, MmaWarpConfig("fp16"))),
    "wgmma": (
        (HALF, WgmmaConfig(tile_m=32)),
        (HALF, WgmmaConfig(tile_m=320, stages=2)),
        (HALF, WgmmaConfig(tile_n=260)),
        (HALF, WgmmaConfig(tile_m=256, tile_n=216, stages=2, epilogue="direct", overlap=False)),
        (HALF, WgmmaConfig(tile_m=192, tile_n=200, stages=2, epilogue="direct")),
        (HALF, WgmmaConfig(tile_k=96)),
        (HALF, WgmmaConfig(tile_k=320)),
        (problem("nt", int8, bf16, k=272), WgmmaConfig(tile_n=40, tile_k=128, epilogue="direct")),
        (problem("nt", fp8_e4m3, bf16, k=272), WgmmaConfig(tile_n=64, tile_k=256, stages=2)),
        (problem("nt", fp8_e4m3, bf16, k=272, **BY_TILE), WgmmaConfig(tile_n=176, tile_k=128)),
        (problem("nt", fp8_e4m3, bf16, k=272, **BY_COLUMN), WgmmaConfig(256, 128, tile_k=128)),
        (problem("nt", fp8_e4m3, bf16, k=272), WgmmaConfig(256, 64, tile_k=128, wait_depth=1)),
        (HALF, WgmmaConfig(split_k=0)),
        (HALF, WgmmaConfig(tile_n=144, split_k=9, overlap=False)),
        (HALF, WgmmaConfig(split_k=4, cluster_m=2, cluster_n=2, overlap=False)),
        (HALF, WgmmaConfig(tile_n=24, split_k=2, epilogue="direct", overlap=False)),
        (STACKED, WgmmaConfig(tile_n=64, split_k=2, epilogue="direct", overlap=False)),
        (HALF, WgmmaConfig(stages=1)),
        (HALF, WgmmaConfig(cluster_m=3)),
        (HALF, WgmmaConfig(cluster_n=3)),
        (HALF, WgmmaConfig(cluster_m=4, cluster_n=2)),
        (HALF, WgmmaConfig(epilogue="none")),
        (problem("nt", bf16, fp32), WgmmaConfig(overlap=False)),
        (HALF._replace(out=Matrix(bf16, 1042, 2)), WgmmaConfig()),
        (HALF, WgmmaConfig(swap_ab=True)),
        (problem("nt", bf16, fp32), WgmmaConfig(epilogue="direct")),
        (HALF, WgmmaConfig(split_k=2)),
        (HALF, WgmmaConfig(tile_m=320, tile_n=64, overlap=False, ping_pong=True)),
        (HALF, WgmmaConfig(tile_n=64, ping_pong=True)),
        (HALF, WgmmaConfig(wait_depth=2)),
        (GATED, WgmmaConfig(tile_n=64)),
        (GATED, WgmmaConfig(tile_n=24, epilogue="direct")),
        (STACKED, WgmmaConfig(tile_n=64, epilogue="direct")),
        (STACKED_BY_TILE, WgmmaConfig(tile_n=96, tile_k=128, epilogue="direct")),
    ),
    "mma": (
        (problem("nt", fp8_e4m3, bf16, k=272, **BY_TILE), MmaConfig(tile_k=64)),
        (HALF, MmaConfig(tile_k=16)),
        (HALF, MmaConfig(tile_k=48)),
        (HALF, MmaConfig(stages=2)),
        (HALF, MmaConfig(warps_m=0)),
        (HALF, MmaConfig(tile_m=1024, tile_n=1024, warps_m=8, warps_n=8)),
        (HALF, MmaConfig(tile_m=100)),
        (HALF, MmaConfig(tile_m=16)),
        (HALF, MmaConfig(tile_n=24, warps_n=1)),
        (HALF, MmaConfig(tile_m=256)),
        (HALF_MN, MmaConfig(tile_m=96)),
        (HALF_MN, MmaConfig(tile_n=96)),
        (HALF_MN, MmaConfig(tile_m=192, tile_n=64)),
        (HALF_MN, MmaConfig(tile_n=192, tile_m=64)),
        (HALF, MmaConfig(tile_m=32, tile_n=64)),
        (HALF, MmaConfig(tile_m=64, tile_n=32)),
        (
            problem("nt", bf16, bf16, alignment=4, expression=parse("silu(x) * y", (), "stacked")),
            MmaConfig(tile_m=96, tile_n=96, tile_k=64, stages=3, warps_m=1, warps_n=3),
        ),
        (HALF, MmaConfig(group_m=0)),
    ),
    "simt": (
        (SINGLE, SimtConfig(tile_k=12)),
        (SINGLE, SimtConfig(tile_m=48, warp_m=48)),
        (SINGLE, SimtConfig(tile_n=0)),
        (SINGLE, SimtConfig(thread_m=6)),
        (SINGLE, SimtConfig(thread_m=16, thread_n=16, warp_m=128, warp_n=64)),
        (SINGLE, SimtConfig(warp_m=128)),
        (SINGLE, SimtConfig(tile_m=96)),
        (SINGLE_MN, SimtConfig(tile_m=96, warp_m=96, thread_m=12)),
        (SINGLE_MN, SimtConfig(tile_n=96, warp_n=96, thread_n=12, warp_m=32)),
        (SINGLE, SimtConfig(tile_m=32, warp_m=32, tile_n=256, thread_m=4)),
        (SINGLE, SimtConfig(tile_m=256, tile_n=32, thread_n=4, warp_m=32, thread_m=8, warp_n=32)),
        (problem("nt", fp32, fp32, **SUMMED), SimtConfig(64, 64, 16, 16, 64, 8, 4)),
        (problem("nt", fp32, fp32, **SUMMED), SimtConfig(split_k=2)),
        (SINGLE_PAIRS, SimtConfig(32, 64, 32, 32, 64, 16, 4)),
        (SINGLE, SimtConfig(split_k=0)),
        (SINGLE, SimtConfig(split_k=9)),
        (SINGLE, SimtConfig(group_m=65)),
    ),
}


def illegal():
    for name, cases in ILLEGAL.items():
        for product, config in cases:
            yield pytest.param(EVERY_KERNEL[name], config, product, id=str(config))


@pytest.mark.parametrize(("kernel", "config", "product"), list(illegal()))
def test_illegal_config_is_refused_by_check_and_by_the_compiler(kernel, config, product, monkeypatch):
    with pytest.raises(ConfigError, match="breaks the rule") as refusal:
        kernel.check(config, product, H200)
    (reason,) = (reason for rule, reason in kernel.rules if f"`{rule}`" in str(refusal.value))
    monkeypatch.setattr(type(kernel), "_check_rules", lambda *_: None)
    monkeypatch.setattr(type(kernel), "_check_limits", lambda *_: None)
    monkeypatch.setattr(type(kernel), "preamble", lambda self, constants: "")  # it may refuse by itself
    with pytest.raises(CompilationError, match=re.escape(reason)):
        compile(kernel.assemble(config, product, H200).source, H200.arch)


@pytest.mark.parametrize("kernel", [kernel for kernel in EVERY_KERNEL.values() if kernel.rules], ids=attrgetter("name"))
def test_every_rule_is_broken_by_one_of_the_illegal_configs(kernel):
    refusals = []
    for product, config in ILLEGAL[kernel.name]:
        with pytest.raises(ConfigError) as refusal:
            kernel.check(config, product, H200)
        refusals.append(str(refusal.value))
    unbroken = [rule for rule, _ in kernel.rules if not any(f"`{rule}`" in text for text in refusals)]
    assert unbroken == []


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_config_of_another_kernel_is_refused(kernel):
    with pytest.raises(ConfigError, match=f"kernel '{kernel.name}' takes"):
        kernel.check(object(), HALF, H200)


@pytest.mark.parametrize(
    ("name", "config", "product"),
    [("mma", MmaConfig(tile_k=64, stages=9), HALF), ("simt", SimtConfig(256, 512, 32, warp_n=64, thread_m=16), SINGLE)],
)
def test_config_beyond_shared_memory_is_refused(name, config, product):
    with pytest.raises(ConfigError, match="bytes of shared memory"):
        KERNELS[name].check(config, product, A100)


def test_an_operand_in_another_place_than_in_python_does_not_compile(monkeypatch):
    condition, reason = SAME_PARAMETERS
    c, bias = ".c = {}", ".bias = {}"
    assert c in condition
    exchanged = condition.replace(c, "?").replace(bias, c).replace("?", bias)
    monkeypatch.setattr("tilewright.kernels.kernel.SAME_PARAMETERS", (exchanged, reason))
    monkeypatch.setattr("tilewright.kernels.kernel._WRITTEN", {})
    simt, product = EVERY_KERNEL["simt"], PROBLEMS[8]
    with pytest.raises(CompilationError, match="out-of-order initializers"):
        compile(simt.assemble(simt.best(product, H200), product, H200).source, H200.arch)
