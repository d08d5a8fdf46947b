"""Every kernel's real PTX, in the emulator and through the public API, on generated products.

Outputs are poisoned and guarded; small integers must come out exactly, normal numbers within the derived bound.
"""

import os
from itertools import cycle, islice, product
from math import ceil
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

import tilewright as tw
from support.cases import COPYING, Memory, case_of_extents, cases, copied_cases, random_cases, variants_of
from support.rungs import RUNGS
from support.variants import VARIANTS
from tilewright.backends.emulated import EmulatedBackend

BACKENDS = {
    "eager": EmulatedBackend(),
    "lazy": EmulatedBackend(asynchrony="lazy"),
    "random": EmulatedBackend(asynchrony="random", seed=1),
    "checked": EmulatedBackend(checks=True),
}

SCALE = 10 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 1

CASES = {"eager": 600 * SCALE, "lazy": 60 * SCALE, "random": 60 * SCALE, "checked": 60 * SCALE}
"""Generated cases per kernel by asynchrony."""


CASES_PER_RUNG = 24 * SCALE
"""Of a kernel of the ladder, under the kinds of asynchrony in turn."""


def multiply(case, backend, **changes):
    """Run a case through the public API and compare; `changes`: other keywords than the case's."""
    memory = Memory(case)
    a, b, c, out = (memory.arrays.get(name) for name in ("a", "b", "c", "out"))
    keywords = memory.keywords() | changes
    result = tw.matmul(a, b, c, bias=memory.arrays.get("bias"), out=out, backend=backend, **keywords)
    assert result is out
    memory.verify()
    found = backend.device.reports
    assert not found, str(found[0])


@pytest.mark.parametrize("asynchrony", CASES)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_products_are_right_whenever_copies_and_products_complete(variant, asynchrony):
    @settings(
        max_examples=ceil(CASES[asynchrony] / len(variants_of(variant.kernel))),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(cases(variant))
    def check(case):
        multiply(case, BACKENDS[asynchrony])

    check()


@pytest.mark.parametrize("kernel", RUNGS)
def test_rungs_are_right_whenever_copies_and_products_complete(kernel):
    backends = cycle(BACKENDS.values())
    for case, backend in zip(random_cases(kernel, CASES_PER_RUNG, seed=3), backends, strict=False):
        try:
            multiply(case, backend)
        except Exception as error:
            error.add_note(f"in {case}")
            raise


@pytest.mark.parametrize("asynchrony", CASES)
def test_products_of_copied_operands_are_right(asynchrony):
    for case in copied_cases(CASES[asynchrony] // 3, seed=4):
        multiply(case, BACKENDS[asynchrony], **COPYING)


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
            multiply(case, BACKENDS["eager"])
