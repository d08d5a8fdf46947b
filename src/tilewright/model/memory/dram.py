"""DRAM: why neighbors in memory are cheap, and what a stride costs.

A bit is a charge in a capacitor, behind a transistor. All cells of a row share a wire that opens their transistors; a
bank copies the whole row into its row buffer (activate), serves accesses from there, and writes the row back before
it opens another one (precharge). The time from one activation of a bank to the next is the row cycle. So accesses to
an open row are quick, and many banks work side by side to hide the others.

Sources: JEDEC, JESD235 (HBM2: 8 channels a stack) and JESD238 (HBM3: 16), both with two pseudo channels each, 16 banks
in each of them, and rows of 1 KiB; DRAMsim3's HBM for tRAS + tRP; NVIDIA's data sheets and white papers for stacks. How
addresses choose channels and banks is not published. For walks, consecutive KiB are in consecutive banks here. For
strides, an H200 has said how many neighbors share an open row, and how soon the next one can be opened
(results/strides_h200.json).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.hardware import SECTOR_BYTES
from tilewright.model.chips import AnyChip, chip_of
from tilewright.rounding import ceil_div, natural

ROW_BYTES = 1024
BANKS_PER_CHANNEL = 16
ROW_CYCLE = 48e-9
"""Seconds from one activation of a bank to the next: tRAS + tRP of 34 and 14 ns. DRAM cores changed little since."""

PIECE_BYTES = 256
"""Neighbors that share an open row, measured: pieces of this size are spread over channels and banks."""
ACTIVATION = 5.5e-9
"""Seconds from one activation in a pseudo channel to the next one, in whichever of its banks; measured."""
FETCHES = (32, 64, 128)
"""Bytes that L2 may fetch for a sector that it lacks: CUDA's limit, which the driver takes as a hint."""

_PSEUDO_CHANNELS = {"HBM2": 16, "HBM2e": 16, "HBM3": 32, "HBM3e": 32}
"""Of a stack."""
_STACKS = {"V100": 4, "A100": 5, "H100-SXM": 5, "H100-PCIe": 5, "H200": 6, "H800": 5, "H20": 6, "B200": 8}

MOST_SECTORS = 1 << 21
"""Of a matrix that is walked: more take too long to simulate."""


class Dram(NamedTuple):
    """The DRAM of a chip. banks: of all stacks together, each with one open row. bandwidth: bytes per second."""

    stacks: int
    channels: int
    banks: int
    bandwidth: float

    @property
    def row_rate(self) -> float:
        """Rows that are opened in a second, at most: by the row cycle of all banks, and by channels' activations."""
        return min(self.banks / ROW_CYCLE, self.channels / ACTIVATION)

    def strided_bandwidth(self, stride: int, fetch: int = SECTOR_BYTES) -> float:
        """The most bytes per second of wanted sectors, if one sector in `stride` bytes is read.

        fetch: bytes that L2 fetches for each. All that is wanted of a piece comes from one open row, and then the next
        row is opened. Raises an ArgumentValueError for a stride below a sector, and for another fetch than FETCHES.
        """
        if natural("stride", stride) < SECTOR_BYTES:
            raise ArgumentValueError(f"stride={stride} is less than a sector: give {SECTOR_BYTES} bytes or more")
        if fetch not in FETCHES:
            raise ArgumentValueError(f"fetch={fetch} is no limit of L2: use {', '.join(map(str, FETCHES))}")
        piece = max(stride, PIECE_BYTES)
        sectors = piece / stride
        fetched = min(sectors * fetch, piece)
        return sectors * SECTOR_BYTES / max(1 / self.row_rate, fetched / self.bandwidth)


def dram_of(chip: AnyChip) -> Dram:
    """The DRAM of a chip with HBM; an ArgumentValueError lists such chips."""
    chip = chip_of(chip)
    if chip.name not in _STACKS:
        raise ArgumentValueError(f"chip={chip.name!r} has {chip.memory} and no HBM: use {', '.join(_STACKS)}")
    stacks = _STACKS[chip.name]
    channels = stacks * _PSEUDO_CHANNELS[chip.memory]
    return Dram(stacks, channels, channels * BANKS_PER_CHANNEL, chip.gpu.memory_bandwidth)


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk through a matrix: sectors that are read, and rows of DRAM that are opened for them."""

    sectors: int
    activations: int

    @property
    def sectors_per_row(self) -> float:
        """Sectors for each row that is opened; a row has 32."""
        return self.sectors / self.activations if self.activations else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "sectors": self.sectors, "activations": self.activations, "sectors_per_row": self.sectors_per_row,
        }  # fmt: skip


def activations(addresses: Iterable[int], banks: int) -> Walk:
    """The rows that reads at these byte addresses open, one after another, with one open row in each bank."""
    is_open: dict[int, int] = {}
    sectors = opened = 0
    for address in addresses:
        sectors += 1
        row = address // ROW_BYTES
        if is_open.get(row % banks) != row:
            opened += 1
            is_open[row % banks] = row
    return Walk(sectors, opened)


def walk(rows: int, columns: int, element_bytes: int, banks: int, *, down: bool) -> Walk:
    """A walk through a row-major matrix, a sector at a time: along its rows, or `down` its columns.

    Raises an ArgumentValueError for an extent below 1, or a matrix that takes too long.
    """
    for name, value in (("rows", rows), ("columns", columns), ("element_bytes", element_bytes), ("banks", banks)):
        natural(name, value, 1)
    pitch = columns * element_bytes
    across = ceil_div(pitch, SECTOR_BYTES)
    if rows * across > MOST_SECTORS:
        raise ArgumentValueError(
            f"a matrix of {rows} x {columns} has {rows * across:,} sectors: give one with at most {MOST_SECTORS:,}"
        )
    if down:
        places = (row * pitch + sector * SECTOR_BYTES for sector in range(across) for row in range(rows))
    else:
        places = (row * pitch + sector * SECTOR_BYTES for row in range(rows) for sector in range(across))
    return activations(places, banks)
