"""The first request to memory of each instruction of a rung, as the emulator's counters see it while the PTX runs."""

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator.counters import WARP, Chain, Counters, MemoryCounter, shared_wavefronts
from tilewright.kernels.ladder import LADDER

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """What one warp asks for at once.

    lines: the source line "file:number" and where that is inlined, innermost first. kind: "ld", "st", "ldmatrix", ...;
    offsets: of the lanes that take part, in bytes from the first of them; width: bytes of each.
    """

    lines: Chain
    kind: str
    space: str
    width: int
    lanes: tuple[int, ...]
    offsets: Offsets

    @property
    def wavefronts(self) -> tuple[int, int]:
        """Passes that SMEM needs for it, and would without bank conflicts."""
        if self.kind.endswith("matrix"):
            parts = [shared_wavefronts(_warp(part), 16, False) for part in self.offsets.reshape(-1, 8)]
            return sum(found for found, _ in parts), len(parts)
        by_warp = np.full((1, WARP), -1, np.int64)
        by_warp[0, list(self.lanes)] = self.offsets
        return shared_wavefronts(by_warp, self.width, self.kind == "ld")


def _warp(offsets: Offsets) -> Offsets:
    """A warp of which the first lanes alone take part."""
    return np.pad(offsets, (0, WARP - len(offsets)), constant_values=-1)[None]


@cache
def requests(name: str, shape: tuple[int, int, int]) -> list[Request]:
    """The requests of the first warp of the first CTA, one an instruction, in the order in which they came.

    The product of a rung's usual Config and element type runs in the emulator.
    """
    rung = LADDER[name]
    m, n, k = shape
    kind = rung.inputs[0].numpy_dtype
    a, b = np.ones((m, k), kind, order=_ORDER[rung.layout[0]]), np.ones((k, n), kind, order=_ORDER[rung.layout[1]])
    seen: dict[int, tuple[str, str, int, Offsets]] = {}
    found: list[Request] = []

    def access(_: Any, site: int, kind: str, space: str, width: int, group: Any, where: Any, chosen: Any) -> None:
        offsets = np.full(group.size, -1, np.int64)
        offsets[slice(None) if chosen is None else chosen] = where
        tiles = group.warps.spread(offsets)
        if group.warps.present is not None:
            tiles = np.where(group.warps.present, tiles, -1)
        by_warp = tiles.swapaxes(1, 2).reshape(-1, WARP)
        if (used := by_warp[(by_warp >= 0).any(axis=1)]).size:
            seen.setdefault(site, (kind, space, width, used[0]))

    def matrix(_: Any, site: int, kind: str, rows: Any, count: int) -> None:
        offsets = rows.swapaxes(1, 2).reshape(-1, WARP)[0].copy()
        offsets[8 * count :] = -1
        seen.setdefault(site, (kind, "shared", 16, offsets))

    def summed(_: Any, instructions: Sequence[Any]) -> Counters:
        for site, (kind, space, width, offsets) in seen.items():
            lanes = np.flatnonzero(offsets >= 0)
            location = instructions[site].location
            places = offsets[lanes] - offsets[lanes].min()
            found.append(Request(location.chain if location else (), kind, space, width, tuple(lanes.tolist()), places))
        return Counters()

    with (
        mock.patch.object(MemoryCounter, "access", access),
        mock.patch.object(MemoryCounter, "matrix", matrix),
        mock.patch.object(Counters, "summed", summed),
    ):
        tw.matmul(a, b, kernel=name, backend=EmulatedBackend(count_memory=True))
    return found


_ORDER: dict[str, Any] = {"n": "C", "t": "F"}


def request(name: str, shape: tuple[int, int, int], header: str, text: str, nth: int = 0) -> Request:
    """The nth request of the line of a header in cuda/ that has this text, or of what is inlined into it."""
    source = (importlib.resources.files("tilewright") / "cuda" / header).read_text(encoding="utf-8")
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    line = f"{header.rpartition('/')[2]}:{number}"
    return [each for each in requests(name, shape) if line in each.lines][nth]
