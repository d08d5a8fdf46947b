"""`gemv` where rows of its operands begin at any element: it reads chunks in which these lie, and nothing beyond."""

import numpy as np
import pytest

import tilewright as tw
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
    """Counts the reads of poison, which lies in the gaps between rows."""

    def __init__(self):
        self.count, self.loads = 0, 0

    def accessed(self, site, kind, space, group, where, width, chosen):
        if kind == "ld" and space == "global":
            for address in np.unique(where) + GLOBAL_BASE:
                self.loads += 1
                self.count += (self.device.read(int(address), width) == 0xFF).all()


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
    strays = StrayReads()
    backend = EmulatedBackend(checks=True, observers=[strays])
    strays.device = backend.device
    nbytes = parse(dtype, "dtype").nbytes
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


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rows_of_b_may_be_shorter_than_a_load(dtype):
    """Rows of 2 and of 6 elements are aligned to 4 bytes, of which there is no load."""
    generator = np.random.default_rng(1)
    for n in range(1, 9):
        a, b = (
            generator.integers(-4, 5, shape).astype(parse(dtype, "dtype").numpy_dtype) for shape in ((n, 40), (40, n))
        )
        product = tw.matmul(a, b, out_dtype="fp32", kernel="gemv", backend="emulator")
        assert np.array_equal(product, a.astype(np.float32) @ b.astype(np.float32)), n
