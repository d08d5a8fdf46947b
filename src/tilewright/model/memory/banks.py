"""SMEM's banks: how many passes a warp's access takes, and which lanes each pass serves.

SMEM has 32 banks of 4 bytes, and word w lies in bank w mod 32. A pass, which profilers call a wavefront, serves each
bank once: one word of it goes to all lanes that want it (multicast), and lanes that want different words of one bank
take turns (a bank conflict). Sources: CUDA C++ Programming Guide, "Shared Memory" of compute capabilities 5.x and 7.x;
what 8- and 16-byte accesses do was compared with an H200's counters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.rounding import natural, one_of

Indices: TypeAlias = npt.NDArray[np.int64]

BANK_BYTES = 4
MOST_BYTES = 1 << 48
"""Addresses lie below: more than the memory of any GPU."""
BANKS = 32
_ROW_BYTES = BANKS * BANK_BYTES
_FEW = 64
"""Rows from which it pays to look for patterns among them."""
_FAR = 1 << 62
_KEYS = np.random.default_rng(0).integers(1, 1 << 40, 32)
"""Factors that make a number of a row's offsets: equal rows have equal numbers, and others hardly ever do."""

WIDTHS = (1, 2, 4, 8, 16)
"""Bytes that a lane can access at once."""

Access = Literal["ld", "st"]
"""What the warp does. ldmatrix and stmatrix take rows of 16 bytes, eight in a pass, as `st` with a width of 16 does."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The lanes of an access that SMEM serves together, as far as banks allow.

    lanes: those with an address. words: by bank, the words wanted from it, each with the lanes that want it.
    """

    lanes: tuple[int, ...]
    words: dict[int, dict[int, tuple[int, ...]]]

    @property
    def wavefronts(self) -> int:
        """Passes that the phase takes: the most words in one bank."""
        return max((len(found) for found in self.words.values()), default=0)

    @property
    def multicasts(self) -> int:
        """Words that go to several lanes."""
        return sum(len(lanes) > 1 for found in self.words.values() for lanes in found.values())


@dataclass(frozen=True, slots=True)
class BankUse:
    """What a warp's access to SMEM takes.

    wavefronts: passes over the banks. ideal: passes that as many lanes take without a conflict. phases: see Phase.
    """

    wavefronts: int
    ideal: int
    phases: tuple[Phase, ...]

    @property
    def conflicts(self) -> int:
        """Passes beyond the ideal."""
        return self.wavefronts - self.ideal

    @property
    def ways(self) -> float:
        """How many times as long the access takes as without conflicts: 8 for an 8-way conflict."""
        return self.wavefronts / self.ideal if self.ideal else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "wavefronts": self.wavefronts,
            "ideal": self.ideal,
            "conflicts": self.conflicts,
            "ways": self.ways,
            "phases": [
                {
                    "lanes": list(phase.lanes),
                    "wavefronts": phase.wavefronts,
                    "multicasts": phase.multicasts,
                    "words": {bank: {word: list(lanes) for word, lanes in sorted(found.items())}
                              for bank, found in sorted(phase.words.items())},
                }
                for phase in self.phases
            ],
        }  # fmt: skip


