"""Tile and wave quantization against the published examples."""

from dataclasses import replace

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.hardware import GPUS
from tilewright.model.waves import waves


def test_a_result_a_little_larger_than_a_tile_wastes_three_quarters():
    """Gordić says about 75% for 33x33; it is 73.4%."""
    found = waves(33, 33, 32, 32, 1)
    assert (found.tiles_m, found.tiles_n) == (2, 2)
    assert found.wasted == 1 - 1089 / 4096
    assert f"{found.wasted:.1%}" == "73.4%"


def test_the_naive_kernel_takes_72_waves_on_an_h100_pcie():
    found = waves(4096, 4096, 32, 32, 2 * GPUS["H100-PCIe"].sm_count)
    assert found.slots == 228
    assert found.tiles == 16_384
    assert f"{found.exact:.2f}" == "71.86"
    assert found.count == 72
    assert found.last == 16_384 - 71 * 228
    assert found.wasted == 0


def test_one_cta_more_than_sms_takes_twice_as_long():
    full, more = waves(114, 1, 1, 1, 114), waves(115, 1, 1, 1, 114)
    assert (full.count, full.busy, full.last) == (1, 1.0, 114)
    assert (more.count, more.last) == (2, 1)
    assert more.busy == 115 / 228


def test_useful_is_what_neither_quantization_takes():
    found = waves(300, 200, 128, 64, 5)
    assert (found.tiles, found.count, found.last) == (12, 3, 2)
    assert found.useful == pytest.approx(300 * 200 / (3 * 5 * 128 * 64))
    assert found.as_dict() | {"tiles": 12, "count": 3} == found.as_dict()


@pytest.mark.parametrize("name", ["m", "n", "tile_m", "tile_n", "slots"])
def test_what_is_no_extent_is_refused(name):
    good = {"m": 1, "n": 1, "tile_m": 1, "tile_n": 1, "slots": 1}
    with pytest.raises(ArgumentValueError, match=f"{name}=0 must be an integer from 1 to"):
        waves(**good | {name: 0})
    assert replace(waves(**good), slots=2).busy == 0.5


def test_more_tiles_than_can_be_seen_are_not_drawn():
    pytest.importorskip("matplotlib")
    from tilewright.plots.residency import MOST_TILES, last_wave

    found = waves(1 << 30, 1 << 30, 128, 128, 132)
    with pytest.raises(ArgumentValueError, match=rf"larger tiles, for {MOST_TILES}"):
        last_wave(found, 1.0, 1.0, "")
