"""L1's flow against steps counted by hand."""

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.memory.l1 import L1, Flow, flow_of, total


def loads(cache, *addresses):
    """The flow of one load of one lane each."""
    lanes = np.full(32, -1, np.int64)
    found = []
    for address in addresses:
        lanes[0] = address
        found.append(cache.load(lanes))
    return found


def outcome(flow):
    return "hit" if flow.hits else "sector" if flow.missing_sectors else "line" + "!" * flow.evictions


@pytest.mark.parametrize(
    ("replacement", "addresses", "outcomes"),
    [
        ("lru", [0, 4, 31, 0], ["line", "hit", "hit", "hit"]),
        ("lru", [0, 32, 36, 0], ["line", "sector", "hit", "hit"]),  # a line's other sector is not valid yet
        ("lru", [0, 256, 512, 0], ["line", "line", "line!", "line!"]),  # two ways, three lines of one set
        ("lru", [0, 256, 0, 512, 0, 256], ["line", "line", "hit", "line!", "hit", "line!"]),
        ("fifo", [0, 256, 0, 512, 0], ["line", "line", "hit", "line!", "line!"]),  # the oldest goes, used or not
        ("lru", [0, 128, 256, 384, 0], ["line", "line", "line", "line", "hit"]),  # two sets
        ("lru", [0, 256, 512, 32], ["line", "line", "line!", "line!"]),  # what was valid is forgotten
    ],
)
def test_steps(replacement, addresses, outcomes):
    cache = L1(4 * 128, sets=2, replacement=replacement)
    assert [outcome(flow) for flow in loads(cache, *(address // 4 * 4 for address in addresses))] == outcomes


def test_a_walk_along_rows_hits_seven_times_of_eight():
    flows = flow_of(L1(1 << 18), "lane * 8192 + step * 4", 4, 16, 1)
    assert [flow.hits for flow in flows] == [0, *[32] * 7, 0, *[32] * 7]
    assert (flows[0].missing_lines, flows[8].missing_sectors) == (32, 32)
    found = total(flows)
    assert (found.hit_rate, found.l2_bytes, found.tag_clocks) == (14 / 16, 2 * 1024, 16 * 8)
    assert found.as_dict()["sectors"] == 16 * 32


def test_more_lines_than_places_are_never_there_again():
    """64 warps of 32 lines need 256 KiB; half of it keeps nothing of a walk, and all of it everything."""
    walk = "(warp * 32 + lane) * 128 + step * 4"
    assert total(flow_of(L1(1 << 17), walk, 4, 3, 64)).hits == 0
    assert total(flow_of(L1(1 << 18), walk, 4, 3, 64)).hits == 2 * 64 * 32


def test_an_empty_flow():
    assert (Flow().hit_rate, Flow().l2_bytes) == (1.0, 0)


@pytest.mark.parametrize(("nbytes", "sets"), [(0, 4), (500, 4), (512 * 3 + 128, 4)])
def test_an_l1_has_whole_sets(nbytes, sets):
    with pytest.raises(
        ArgumentValueError, match=f"sets=4 do not divide an L1 of {nbytes} bytes into whole lines of 128: use a"
    ):
        L1(nbytes, sets)


def test_numbers_of_no_loop_are_refused():
    for steps, warps, name in ((0, 1, "steps=0"), (1, -2, "warps=-2"), (1, 65, "warps=65")):
        with pytest.raises(ArgumentValueError, match=f"{name} must be an integer from 1 "):
            flow_of(L1(1 << 17), "lane", 4, steps, warps)
    with pytest.raises(ArgumentValueError, match=r"1,000,000 steps of 64 warps are too many loads to follow"):
        flow_of(L1(1 << 17), "lane", 4, 1_000_000, 64)
