"""The tilings of `wgmma` that a recorded measurement saw winning somewhere."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Tiling(NamedTuple):
    """The part of a Config that decides its time: its tile, its cluster, its orientation, and who takes tiles."""

    tile_m: int
    tile_n: int
    tile_k: int
    cluster_m: int
    cluster_n: int
    split_k: int
    swap_ab: bool
    ping_pong: bool = False


class _Row(NamedTuple):
    """Tilings that differ in tile_n and orientation."""

    tile_m: int
    tile_n: Sequence[int]
    tile_k: int = 64
    cluster_m: int = 1
    cluster_n: int = 1
    split_k: int = 1
    ping_pong: bool = False

    def tilings(self) -> Iterator[Tiling]:
        for swap_ab in (False, True):
            for tile_n in self.tile_n:
                yield Tiling(
                    self.tile_m, tile_n, self.tile_k, self.cluster_m, self.cluster_n, self.split_k, swap_ab,
                    self.ping_pong,
                )  # fmt: skip


_ROWS = (
    _Row(64, (*range(16, 161, 8), 192)),
    _Row(64, range(16, 81, 8), tile_k=128),
    _Row(64, (16, 24), tile_k=256),
    _Row(64, (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256), split_k=2),
    _Row(64, (48, 120, 192), split_k=3),
    _Row(64, (32, 64, 96, 128, 160, 192), split_k=4),
    _Row(64, (40, 80, 120), split_k=5),
    _Row(64, (48, 144), split_k=6),
    _Row(64, (64, 128, 192), split_k=8),
    _Row(64, (80, 96, 112), cluster_m=2),
    _Row(64, (16, 24, 32, 48, 64), tile_k=128, cluster_m=2),
    _Row(64, (16, 24, 32, 48, 64), tile_k=256, cluster_m=2),
    _Row(64, (32, 64, 96, 128, 160, 192), cluster_m=2, split_k=2),
    _Row(64, (24, 32, 40, 56, 64, 80, 96, 112, 120, 136, 144, 152, 192), cluster_m=4),
    _Row(64, (24, 32, 48, 56, 64, 80, 112), tile_k=128, cluster_m=4),
    _Row(64, (16, 24, 32, 48, 64), tile_k=256, cluster_m=4),
    _Row(64, (16, 48, 128), cluster_m=4, split_k=2),
    _Row(64, (96, 112, 144, 160), cluster_n=4),
    _Row(64, (112, 192), cluster_m=2, cluster_n=2),
    _Row(128, (*range(16, 161, 8), 176, 192, 208, 224, 240, 256)),
    _Row(128, (16, 24, 32, 64), tile_k=128),
    _Row(128, (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208), split_k=2),
    _Row(128, (48, 96, 120, 144, 168, 192), split_k=3),
    _Row(128, (32, 96, 128, 160, 224), split_k=4),
    _Row(128, (40,), split_k=5),
    _Row(128, (48,), split_k=6),
    _Row(128, (64,), split_k=8),
    _Row(128, (32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 152, 160), cluster_n=2),
    _Row(128, (80, 96, 192), cluster_n=2, split_k=2),
    _Row(128, (64, 96, 128, 160), cluster_n=2, split_k=4),
    _Row(128, (24, 64, 80, 96, 112, 120, 128, 136, 144, 152, 208, 224, 240, 256), cluster_m=2),
    _Row(128, (16, 24, 48, 56, 64), tile_k=128, cluster_m=2),
    _Row(128, (64, 80, 96, 128, 160, 192), cluster_m=2, split_k=2),
    _Row(128, (64, 96, 160), cluster_m=2, split_k=4),
    _Row(128, (24, 32, 128), cluster_m=4),
    _Row(128, (16, 24, 32, 40, 48, 64, 80), tile_k=128, cluster_m=4),
    _Row(128, (*range(96, 161, 8), 176, 192), ping_pong=True),
    _Row(192, (16, 32, 48, 64, 80, 88, 96, 104, 112, 128, 136, 144, 160, 176, 192)),
    _Row(192, (16, 32, 96, 112, 144, 160), split_k=2),
    _Row(192, (32, 96, 160, 192), split_k=4),
    _Row(192, (64,), split_k=8),
    _Row(192, (32, 48, 64, 80, 88, 96, 104, 112, 128, 136, 144, 152, 160, 176), cluster_n=2),
    _Row(192, (96,), cluster_n=2, split_k=4),
    _Row(192, (96, 144, 152, 160, 176, 192), cluster_m=2),
    _Row(192, (16, 48), cluster_m=4),
    _Row(192, (48, 64), cluster_m=2, cluster_n=2),
    _Row(256, (16, 32, 88, 96, 104, 112, 128, 136, 144, 160, 176, 192, 200, 208)),
    _Row(256, (104, 112, 128, 136, 144, 160, 176, 192, 200, 208), cluster_n=2),
    _Row(256, (112, 128, 136, 176, 200), cluster_m=2),
)
_ROWS_OF_BYTES = {
    1: (_Row(128, (112, 128, 144, 152, 160, 176, 192), cluster_m=2, ping_pong=True),),
    2: (
        _Row(64, (88, 160, 184, 216), cluster_m=4),
        _Row(64, (160,), cluster_n=2),
        _Row(128, (184, 200), ping_pong=True),
        _Row(128, (144,), cluster_n=2),
        _Row(128, (64, 72, 120, 128, 144, 160, 176, 184, 192), cluster_n=2, ping_pong=True),
        _Row(128, (216, 232, 248), cluster_m=2),
        _Row(128, (144, 192, 200), cluster_m=2, ping_pong=True),
        _Row(192, (64, 104, 112, 128), ping_pong=True),
        _Row(192, (120, 192), cluster_n=2),
        _Row(192, (96, 104, 112, 120, 128), cluster_n=2, ping_pong=True),
        _Row(256, (96,), cluster_n=2, ping_pong=True),
        _Row(256, (152, 184), cluster_n=2),
        _Row(256, (144, 152, 160), cluster_m=2),
    ),
}
"""Those for elements of so many bytes alone: of others, they won nothing, or too few products were measured."""


def tilings(input_bytes: int) -> Iterator[Tiling]:
    """Those for elements of A and B of so many bytes; a k-block of tile_k elements has as many bytes for all."""
    for row in (*_ROWS, *_ROWS_OF_BYTES[input_bytes]):
        for tiling in row.tilings():
            yield tiling._replace(tile_k=tiling.tile_k * 2 // input_bytes)
