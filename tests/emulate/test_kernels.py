"""Every kernel's real PTX, in the emulator and through the public API, on generated products.

Outputs are poisoned and guarded; small integers must come out exactly, normal numbers within the derived bound.
"""

from math import ceil

import pytest
from hypothesis import HealthCheck, given, settings

import tilewright as tw
from support.cases import Memory, cases, unit_key
from support.variants import VARIANTS, variants_of
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.registry import KERNELS

CASES_PER_KERNEL = 300
CASES_PER_ASYNCHRONY = 30
MAX_UNITS = 40

BACKENDS = {
    "eager": EmulatedBackend(),
    "lazy": EmulatedBackend(asynchrony="lazy"),
    "random": EmulatedBackend(asynchrony="random", seed=1),
}

by_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def examples(count, variant):
    """Settings for the variant's share of `count` cases of its kernel."""
    share = ceil(count / len(variants_of(variant.kernel)))
    return settings(
        max_examples=share,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def multiply(case, backend):
    """Run a case through the public API and compare."""
    memory = Memory(case)
    a, b, c, out = (memory.arrays.get(name) for name in ("a", "b", "c", "out"))
    result = tw.matmul(a, b, c, bias=memory.arrays.get("bias"), out=out, backend=backend, **memory.keywords())
    assert result is out
    memory.verify()


def check_variant(variant, backend, count):
    @examples(count, variant)
    @given(cases(variant))
    def check(case):
        multiply(case, backend)

    check()


@by_variant
def test_products_are_right(variant):
    check_variant(variant, BACKENDS["eager"], CASES_PER_KERNEL)


@pytest.mark.parametrize("asynchrony", ["lazy", "random"])
@by_variant
def test_products_do_not_depend_on_when_copies_and_products_complete(variant, asynchrony):
    check_variant(variant, BACKENDS[asynchrony], CASES_PER_ASYNCHRONY)


def test_every_kernel_has_variants_and_few_translation_units():
    assert {variant.kernel for variant in VARIANTS} == set(KERNELS)
    assert len(VARIANTS) <= MAX_UNITS
