"""Every instruction form gives the same bits in the emulator and on the GPU, from the same PTX."""

import pytest

from support.forms import FORMS


@pytest.mark.parametrize(
    ("kind", "form"), [(kind, form) for kind, forms in FORMS.items() for form in forms], ids=lambda value: ""
)
def test_an_instruction_gives_the_same_bits(kind, form, prove):
    prove(kind, form)
