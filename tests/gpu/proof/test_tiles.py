"""TMA moves the same bytes to the same places in the emulator and on the GPU."""

import pytest

from support.columns import COLUMNS
from support.tiles import TILES


@pytest.mark.parametrize("tile", [*TILES, *COLUMNS], ids=lambda tile: tile.kind)
def test_a_tile_moves_the_same_bytes(tile, prove):
    prove(f"tma {tile.kind}", tile)
