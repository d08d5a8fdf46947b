"""DRAM's rows against walks counted by hand, and latencies as published."""

import json
from pathlib import Path

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.memory.dram import FETCHES, ROW_CYCLE, Walk, activations, dram_of, walk
from tilewright.model.memory.dsmem import levels

RECORD = Path(__file__).parents[4] / "results/strides_h200.json"


@pytest.mark.parametrize(
    ("addresses", "banks", "opened"),
    [
        ([0, 32, 992, 1024], 1, 2),
        ([0, 1024, 0, 1024], 1, 4),  # one row buffer: they take turns
        ([0, 1024, 0, 1024], 2, 2),  # two: both stay open
        ([0, 2048, 0, 2048], 2, 4),  # but not in the same bank
        ([], 4, 0),
    ],
)
def test_rows_that_reads_open(addresses, banks, opened):
    assert activations(addresses, banks) == Walk(len(addresses), opened)


def test_along_rows_and_down_columns():
    """Figure 9 of Gordić's article: with one row buffer, a walk down columns opens a row for each read."""
    along, down = (walk(1024, 1024, 4, 1, down=each) for each in (False, True))
    assert (along.sectors_per_row, down.sectors_per_row) == (32, 1)
    assert along.sectors == down.sectors == 1024 * 1024 * 4 // 32


def test_a_pitch_that_is_no_power_of_two_meets_all_banks():
    assert walk(1024, 1024, 4, 1024, down=True).sectors_per_row < 2
    assert walk(1024, 1000, 4, 4096, down=True).sectors_per_row == 32


def test_bandwidth_of_strides():
    """An H200 has 6 stacks x 32 pseudo channels; each opens a row in 5.5 ns, and 256 bytes share it."""
    dram = dram_of("H200")
    assert (dram.stacks, dram.channels, dram.banks) == (6, 192, 3072)
    assert dram.row_rate == 192 / 5.5e-9 < dram.banks / ROW_CYCLE
    assert dram.strided_bandwidth(32) == 4.8e12
    assert dram.strided_bandwidth(256) == dram.strided_bandwidth(65536) == pytest.approx(32 * 192 / 5.5e-9)
    assert dram.strided_bandwidth(128) == pytest.approx(2 * dram.strided_bandwidth(256))
    assert dram.strided_bandwidth(64, 64) == dram.strided_bandwidth(64, 128) == 2.4e12  # half of it is not wanted
    assert dram.strided_bandwidth(128, 128) == 1.2e12
    assert dram_of("V100").channels == 64


def test_an_h200_reads_strides_no_quicker_and_hardly_slower():
    dram = dram_of("H200")
    cases = json.loads(RECORD.read_text())["cases"]
    assert {case["fetch"] for case in cases} == set(FETCHES)
    for case in cases:
        share = case["measured"] / dram.strided_bandwidth(case["stride"], case["fetch"])
        assert 0.72 < share <= 1, case


def test_what_has_no_rows_is_refused():
    with pytest.raises(ArgumentValueError, match=r"chip='RTX-4090' has GDDR6X and no HBM: use V100, A100"):
        dram_of("RTX-4090")
    with pytest.raises(ArgumentValueError, match=r"stride=16 is less than a sector"):
        dram_of("A100").strided_bandwidth(16)
    with pytest.raises(ArgumentValueError, match=r"fetch=48 is no limit of L2: use 32, 64, 128"):
        dram_of("A100").strided_bandwidth(32, 48)
    with pytest.raises(ArgumentValueError, match=r"a matrix of 65536 x 1024 has 8,388,608 sectors: give one with at m"):
        walk(65536, 1024, 4, 1, down=True)
    with pytest.raises(ArgumentValueError, match=r"columns=0 must be an integer from 1 on"):
        walk(4, 0, 4, 1, down=False)


def test_published_latencies():
    """Luo et al.: DSMEM takes 180 clocks, 32% less than L2."""
    found = {level.name: level for level in levels("H800")}
    assert found["DSMEM"].clocks == 180
    assert 1 - 180 / found["L2"].clocks == pytest.approx(0.32, abs=0.005)
    assert [level.clocks for level in found.values()] == sorted(level.clocks for level in found.values())


def test_bytes_in_flight():
    (*_, dram) = levels("H200")
    assert dram.in_flight == pytest.approx(479 * 4.8e12 / 132 / 1.98e9)
    assert dram.as_dict()["in_flight"] == dram.in_flight
    assert [level.name for level in levels("V100")] == ["SMEM", "L1", "L2", "HBM2"]
    with pytest.raises(ArgumentValueError, match=r"chip='B200' has no published latencies: use V100"):
        levels("B200")