def bank_use(addresses: Sequence[int | None] | Indices, width: int = 4, access: Access = "ld") -> BankUse:
    """What one access of `width` bytes by a warp takes; addresses and errors are those of `warp_addresses`."""
    addresses = warp_addresses(addresses, width)
    one_of("access", access, get_args(Access))
    loads = access == "ld"
    row = addresses[None]
    wavefronts, ideal = shared_wavefronts(row, width, loads)
    parts = max(1, width // BANK_BYTES)
    if parts > 1 and loads and _pairs_coincide(row)[0]:
        parts //= 2
    together = len(addresses) // parts
    phases = (_phase(addresses, width, range(first, first + together)) for first in range(0, len(addresses), together))
    return BankUse(wavefronts, ideal, tuple(phase for phase in phases if phase.lanes))


def warp_addresses(addresses: Sequence[int | None] | Indices, width: int) -> Indices:
    """The addresses in bytes of the 32 lanes of a warp that accesses `width` bytes, -1 for a lane without one.

    addresses: of the first lanes, up to 32 of them; None and -1 stand for no access, and so does the end of the list.
    Raises an ArgumentValueError for a width that no instruction has, for addresses that are no multiples of it from 0
    on, and for none or too many of them.
    """
    if width not in WIDTHS:
        raise ArgumentValueError(f"width={width} is no width of an access: use {', '.join(map(str, WIDTHS))} bytes")
    if not 1 <= len(addresses) <= BANKS:
        raise ArgumentValueError(f"addresses of {len(addresses)} lanes are those of no warp: give 1 to {BANKS}")
    found = np.full(BANKS, -1, np.int64)
    found[: len(addresses)] = (
        addresses
        if isinstance(addresses, np.ndarray)
        else [
            -1 if each in (None, -1) else natural(f"addresses[{lane}]", each, 0, MOST_BYTES)
            for lane, each in enumerate(addresses)
        ]
    )
    wrong = np.flatnonzero((found < -1) | (found >= 0) & (found % width != 0))
    if wrong.size:
        lane = int(wrong[0])
        raise ArgumentValueError(
            f"lane {lane} accesses {width} bytes at {int(found[lane])}: give multiples of {width} from 0 on, as "
            "the hardware requires"
        )
    return found


def _phase(addresses: Indices, width: int, lanes: range) -> Phase:
    words: dict[int, dict[int, tuple[int, ...]]] = {}
    active = tuple(lane for lane in lanes if addresses[lane] >= 0)
    for lane in active:
        first = int(addresses[lane]) // BANK_BYTES
        for word in range(first, first + max(1, width // BANK_BYTES)):
            of_bank = words.setdefault(word % BANKS, {})
            of_bank[word] = (*of_bank.get(word, ()), lane)
    return Phase(active, words)


def shared_wavefronts(by_warp: Indices, width: int, loads: bool) -> tuple[int, int]:
    """Passes of accesses of `width` bytes at offsets (warps, 32), -1 for none; and the number without bank conflicts.

    A pass serves each bank once; all lanes that read the same word are served together. 8-byte accesses go in halves of
    a warp and 16-byte ones in quarters, since a pass moves at most 128 bytes. A pass of a load serves twice as many
    lanes if all lanes of the warp that differ in bit 0 of their number, or all that differ in bit 1, have the same
    address (documented by NVIDIA for compute capability 7.x).
    """
    parts = max(1, width // BANK_BYTES)
    if parts == 1 or not loads:
        return _passes(by_warp, width, parts)
    paired = _pairs_coincide(by_warp)
    alone, together = _passes(by_warp[~paired], width, parts), _passes(by_warp[paired], width, parts // 2)
    return alone[0] + together[0], alone[1] + together[1]


def _passes(by_warp: Indices, width: int, parts: int) -> tuple[int, int]:
    """The wavefronts, and the number of parts of a warp that have an access at all."""
    lanes = by_warp.reshape(-1, by_warp.shape[1] // parts)
    return int(most_words_in_a_bank(lanes, width).sum()), rows_in_use(lanes)


def rows_in_use(rows: Indices) -> int:
    """The number of rows that have an access at all."""
    return int((rows >= 0).any(axis=1).sum())


def _pairs_coincide(by_warp: Indices) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each warp, whether lanes n and n ^ 1, or n and n ^ 2, have the same address wherever both are active."""
    coincide = np.zeros(len(by_warp), np.bool_)
    lanes = np.arange(by_warp.shape[1])
    for bit in (1, 2):
        other = by_warp[:, lanes ^ bit]
        coincide |= ((by_warp == other) | (by_warp < 0) | (other < 0)).all(axis=1)
    return coincide


def most_words_in_a_bank(offsets: Indices, width: int, broadcast: bool = True) -> Indices:
    """The largest number of words in one bank, for each row; with broadcast, a word of many lanes counts once.

    Most warps access memory alike, up to a shift by whole rows of banks: each pattern is counted once.
    """
    if len(offsets) < _FEW:
        return _most_words(offsets, width, broadcast)
    lowest = np.where(offsets < 0, _FAR, offsets).min(axis=1, keepdims=True) // _ROW_BYTES * _ROW_BYTES
    patterns = np.where(offsets < 0, -1, offsets - lowest)
    _, first, inverse = np.unique(patterns @ _KEYS[: offsets.shape[1]], return_index=True, return_inverse=True)
    if 2 * first.size > len(offsets) or (patterns != patterns[first][inverse]).any():
        return _most_words(offsets, width, broadcast)
    return _most_words(patterns[first], width, broadcast)[inverse]


def _most_words(offsets: Indices, width: int, broadcast: bool) -> Indices:
    each = max(1, width // BANK_BYTES)
    words = np.repeat(offsets // BANK_BYTES, each, axis=1) + np.tile(np.arange(each), offsets.shape[1])
    words = np.sort(np.where(np.repeat(offsets < 0, each, axis=1), -1, words), axis=1)
    counted = words >= 0
    if broadcast:
        counted[:, 1:] &= words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(len(offsets))[:, None], words.shape)
    counts = np.bincount((row * BANKS + words % BANKS)[counted], minlength=len(offsets) * BANKS)
    result: Indices = counts.reshape(-1, BANKS).max(axis=1, initial=0)
    return result
