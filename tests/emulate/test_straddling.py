"""`gemv` where rows of its operands begin at any element: it reads chunks in which these lie, and nothing beyond."""

import numpy as np
import pytest

from support.cases import Case
from support.memory import View
from support.runs import multiply_emulated
from support.variants import Variant
from tilewright.backends.emulated import EmulatedBackend
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


CONFIGS = {
    "k": (GemvConfig(1, 8, 8, 2, 1), GemvConfig(4, 16, 2, 1, 2, prefetch=1), GemvConfig(2, 8, 4, 1, 1, 2)),
    "n": (GemvConfig(8, 64, 1, 2, 1, prefetch=9), GemvConfig(16, 64, 1, 1, 1, 2)),
}
"""By the dimension along which B is contiguous."""


@pytest.mark.parametrize("gap", [0, 2, 3])
@pytest.mark.parametrize(("along", "config"), [(along, config) for along in CONFIGS for config in CONFIGS[along]])
def test_operands_may_begin_at_any_element(along, config, gap):
    """At all eight places of 16 bytes, and k at all places of a step's end; rows of memory have gaps or none."""
    strays = StrayReads()
    backend = EmulatedBackend(checks=True, observers=[strays])
    strays.device = backend.device
    variant = Variant("gemv", config, "bf16", f"{along}2", "k2", 2, "bf16")
    for skew in range(8):
        m, n, k = (3, 21, 1020 + skew) if along == "k" else (9, 201, 70 + skew)
        a = View("bf16", (m, k), (k + gap, 1), 7 - skew)
        b = View("bf16", (k, n), (1, k + gap) if along == "k" else (n + gap, 1), skew)
        case = Case(variant, a, b, View("bf16", (m, n), (n, 1)))
        features = EVERY_KERNEL["gemv"].features(case.problem())
        assert (features.a_straddles and features.b_straddles) or skew % 4 in (0, 3)
        multiply_emulated(case, backend)
        assert strays.count == 0
    assert strays.loads > 0
