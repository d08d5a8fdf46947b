"""The Configs of kernel `wgmma`: their shared memory, and the candidates for a Problem."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Literal

from tilewright.kernels import tma
from tilewright.model import cost

TILE_K = 64
"""Elements of a k-block: one row of 128 bytes, the widest swizzle span. 32 and 128 were measured 1-3% behind."""

WARPGROUP = 128
CONSUMERS = 2
"""The number of warpgroups that multiply. Three leave too few registers for 256 columns each."""

STORE_BUFFERS = 2
"""Boxes of out that each warp stages: one is filled while TMA reads the other."""


@dataclass(frozen=True, slots=True)
class WgmmaConfig:
    """The Config of `wgmma`.

    A CTA makes one (`tile_m`, `tile_n`) tile of out at a time through a ring of `stages` k-blocks; a cluster makes
    `cluster_m` x `cluster_n` of them and shares loads; clusters walk out in bands of `group_m` of their tile rows.
    `epilogue` goes to out through shared memory ("tma") or straight from registers ("direct"); with `overlap` it runs
    during the next tile's multiplications. `wait_depth` k-blocks of wgmma stay in flight.
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


# If two cost the same, the first is taken.
_CANDIDATES = (
    WgmmaConfig(128, 256, 4, cluster_m=2),
    WgmmaConfig(128, 256, 4),
    WgmmaConfig(256, 128, 4),
    WgmmaConfig(256, 208, 3, epilogue="direct"),
    WgmmaConfig(256, 200, 3, epilogue="direct"),
    WgmmaConfig(256, 192, 4, epilogue="direct"),
    WgmmaConfig(256, 176, 4),
    WgmmaConfig(128, 192, 4),
    WgmmaConfig(128, 128, 6),
    WgmmaConfig(128, 64, 8),
)


@dataclass(frozen=True, slots=True)
class Ring:
    """The shared memory of a Config, in bytes: a tile of A, one of B, a box of out, the staging, and the total."""

    a_bytes: int
    b_bytes: int
    store_columns: int
    store_bytes: int
    staging_bytes: int
    smem_bytes: int


@lru_cache(maxsize=256)
def fitted(
    mn_major: tuple[bool, bool],
    output_bytes: int,
    out_by_tma: bool,
    most: int,
    smem_bytes: int,
    sm_count: int,
    macs: int,
) -> tuple[tuple[WgmmaConfig, cost.Tiling], ...]:
    """The candidates with the epilogue that out allows, with as many of their stages as fit, and how they divide out.

    `most` accumulators per thread; MN-major tiles may be larger than those for which a candidate's stages were counted.
    """
    bytes_per_clock = cost.delivery("wgmma", macs, 2)
    found = []
    for config in _CANDIDATES:
        if config.tile_m * config.tile_n > most * WARPGROUP * CONSUMERS:
            continue
        if config.cluster_m * config.cluster_n > sm_count:
            continue
        if output_bytes != 2:
            config = replace(config, epilogue="direct", overlap=False)
        elif not out_by_tma:
            config = replace(config, epilogue="direct")
        while (ring := ring_of(config, *mn_major)).smem_bytes > smem_bytes:
            config = replace(config, stages=config.stages - 1)
        step_clocks = (
            cost.multiply_clocks(config.tile_m, config.tile_n, TILE_K, macs)
            + (ring.a_bytes + ring.b_bytes) / bytes_per_clock
        )
        rows, columns = config.tile_m * config.cluster_m, config.tile_n * config.cluster_n
        at_once = sm_count // (config.cluster_m * config.cluster_n)
        found.append((config, cost.Tiling(rows, columns, at_once, step_clocks, cost.TILE_CLOCKS["wgmma"])))
    return tuple(found)


def ring_of(config: WgmmaConfig, a_mn_major: bool, b_mn_major: bool) -> Ring:
    """The Ring of a Config for operands that are K-major or MN-major."""
    a_bytes, b_bytes = _tile_bytes(config.tile_m, a_mn_major), _tile_bytes(config.tile_n, b_mn_major)
    store_columns = next(columns for columns in (64, 32, 16, 8) if config.tile_n % columns == 0 or columns == 8)
    store_bytes = 16 * store_columns * 2
    staging_bytes = CONSUMERS * 4 * STORE_BUFFERS * store_bytes if config.epilogue == "tma" else 0
    smem_bytes = tma.ring_bytes(config.stages, a_bytes + b_bytes, staging_bytes)
    return Ring(a_bytes, b_bytes, store_columns, store_bytes, staging_bytes, smem_bytes)


def _tile_bytes(rows: int, mn_major: bool) -> int:
    """Bytes of one operand's tile of `rows` along m or n; MN-major comes in panels of 64 (layout/descriptor.cuh)."""
    return ceil(rows / 64) * 64 * TILE_K * 2 if mn_major else rows * TILE_K * 2
