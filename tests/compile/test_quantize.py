"""The registers of `quantize`: nothing is spilled, and as many CTAs have room as hide the loads."""

import pytest

from tilewright.dtypes import bf16, fp8_e4m3, fp16, fp32, int8
from tilewright.hardware import A100, H200
from tilewright.jit.cache import build
from tilewright.kernels.quantize import SM_REGISTERS, Quantization, launches
from tilewright.problem import Matrix


def question_of(dtype, code, block, transposed, m=4096, k=4096):
    """The quantization of a packed matrix."""
    lines = block in ("row", "1x128")
    scale = Matrix(fp32, 1, m) if block == "1x128" else Matrix(fp32, 1, 0)
    codes = Matrix(code, m, 1) if transposed else None
    other_scale = scale if transposed and lines else None
    whole = block in ("tensor", "row")
    x = Matrix(dtype, k, 1)
    return Quantization(m, k, (), x, code, Matrix(code, k, 1), scale, codes, other_scale, lines, whole)


@pytest.mark.parametrize("dtype", [bf16, fp16, fp32], ids=str)
@pytest.mark.parametrize("block", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("transposed", [False, True])
def test_nothing_is_spilled(dtype, block, transposed):
    for launch in launches(question_of(dtype, fp8_e4m3, block, transposed), H200):
        compiled = build(launch.source, H200.arch)
        assert not compiled.spill_bytes
        assert compiled.registers * launch.shape.block * 2 <= SM_REGISTERS
        assert compiled.static_smem_bytes <= 48 * 1024


@pytest.mark.parametrize("columns", [1000, 8192, 11008, 32768])
@pytest.mark.parametrize("dtype", [bf16, fp32], ids=str)
def test_no_long_row_is_spilled(dtype, columns):
    (launch,) = launches(question_of(dtype, fp8_e4m3, "row", False, k=columns), H200)
    assert not build(launch.source, H200.arch).spill_bytes


def test_int8_on_an_older_gpu():
    for launch in launches(question_of(bf16, int8, "tensor", True), A100):
        assert not build(launch.source, A100.arch).spill_bytes
