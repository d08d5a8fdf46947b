"""What the tuner's stand takes for right: products with zero points and with a scale of out, run in the emulator."""

from dataclasses import replace

import pytest

from tilewright.backends.emulated import EmulatedBackend
from tilewright.dtypes import bf16, fp8_e4m3, fp32, int8, int32
from tilewright.expression.grammar import parse
from tilewright.expression.tree import OUT_SCALE, SCALES, ZERO
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner.tuning.candidates import Candidate
from tilewright.planner.tuning.stand import Stand
from tilewright.problem import Epilogue, Matrix, Problem

ROW = (Matrix(fp32, 1, 0), Matrix(fp32, 0, 1))
"""The scales of rows of a and of columns of b."""


def posed(dtype, out, *more):
    """A product of 40 x 48 x 64 with scales of rows and further hidden operands: names and matrices."""
    names = (*SCALES, *more[::2])
    expression = parse("acc", ())._replace(operands=names, recipe="row")
    epilogue = Epilogue(expression=expression, operands=(*ROW, *more[1::2]))
    return Problem(40, 48, 64, Matrix(dtype, 64, 1), Matrix(dtype, 1, 64), Matrix(out, 48, 1), epilogue=epilogue)


@pytest.mark.parametrize(
    "problem",
    [
        posed(int8, bf16, ZERO, Matrix(int32, 1, 0)),
        posed(int8, bf16, ZERO, Matrix(int32, 0, 0)),
        posed(fp8_e4m3, fp8_e4m3, OUT_SCALE, Matrix(fp32, 0, 0)),
    ],
    ids=["zero points of rows", "one zero point", "scale of out"],
)
def test_right_results_are_right_and_others_are_not(problem):
    kernel = KERNELS["mma"]
    config = kernel.configs(problem, H200)[0]
    launch = kernel.assemble(config, problem, H200)
    candidate = Candidate(kernel, config, launch)
    with Stand(problem, EmulatedBackend(H200)) as stand:
        assert stand.fault(candidate, build(launch.source, H200.virtual_arch)) == ""
    with Stand(problem, EmulatedBackend(H200)) as stand:
        stand._launcher = lambda *_: lambda number, stream: None
        assert stand.fault(candidate, build(launch.source, H200.virtual_arch))


def test_configs_whose_sums_are_cut_elsewhere_are_right_and_others_are_not():
    """With the sums of an H200: a whole one of fp8 differs from that of two halves by more than its rounding."""
    k = 8192
    problem = Problem(
        64, 64, k, Matrix(fp8_e4m3, k, 1), Matrix(fp8_e4m3, 1, k), Matrix(bf16, 64, 1), fast_accumulation=True
    )
    kernel, whole = KERNELS["wgmma"], WgmmaConfig(64, 64, 4, tile_k=128, epilogue="direct", overlap=False, wait_depth=1)
    backend = EmulatedBackend(H200, tensor_cores="hardware")
    with Stand(problem, backend) as stand:
        for config in (whole, replace(whole, split_k=2)):
            launch = kernel.assemble(config, problem, H200)
            assert stand.fault(Candidate(kernel, config, launch), build(launch.source, H200.virtual_arch)) == ""
        right = [stand._expected[0][0]]
        assert stand._against_first(right) == ""
        assert "differ" in stand._against_first([right[0] / 4])
