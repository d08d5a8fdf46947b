"""Banks against the articles' figures, and against the function that the emulator counts by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import ArgumentValueError
from tilewright.model.memory.banks import WIDTHS, bank_use, shared_wavefronts
from tilewright.model.memory.pattern import addresses_of


@pytest.mark.parametrize(
    ("expression", "wavefronts", "multicasts"),
    [
        ("lane * 128 if lane < 3 else lane * 4", 3, 0),  # three rows of one bank
        ("lane * 2 % 5 * 4", 1, 0),  # any order of the banks
        ("4 if lane < 2 else 8", 1, 2),  # bank 1 serves two lanes, bank 2 three
    ],
)
def test_published_figures_of_five_lanes(expression, wavefronts, multicasts):
    """Figures 11 and 12 of Gordić's article, with warps of five lanes: 3 cycles, 1 cycle, and multicast in 1 cycle."""
    use = bank_use(addresses_of(expression, lanes=5))
    assert (use.wavefronts, use.ideal) == (wavefronts, 1)
    assert sum(phase.multicasts for phase in use.phases) == multicasts


@pytest.mark.parametrize(
    ("expression", "width", "access", "phases", "wavefronts"),
    [
        ("lane * 4", 4, "ld", 1, 1),
        ("lane * 128", 4, "ld", 1, 32),
        ("lane * 132", 4, "ld", 1, 1),
        ("lane * 8", 8, "ld", 2, 2),
        ("lane * 16", 16, "ld", 4, 4),
        ("lane // 2 * 16", 16, "ld", 2, 2),
        ("lane // 2 * 16", 16, "st", 4, 4),
        ("lane % 8 * 128 + lane // 8 * 16", 16, "st", 4, 32),
        ("swizzle128(lane % 8 * 128 + lane // 8 * 16)", 16, "st", 4, 4),
        ("lane * 16 if lane < 8 else None", 16, "ld", 1, 1),
    ],
)
def test_phases_of_an_access(expression, width, access, phases, wavefronts):
    use = bank_use(addresses_of(expression), width, access)
    assert (len(use.phases), use.wavefronts, use.conflicts) == (phases, wavefronts, wavefronts - phases)


@settings(max_examples=200)
@given(st.sampled_from(WIDTHS), st.sampled_from(["ld", "st"]), st.lists(st.integers(-1, 300), min_size=32, max_size=32))
def test_phases_add_up_to_what_the_emulator_counts(width, access, places):
    addresses = np.array([width * place if place >= 0 else -1 for place in places], np.int64)
    use = bank_use(addresses, width, access)
    assert sum(phase.wavefronts for phase in use.phases) == use.wavefronts
    assert (use.wavefronts, use.ideal) == shared_wavefronts(addresses[None], width, access == "ld")
    assert sorted(lane for phase in use.phases for lane in phase.lanes) == np.flatnonzero(addresses >= 0).tolist()
    assert use.as_dict()["ways"] == use.ways >= 1


def test_impossible_accesses_are_refused():
    with pytest.raises(ArgumentValueError, match=r"width=3 is no width of an access: use 1, 2, 4, 8, 16 bytes"):
        bank_use(addresses_of("lane"), 3)
    with pytest.raises(ArgumentValueError, match=r"lane 1 accesses 8 bytes at 4: give multiples of 8"):
        bank_use(addresses_of("lane * 4"), 8)
