"""What the checks know of a program before it runs."""

import pytest

from tilewright.emulator.program.traits import traits_of
from tilewright.emulator.ptx.syntax import TYPE_BITS, Instruction

MEMORY_TYPES = {kind: bits for kind, bits in TYPE_BITS.items() if kind != "pred"}


@pytest.mark.parametrize(("kind", "bits"), MEMORY_TYPES.items())
@pytest.mark.parametrize("space", ["shared", "global"])
def test_a_cell_is_as_wide_as_the_narrowest_access(space, kind, bits):
    accesses = [
        Instruction("ld", (space, *vector, kind), (), None, number, None)
        for number, vector in enumerate([("v2",), ("v4",)])
    ]
    traits = traits_of(accesses)
    assert getattr(traits, f"{space}_cell") == min(2 * bits // 8, 16)
    assert (traits.shared_cell if space == "global" else traits.global_cell) == 16
