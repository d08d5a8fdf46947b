"""Expressions of addresses: what they compute, and what they refuse."""

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.memory.pattern import addresses_of


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("lane * 4", [0, 4, 8, 12]),
        ("-lane + 40", [40, 39, 38, 37]),
        ("(lane ^ 3) << 2 | lane & 1", [12, 9, 4, 1]),
        ("lane // 2 % 2 - 0 >> 0", [0, 0, 1, 1]),
        ("8 if 0 < lane <= 2 else None", [-1, 8, 8, -1]),
        ("4 if not lane == 1 and (lane >= 2 or lane != 3) else 0", [4, 0, 4, 4]),
        ("swizzle64(lane * 64)", [0, 64, 144, 208]),
        ("abs(lane - 2)", [2, 1, 0, 1]),
    ],
)
def test_values(expression, values):
    found = addresses_of(expression, lanes=4)
    assert found[:4].tolist() == values
    assert (found[4:] == -1).all()


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("__import__('os').system('true')", "is not understood: use lane, whole numbers"),
        ("lane.real", "is not understood"),
        ("row * 4", "'row' in 'row \\* 4' is not understood"),
        ("lane ** 9", "is not understood"),
        ("lane * 1.5", "'1.5' in"),
        ("'4'", "is not understood"),
        ("swizzle96(lane)", "is not understood"),
        ("swizzle128(lane, 1)", "is not understood"),
        ("lane *", "is no expression"),
        ("", "is no expression"),
        ("(" * 300, "is no expression"),
        ("lane + " * 80 + "1", "has 561 characters: use 300 at most"),
        ("-" * 299 + "1", "is -1 in lane 0"),
        ("4 // lane", "has no usable value in lane 0"),
        ("1 << lane * 9", "has no usable value in lane 6"),
        ("1 << -1", "has no usable value"),
        ("99999999999 * 99999999999", "has no usable value"),
        ("lane - 1", "is -1 in lane 0: give a number from 0 on"),
        ("lane < 4", "is True in lane 0"),
        ("None + lane", "computes with None in lane 0"),
    ],
)
def test_refusals(expression, why):
    with pytest.raises(ArgumentValueError, match=why):
        addresses_of(expression)


def test_further_names():
    assert addresses_of("lane * 8 + step", lanes=2, step=3)[:2].tolist() == [3, 11]
    with pytest.raises(ArgumentValueError, match=r"'warp' in 'lane \+ warp' is not understood: use lane, step, whole"):
        addresses_of("lane + warp", step=3)


@pytest.mark.parametrize("lanes", [0, -1, 33])
def test_a_warp_has_32_lanes(lanes):
    with pytest.raises(ArgumentValueError, match=f"lanes={lanes} must be an integer from 1 to 32"):
        addresses_of("lane", lanes)
