"""Sums of tensor cores have the same bits in the emulator's hardware arithmetic and on the GPU, from the same PTX."""

import pytest

from support.forms.sums import SUMS


@pytest.mark.parametrize(
    ("kind", "form"), [(kind, form) for kind, forms in SUMS.items() for form in forms], ids=lambda value: ""
)
def test_a_sum_has_the_same_bits(kind, form, prove):
    prove(f"{kind} sums", form)
