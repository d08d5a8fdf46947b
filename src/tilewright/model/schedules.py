"""Schedules of tiles: what each wave of CTAs reads of A and B, and what an L2 makes of it.

A wave reads the rows of tiles of A and the columns of tiles of B in which its tiles lie, each once if the L2 holds
them. So it reads least if its tiles make a square. Source of the example with 64 tiles on 10 SMs: A. Gordić, "Inside
NVIDIA GPUs", figures 44 to 46.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.hardware import MAX_SMEM_BYTES
from tilewright.model.l2 import Cache, PartitionReads, Reads, Request, product_requests, simulate, simulate_partitions
from tilewright.model.memory.pattern import Expression
from tilewright.model.raster import blocked_tile, grouped_tile, hilbert_tile, row_major_tile
from tilewright.model.waves import require_tile
from tilewright.rounding import ceil_div, natural

MOST_TILES = 1 << 18
"""Of a result: more would take too long to number and to draw."""
MOST_LINES = 1 << 25
"""That an L2 reads in a simulation, which takes half a minute."""
MOST_LINE_BYTES = 16_384
"""Lines of the simulated L2 are as large as this where tiles allow it, since large lines are quick to simulate."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of tiles, as (row, column) in tiles, of which CTAs take one after another, `slots` at once."""

    name: str
    order: tuple[tuple[int, int], ...]
    slots: int

    @property
    def waves(self) -> list[tuple[tuple[int, int], ...]]:
        """The tiles of each wave."""
        return [self.order[first : first + self.slots] for first in range(0, len(self.order), self.slots)]

    @property
    def operands(self) -> list[int]:
        """For each wave, the different rows of tiles of A and columns of tiles of B that it reads, added up."""
        return [len({m for m, _ in wave}) + len({n for _, n in wave}) for wave in self.waves]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; without the order, which follows from the name."""
        return {"name": self.name, "waves": len(self.waves), "operands": self.operands, "read": sum(self.operands)}


def schedules(
    tiles_m: int, tiles_n: int, slots: int, blocks: Sequence[tuple[int, int]] = (), groups: Sequence[int] = ()
) -> list[Schedule]:
    """The orders of a result of tiles_m x tiles_n tiles: row by row, in bands, in blocks, and along Hilbert's curve.

    blocks: tiles along m and n of each kind of block. groups: rows of each kind of band. Raises an ArgumentValueError
    for an extent below 1.
    """
    every = _all_tiles(tiles_m, tiles_n, slots)

    def made(name: str, order: list[tuple[int, int]]) -> Schedule:
        return Schedule(name, tuple(order), slots)

    found = [made("row by row", [row_major_tile(index, tiles_m, tiles_n) for index in every])]
    for group in groups:
        natural("group", group, 1)
        order = [grouped_tile(index, tiles_m, tiles_n, group) for index in every]
        found.append(made(f"bands of {group} rows", order))
    for block_m, block_n in blocks:
        natural("block", min(block_m, block_n), 1)
        order = [blocked_tile(index, tiles_m, tiles_n, block_m, block_n) for index in every]
        found.append(made(f"blocks of {block_m} x {block_n}", order))
    return [*found, made("Hilbert's curve", [hilbert_tile(index, tiles_m, tiles_n) for index in every])]


def schedule_of(expression: str, tiles_m: int, tiles_n: int, slots: int) -> Schedule:
    """The order in which the tile of turn `index` has the number that an expression gives, row by row from 0 on.

    The expression may name index, tiles_m and tiles_n. Raises an ArgumentValueError unless it takes each tile once.
    """
    parsed, every = Expression(expression), _all_tiles(tiles_m, tiles_n, slots)
    order: dict[int, int] = {}
    total = len(every)
    for index in every:
        number = parsed.value(index=index, tiles_m=tiles_m, tiles_n=tiles_n)
        if number is None or number >= total or number in order:
            wrong = "no tile" if number is None or number >= total else f"that of index {order[number]}"
            raise ArgumentValueError(
                f"{expression!r} is {number} at index {index}, {wrong}: give each of the numbers 0 to {total - 1} once"
            )
        order[number] = index
    return Schedule(expression, tuple(divmod(number, tiles_n) for number in order), slots)


def _all_tiles(tiles_m: int, tiles_n: int, slots: int) -> range:
    """The numbers of all tiles; an ArgumentValueError for an extent below 1, and for too many tiles."""
    for name, value in (("tiles_m", tiles_m), ("tiles_n", tiles_n), ("slots", slots)):
        natural(name, value, 1)
    if tiles_m * tiles_n > MOST_TILES:
        raise ArgumentValueError(
            f"{tiles_m:,} x {tiles_n:,} are too many tiles to follow: give a smaller result or larger tiles, "
            f"{MOST_TILES:,} tiles at most"
        )
    return range(tiles_m * tiles_n)


@dataclass(frozen=True, slots=True)
class TileSizes:
    """The tile of a CTA: its extents along m, n and k, and the bytes of an element of A and B.

    Raises an ArgumentValueError as `require_tile` does, and for a step of k that no SM's shared memory holds.
    """

    m: int
    n: int
    k: int
    element_bytes: int

    def __post_init__(self) -> None:
        require_tile(self.m, self.n)
        step = (self.m + self.n) * natural("tile_k", self.k, 1) * natural("element_bytes", self.element_bytes, 1)
        if step > MAX_SMEM_BYTES:
            raise ArgumentValueError(
                f"tile_k={self.k} takes {step:,} bytes of SMEM for A and B, and a CTA has {MAX_SMEM_BYTES:,}: give a "
                "smaller tile"
            )


def line_bytes_of(tile: TileSizes) -> int:
    """The largest lines, up to MOST_LINE_BYTES, of which a CTA's parts of A and of B for a step of k are multiples."""
    step = tile.k * tile.element_bytes
    return gcd(gcd(tile.m * step, tile.n * step), MOST_LINE_BYTES)


