"""Banks against the articles' figures, and against the function that the emulator counts by."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.errors import ArgumentValueError
from tilewright.model.memory.banks import WIDTHS, bank_use, shared_wavefronts
from tilewright.model.memory.coalescing import coalescing
from tilewright.model.memory.pattern import addresses_of


@pytest.mark.parametrize(
    ("listed", "expression", "wavefronts", "multicasts"),
    [
        ([0, 128, 256, 12, 16], "lane * 128 if lane < 3 else lane * 4", 3, 0),  # three rows of one bank
        ([0, 8, 16, 4, 12], "lane * 2 % 5 * 4", 1, 0),  # any order of the banks
        ((4, 4, 8, 8, 8), "4 if lane < 2 else 8", 1, 2),  # bank 1 serves two lanes, bank 2 three
    ],
)
def test_published_figures_of_five_lanes(listed, expression, wavefronts, multicasts):
    """Figures 11 and 12 of Gordić's article, with warps of five lanes: 3 cycles, 1 cycle, and multicast in 1 cycle."""
    use = bank_use(listed)
    assert (use.wavefronts, use.ideal) == (wavefronts, 1)
    assert sum(phase.multicasts for phase in use.phases) == multicasts
    assert use == bank_use(addresses_of(expression, lanes=5))


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


def test_lanes_of_a_list_that_do_not_access():
    use = bank_use([None, 4, -1, 8])
    assert [phase.lanes for phase in use.phases] == [(1, 3)]
    assert coalescing([None, 4, -1, 8]).lanes == 2


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ([], "addresses of 0 lanes are those of no warp: give 1 to 32"),
        ([0] * 33, "addresses of 33 lanes are those of no warp: give 1 to 32"),
        ([0, -4], r"addresses\[1\]=-4 must be an integer from 0 to 281,474,976,710,656"),
        ([0, 4.5], r"addresses\[1\]=4.5 must be an integer"),
        ([0, 1 << 60], r"addresses\[1\]=\d+ must be an integer"),
        ([0, 6], "lane 1 accesses 4 bytes at 6: give multiples of 4"),
    ],
)
def test_lists_that_are_no_warp_s_are_refused(addresses, said):
    for model in (bank_use, coalescing):
        with pytest.raises(ArgumentValueError, match=said):
            model(addresses)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "EXPRESSION and --addresses are two ways to ask, and neither is given: give one of them"),
        (["lane*4", "--addresses", "0,4"], "and both are given"),
        (["--addresses", "0,x"], "--addresses='0,x' is no list: write numbers and -, such as 0,4,-,128"),
        (["--addresses", "0,4", "--lanes", "3"], "--lanes=3 is for an expression"),
    ],
)
@pytest.mark.parametrize("topic", ["banks", "coalescing"])
def test_a_list_or_an_expression_and_not_both(topic, words, said):
    done = CliRunner().invoke(app, ["model", topic, *words])
    assert done.exit_code == 2
    assert said in done.stderr
    listed = CliRunner().invoke(app, ["model", topic, "--addresses", "0,4,-,8", "--json"])
    assert json.loads(listed.stdout)["addresses"] == "0,4,-,8"
