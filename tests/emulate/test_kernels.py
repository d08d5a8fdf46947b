"""Every kernel's real PTX, in the emulator and through the public API, on generated products.

Outputs are poisoned and guarded; small integers must come out exactly, normal numbers within the derived bound.
"""

import os
from dataclasses import replace
from itertools import cycle, islice, product
from math import ceil
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from support.cases import Case, case_of_extents, cases, random_cases, variants_of
from support.further_cases import copied_cases, copying
from support.memory import View
from support.rungs import RUNGS
from support.runs import multiply_emulated
from support.variant import Variant
from support.variants import VARIANTS
from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import H200
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.kernels.wgmma.config import WgmmaConfig

FEW_SMS = H200._replace(sm_count=8)
"""So few that persistent CTAs go through several tiles each, and enough for any cluster."""

BACKENDS = {
    "eager": EmulatedBackend(),
    "lazy": EmulatedBackend(FEW_SMS, asynchrony="lazy"),
    "random": EmulatedBackend(FEW_SMS, asynchrony="random", seed=1),
    "checked": EmulatedBackend(FEW_SMS, checks=True),
}

SCALE = 30 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 1

CASES = {"eager": 80 * SCALE, "lazy": 40 * SCALE, "random": 40 * SCALE, "checked": 40 * SCALE}
"""Generated cases per kernel by asynchrony."""


CASES_PER_RUNG = 8 * SCALE
"""Of a kernel of the ladder, under the kinds of asynchrony in turn."""

COPIED_CASES = 10
"""Of a part: a test of all of them would be the last that two processes wait for."""


@pytest.mark.parametrize("asynchrony", CASES)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_products_are_right_whenever_copies_and_products_complete(variant, asynchrony):
    @settings(
        max_examples=ceil(CASES[asynchrony] / len(variants_of(variant.kernel))),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(cases(variant))
    def check(case):
        multiply_emulated(case, BACKENDS[asynchrony])

    check()


@pytest.mark.parametrize("kernel", RUNGS)
def test_rungs_are_right_whenever_copies_and_products_complete(kernel):
    backends = cycle(BACKENDS.values())
    for case, backend in zip(random_cases(kernel, CASES_PER_RUNG, seed=3), backends, strict=False):
        try:
            multiply_emulated(case, backend)
        except Exception as error:
            error.add_note(f"in {case}")
            raise


@pytest.mark.parametrize(
    ("asynchrony", "part"), [(name, part) for name in CASES for part in range(CASES[name] // 3 // COPIED_CASES)]
)
def test_products_of_copied_operands_are_right(asynchrony, part):
    for case in copied_cases(COPIED_CASES, seed=f"copied {part}"):
        multiply_emulated(case, BACKENDS[asynchrony], **copying(case))


@pytest.mark.parametrize("kernel", ["simt", "mma"])
def test_extents_of_zero_one_and_two(kernel):
    """Each on up to three of the translation units that take it."""
    random = Random(1)
    for extents in product((1, 2), (1, 2), (0, 1, 2)):
        variants = random.sample(variants_of(kernel), len(variants_of(kernel)))
        found = filter(None, (case_of_extents(variant, random, *extents) for variant in variants))
        taken = list(islice(found, 3))
        assert taken, f"no translation unit takes {extents}"
        for case in taken:
            multiply_emulated(case, BACKENDS["eager"])


@pytest.mark.parametrize("config", [WgmmaConfig(128, 40, 3, epilogue="direct"), WgmmaConfig(64, 64, 2, split_k=4)])
def test_rows_of_out_may_begin_at_any_element(config):
    """Rows of an odd stride begin at all eight places of 16 bytes; tiles and out end inside of these."""
    config = replace(config, epilogue="direct", overlap=config.split_k == 1)
    for n, skew, c in product((1, 6, 9, 40, 83), (0, 3), (None, "bf16")):
        variant = Variant("wgmma", config, "bf16", "k16", "k16", 2, "bf16", c)
        a, b = View("bf16", (70, 200), (200, 1)), View("bf16", (200, n), (1, 200))
        out = View("bf16", (70, n), (n + 1 + n % 2, 1), skew)
        case = Case(variant, a, b, out, out if c else None, in_place=c is not None, beta=0.0 if c is None else 2.0)
        features = EVERY_KERNEL["wgmma"].features(case.problem())
        assert features.stores.chunks or n == 1
        multiply_emulated(case, BACKENDS["checked"])