@dataclass(frozen=True, slots=True)
class ScheduleReads:
    """What a schedule reads through an L2, in bytes.

    reads: by all CTAs, and of it from HBM. least_bytes: what of A and B its tiles need, each element once.
    """

    reads: Reads
    least_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "l2_bytes": self.reads.nbytes, "hbm_bytes": self.reads.missed, "least_bytes": self.least_bytes,
            "hit_rate": self.reads.hit_rate,
        }  # fmt: skip


def schedule_reads(schedule: Schedule, shape: tuple[int, int, int], tile: TileSizes, l2_bytes: int) -> ScheduleReads:
    """The reads of a product with this schedule, from an L2 of so many bytes; any order of tiles will do.

    shape: m, n and k; tiles at the edges, and the last step of k, read what is there. Raises an ArgumentValueError for
    an extent below 1, and for tiles outside the result.
    """
    requests, cache = _requests(schedule, shape, tile, l2_bytes)
    (m, n, k), (rows, columns) = shape, ({place[axis] for place in schedule.order} for axis in (0, 1))
    least = sum(min(tile.m, m - row * tile.m) for row in rows)
    least += sum(min(tile.n, n - column * tile.n) for column in columns)
    return ScheduleReads(simulate(requests, cache), least * k * tile.element_bytes)


def schedule_in_partitions(
    schedule: Schedule, shape: tuple[int, int, int], tile: TileSizes, l2_bytes: int, *, copies: bool
) -> PartitionReads:
    """The same from an L2 in two partitions; copies: as for `simulate_partitions`."""
    return simulate_partitions(*_requests(schedule, shape, tile, l2_bytes), copies=copies)


def _requests(
    schedule: Schedule, shape: tuple[int, int, int], tile: TileSizes, l2_bytes: int
) -> tuple[Iterator[Request], Cache]:
    m, n, k = shape
    for name, value in (("m", m), ("n", n), ("k", k), ("l2_bytes", l2_bytes)):
        natural(name, value, 1)
    for row, column in schedule.order:
        if not (0 <= row * tile.m < m and 0 <= column * tile.n < n):
            raise ArgumentValueError(f"tile ({row}, {column}) of {schedule.name} is outside {m} x {n}: leave it out")
    cache = Cache(l2_bytes, line_bytes=line_bytes_of(tile))
    each = (tile.m + tile.n) * tile.k * tile.element_bytes // cache.line_bytes
    lines = len(schedule.order) * ceil_div(k, tile.k) * each
    if lines > MOST_LINES:
        raise ArgumentValueError(
            f"L2 would read {lines:,} lines of {cache.line_bytes:,} bytes, which takes too long to simulate: give a "
            f"smaller product or tiles of larger powers of two, for {MOST_LINES:,} lines at most"
        )
    requests = product_requests(
        schedule.order, m=m, n=n, k=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, element_bytes=tile.element_bytes,
        ctas=schedule.slots, line_bytes=cache.line_bytes,
    )  # fmt: skip
    return requests, cache
