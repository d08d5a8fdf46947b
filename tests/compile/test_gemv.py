"""The registers of `gemv`: as many CTAs fit on an SM as its Configs say, and next to nothing is spilled.

By default the Config that is chosen is built; TILEWRIGHT_TESTS=all builds the next two as well.
"""

import os
from typing import Any

import pytest

from tilewright.dtypes import bf16, fp32
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.jit.listing import instruction_mix
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Matrix, Problem

GEMV: Any = KERNELS["gemv"]

BUILT = 3 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 1


@pytest.mark.parametrize("m", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("extent", [4096, 4095])
@pytest.mark.parametrize("dtype", [bf16, fp32])
def test_loads_in_flight_are_not_spilled(m, layout, extent, dtype):
    b = Matrix(dtype, 1, extent) if layout == "nt" else Matrix(dtype, extent, 1)
    problem = Problem(m, extent, extent, Matrix(dtype, extent, 1), b, Matrix(dtype, extent, 1))
    for number, config in enumerate(GEMV.configs(problem, H200)[:BUILT]):
        launch = GEMV.assemble(config, problem, H200)
        compiled = build(launch.source)
        # The step in which k ends may spill a few words, if rows begin anywhere: of 16 rows, or by other Configs.
        may_spill = layout == "nt" and extent == 4095 and dtype is bf16 and (m == 16 or number > 0)
        assert compiled.spill_bytes <= (36 if may_spill else 0)
        assert compiled.registers * launch.shape.block * config.ctas <= 65536
        constants: Any = launch.constants
        kind = "ld.global.v4.b32" if constants.b_straddles else "ld.global.nc.L1::no_allocate.v4.b32"
        loads = instruction_mix(compiled.ptx, "ptx")[kind]
        assert loads >= 2 * constants.load_words // 4  # ahead of the main loop, and in it
