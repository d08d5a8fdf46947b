"""DRAM's rows against walks counted by hand, and latencies as published."""

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.chips import chip_named
from tilewright.model.memory.dram import Walk, activations, dram_of, walk
from tilewright.model.memory.dsmem import levels


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
    """An H200 has 6 stacks x 32 pseudo channels x 16 banks; each opens a row in 48 ns."""
    dram = dram_of(chip_named("H200"))
    assert (dram.stacks, dram.channels, dram.banks) == (6, 192, 3072)
    assert dram.strided_bandwidth(32) == dram.strided_bandwidth(256) == 4.8e12
    assert dram.strided_bandwidth(1024) == dram.strided_bandwidth(65536) == pytest.approx(3072 * 32 / 48e-9)
    assert dram.strided_bandwidth(512) == pytest.approx(2 * dram.strided_bandwidth(1024))
    assert dram_of(chip_named("V100")).channels == 64


def test_what_has_no_rows_is_refused():
    with pytest.raises(ArgumentValueError, match=r"chip='RTX-4090' has GDDR6X and no HBM: use V100, A100"):
        dram_of(chip_named("RTX-4090"))
    with pytest.raises(ArgumentValueError, match=r"stride=16 is less than a sector"):
        dram_of(chip_named("A100")).strided_bandwidth(16)
    with pytest.raises(ArgumentValueError, match=r"a matrix of 65536 x 1024 has 8,388,608 sectors: give one with at m"):
        walk(65536, 1024, 4, 1, down=True)
    with pytest.raises(ArgumentValueError, match=r"columns=0 must be an integer from 1 on"):
        walk(4, 0, 4, 1, down=False)


def test_published_latencies():
    """Luo et al.: DSMEM takes 180 clocks, 32% less than L2."""
    found = {level.name: level for level in levels(chip_named("H800"))}
    assert found["DSMEM"].clocks == 180
    assert 1 - 180 / found["L2"].clocks == pytest.approx(0.32, abs=0.005)
    assert [level.clocks for level in found.values()] == sorted(level.clocks for level in found.values())


def test_bytes_in_flight():
    (*_, dram) = levels(chip_named("H200"))
    assert dram.in_flight == pytest.approx(479 * 4.8e12 / 132 / 1.98e9)
    assert dram.as_dict()["in_flight"] == dram.in_flight
    assert [level.name for level in levels(chip_named("V100"))] == ["SMEM", "L1", "L2", "HBM2"]
    with pytest.raises(ArgumentValueError, match=r"chip='B200' has no published latencies: use V100"):
        levels(chip_named("B200"))
