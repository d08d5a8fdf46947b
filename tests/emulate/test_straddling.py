"""`gemv` where rows of its operands begin at any element: it reads chunks in which these lie, and nothing beyond."""

import numpy as np
import pytest

from support.cases import Case
from support.memory import View
from support.runs import multiply_emulated
from support.variants import Variant
from tilewright.backends.emulated import EmulatedBackend
from tilewright.dtypes import parse
from tilewright.emulator import Observer
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.registry import EVERY_KERNEL


class StrayReads(Observer):
    """Counts the elements of poison that are read: it lies around the rows, and in the gaps between them."""

    def __init__(self, nbytes):
        self.count, self.loads, self.nbytes = 0, 0, nbytes

    def accessed(self, site, kind, space, group, where, width, chosen):
        if kind == "ld" and space == "global":
            for address in np.unique(where) + GLOBAL_BASE:
                self.loads += 1
                elements = self.device.read(int(address), width).reshape(-1, min(width, self.nbytes))
                self.count += int((elements == 0xFF).all(axis=1).sum())


CONFIGS = (
    ("bf16", "k", GemvConfig(1, 8, 8, 2, 1)),
    ("bf16", "k", GemvConfig(4, 16, 2, 1, 2, prefetch=1)),
    ("bf16", "k", GemvConfig(2, 8, 4, 1, 1, 2)),
    ("bf16", "n", GemvConfig(8, 64, 1, 2, 1, prefetch=9)),
    ("bf16", "n", GemvConfig(16, 64, 1, 1, 1, 2)),
    ("fp32", "k", GemvConfig(1, 2, 8, 2, 1)),
    ("fp32", "k", GemvConfig(8, 16, 2, 1, 2, 2, prefetch=1)),
    ("fp32", "n", GemvConfig(2, 32, 1, 2, 1, prefetch=9)),
    ("fp32", "n", GemvConfig(9, 64, 1, 1, 1, 2)),
)
"""With the dimension along which B is contiguous."""


@pytest.mark.parametrize("gap", [0, 2, 3])
@pytest.mark.parametrize(("dtype", "along", "config"), CONFIGS)
def test_operands_may_begin_at_any_element(dtype, along, config, gap):
    """At all places of 16 bytes, and k at all places of a step's end; rows of memory have gaps or none."""
    nbytes = parse(dtype, "dtype").nbytes
    strays = StrayReads(nbytes)
    backend = EmulatedBackend(checks=True, observers=[strays])
    strays.device = backend.device
    places = 16 // nbytes
    variant = Variant("gemv", config, dtype, f"{along}{nbytes}", f"k{nbytes}", nbytes, dtype)
    for skew in range(places):
        m, n, k = (3, 21, 1020 + skew) if along == "k" else (9, 201, 70 + skew)
        a = View(dtype, (m, k), (k + gap, 1), places - 1 - skew)
        b = View(dtype, (k, n), (1, k + gap) if along == "k" else (n + gap, 1), skew)
        case = Case(variant, a, b, View(dtype, (m, n), (n, 1)))
        features = EVERY_KERNEL["gemv"].features(case.problem())
        assert features.b_straddles or skew % (places // 2) == 0
        assert features.a_straddles or dtype == "fp32" or skew % 4 == 3
        multiply_emulated(case, backend)
        assert strays.count == 0
    assert strays.loads > 0


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("n", [33, 63, 64, 65, 73])
@pytest.mark.parametrize(("dtype", "along", "config"), [each for each in CONFIGS if each[1] == "n"])
def test_tiles_that_reach_beyond_the_row_behind_their_steps(dtype, along, config, n, gap):
    """One row follows the steps of the main loop, since those of a are aligned."""
    nbytes = parse(dtype, "dtype").nbytes
    strays = StrayReads(nbytes)
    backend = EmulatedBackend(checks=True, observers=[strays])
    strays.device = backend.device
    variant = Variant("gemv", config, dtype, f"{along}{nbytes}", f"k{nbytes}", nbytes, dtype)
    for skew in (0, 1):
        b = View(dtype, (65, n), (n + gap, 1), skew)
        case = Case(variant, View(dtype, (9, 65), (72, 1), 0), b, View(dtype, (9, n), (n, 1)))
        multiply_emulated(case, backend)
    assert strays.count == 0 < strays.loads


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("gap", [0, 2, 4])
@pytest.mark.parametrize("n", range(2, 8))
def test_rows_that_are_shorter_than_a_load(n, gap, dtype):
    """Of 2, 4 and 8 bytes where a few columns are aligned; no two chunks hold them."""
    nbytes = parse(dtype, "dtype").nbytes
    variant = Variant("gemv", GemvConfig(8, 64, 1, 1, 1), dtype, f"n{nbytes}", f"k{nbytes}", nbytes, dtype)
    for skew in (0, 2):
        b = View(dtype, (70, n), (n + gap, 1), skew)
        case = Case(variant, View(dtype, (5, 70), (70, 1), 0), b, View(dtype, (5, n), (n, 1)))
        assert not EVERY_KERNEL["gemv"].features(case.problem()).b_straddles or n * nbytes >= 16
        multiply_emulated(case, EmulatedBackend(checks=True))
