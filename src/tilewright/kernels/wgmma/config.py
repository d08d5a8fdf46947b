"""The Config of kernel `wgmma`, and its shared memory."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tilewright.kernels import tma
from tilewright.rounding import round_up

SPAN_BYTES = 128
"""Bytes along k of one row, the widest swizzle span; a k-block has one or more spans."""

SPAN = SPAN_BYTES // 2
"""The same in elements of 2 bytes, and the width of a panel of MN-major operands."""

WARPGROUP = 128


@dataclass(frozen=True, slots=True)
class WgmmaConfig:
    """The Config of `wgmma`.

    A CTA makes one (`tile_m`, `tile_n`) tile of out at a time through a ring of `stages` k-blocks of `tile_k`. A
    cluster makes `cluster_m` x `cluster_n` tiles and shares loads; clusters walk out in bands of `group_m` of their
    tile rows. With `split_k`, so many CTAs of a cluster make each of its tiles, each the sum over a part of k.

    `epilogue` goes to out through shared memory ("tma") or straight from registers ("direct"); with `overlap` it runs
    during the next tile's multiplications. `wait_depth` k-blocks of wgmma stay in flight, also while CUDA cores add the
    products of the one before. `prefetch` k-blocks beyond the ring are brought to L2 at the start if an operand is read
    once. `tile_k` is 64, 128, 192 or 256 for elements of 2 bytes, and 128 or 256 for those of 1.

    With `ping_pong` two warpgroups take whole tiles by turns: one stores while the other multiplies.

    With `swap_ab` the kernel computes out.T = b.T @ a.T; tile_m and cluster_m then count columns of out.
    """

    tile_m: int = 128
    tile_n: int = 256
    stages: int = 4
    cluster_m: int = 1
    cluster_n: int = 1
    group_m: int = 8
    epilogue: Literal["tma", "direct"] = "tma"
    overlap: bool = True
    wait_depth: int = 0
    tile_k: int = SPAN
    split_k: int = 1
    swap_ab: bool = False
    prefetch: int = 0
    ping_pong: bool = False

    @property
    def sharers(self) -> int:
        """The number of warpgroups that multiply a tile."""
        return 1 if self.ping_pong else {64: 1, 192: 3}.get(self.tile_m, 2)

    @property
    def thread_sums(self) -> int:
        """The sums that a thread has of a tile."""
        return self.tile_m * self.tile_n // (WARPGROUP * self.sharers)

    @property
    def row_blocks(self) -> int:
        """The number of blocks of 64 rows that a warpgroup has of a tile."""
        return self.tile_m // (64 * self.sharers)

    @property
    def consumers(self) -> int:
        """The number of warpgroups that multiply."""
        return 2 if self.ping_pong else self.sharers


def promoted_registers(row_blocks: int, tile_n: int, scaled_columns: int, wait_depth: int) -> int:
    """Registers of a thread beside its sums, if these are promoted: the products of a row block, and scales of blocks.

    Scales are of two rows of each row block, and of all of its columns if each has its own. With a wait_depth of 1 it
    has products of two k-blocks, and scales of columns as they are used.
    """
    scales = 2 * row_blocks + 4 if scaled_columns else 0
    if wait_depth:
        return tile_n + scales + 8
    return tile_n // 2 + scales + (tile_n // 4 if scaled_columns == 1 else 0)


SCALED_ROWS = 512
"""The rows of tiles of A whose scales of a k-block are in shared memory or on their way to it."""


def scale_bytes(tile_m: int, tile_n: int, scaled_columns: int) -> int:
    """The shared memory of the scales of one k-block, with their two mbarriers; 0 without scales of blocks."""
    columns = {0: 0, 128: 4, 1: tile_n}[scaled_columns]
    return 4 * (tile_m + columns) + 2 * 8 if scaled_columns else 0


def has_two_scales(tile_n: int, stacked: bool) -> bool:
    """Whether a tile's columns have two scales at most, if each is for 128 columns of B."""
    return 256 % tile_n == 0 if stacked else tile_n <= 128 + (tile_n & -tile_n)


class Ring(NamedTuple):
    """The shared memory of a Config, in bytes.

    It holds tiles of A and of B in each stage, and beside them the staging with boxes of out, the partial sums of other
    CTAs with their mbarrier, and `scale_stages` times the scales of a k-block.
    """

    a_bytes: int
    b_bytes: int
    scale_stages: int
    scale_bytes: int
    store_columns: int
    store_buffers: int
    store_bytes: int
    staging_bytes: int
    sum_bytes: int
    beside_bytes: int
    smem_bytes: int


def ring_of(
    config: WgmmaConfig,
    a_mn_major: bool,
    b_mn_major: bool,
    input_bytes: int = 2,
    scaled_columns: int = 0,
    gated: bool = False,
) -> Ring:
    """The Ring of a Config for operands that are K-major or MN-major, of elements of `input_bytes`.

    scaled_columns: as in EpilogueConstants. gated: whether two columns of sums make one of out.
    """
    spans, sum_columns = config.tile_k * input_bytes // SPAN_BYTES, config.tile_n // max(config.split_k, 1)
    a_bytes = spans * _span_bytes(config.tile_m, a_mn_major)
    b_bytes = spans * _span_bytes(config.tile_n, b_mn_major)
    store_columns, store_buffers = _boxes(sum_columns // (1 + gated), config.row_blocks)
    store_bytes = 16 * store_columns * 2
    staging_bytes = config.consumers * 4 * store_buffers * store_bytes if config.epilogue == "tma" else 0
    sum_bytes = (config.split_k - 1) * config.tile_m * sum_columns * 4
    scales = scale_bytes(config.tile_m, config.tile_n, scaled_columns)
    scale_stages = SCALED_ROWS // max(config.tile_m, 1)  # a rule refuses a tile_m of 0
    beside_bytes = staging_bytes + sum_bytes + (8 if config.split_k > 1 else 0) + scale_stages * scales
    smem_bytes = tma.ring_bytes(config.stages, a_bytes + b_bytes, beside_bytes)
    return Ring(
        a_bytes, b_bytes, scale_stages, scales, store_columns, store_buffers, store_bytes, staging_bytes, sum_bytes,
        beside_bytes, smem_bytes,
    )  # fmt: skip


def _boxes(columns: int, row_blocks: int) -> tuple[int, int]:
    """The columns of a box of out, of 16 rows, and how many boxes a warp stages, for so many columns of a tile.

    They are 64 or 32 if that divides the columns, else all: in boxes of 16, stores took up to 40% longer. One is filled
    while TMA reads another; where tensor cores wait for the first of several row blocks, it finds room for all.
    """
    box = next((box for box in (64, 32) if columns % box == 0), 0) if columns else 0
    if not box:
        return columns, 1
    return box, max(2, columns // box) if row_blocks > 1 else 2


def _span_bytes(rows: int, mn_major: bool) -> int:
    """Bytes of one span of `rows` along m or n; MN-major comes in panels of 64 (layout/descriptor.cuh)."""
    return (round_up(rows, SPAN) if mn_major else rows) * SPAN_BYTES
