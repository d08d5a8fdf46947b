"""The first request to memory of each instruction of a rung, as the emulator's counters see it while the PTX runs."""

import importlib.resources
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.api import matmul
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator.counts.counters import Chain
from tilewright.emulator.counts.memory import rows_of_warps
from tilewright.emulator.lanes import Group
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.machine.words import Words
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.kernels.ladder import LADDER
from tilewright.operand import Operand

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """What one warp asks for at once.

    lines: the source line "file:number" and where that is inlined, innermost first. kind: "ld", "st", "ldmatrix", ...;
    warp: its number in the order of those that make the same request.
    operand: "a", "b", "out" or, in SMEM, "". width: bytes of each lane. offsets: of the lanes that take part, in bytes
    from where the operand starts, or in SMEM from `start`, the 128 bytes, one row of the banks, where the first lies.
    """

    lines: Chain
    kind: str
    warp: int
    operand: str
    width: int
    lanes: tuple[int, ...]
    offsets: Offsets
    start: int


class _RecordingBackend(EmulatedBackend):
    """Knows where the operands lie."""

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        with super().resident(operands, stream) as addresses:
            self.starts = {name: address - GLOBAL_BASE for name, address in addresses.items()}
            yield addresses

    def operand_at(self, offset: int) -> tuple[str, int]:
        """The operand in which a byte of global memory lies, and where that starts."""
        return max((item for item in self.starts.items() if item[1] <= offset), key=lambda item: item[1])


class _Recorder(Observer):
    """The observer that keeps the first access of each instruction: its space, its width and the offsets by warp."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], tuple[str, int, Offsets]] = {}

    def began(self, words: Words) -> None:
        self.words = words

    def accessed(
        self, site: int, kind: str, space: str, group: Group, where: Offsets, width: int, chosen: Offsets | None
    ) -> None:
        if kind == "cp.async" and space == "global":
            kind = "ld"
        by_warp = rows_of_warps(group, where, chosen)
        if (used := by_warp[(by_warp >= 0).any(axis=1)]).size and space != "local":
            seen = used[:1] if kind in ("ldmatrix", "stmatrix") else used
            self.seen.setdefault((site, kind), (space, width, seen))


@cache
def requests(name: str, shape: tuple[int, int, int]) -> list[Request]:
    """The first requests of each warp, one an instruction (of cp.async two), in the order in which they came.

    The product of a rung's usual Config and element type runs in the emulator.
    """
    rung = LADDER[name]
    m, n, k = shape
    kind = rung.inputs[0].numpy_dtype
    a, b = np.ones((m, k), kind, order=_ORDER[rung.layout[0]]), np.ones((k, n), kind, order=_ORDER[rung.layout[1]])
    recorder = _Recorder()
    backend = _RecordingBackend(observers=[recorder])
    matmul(a, b, kernel=name, backend=backend)
    found: list[Request] = []
    for (site, action), (space, width, by_warp) in recorder.seen.items():
        location = recorder.words.instruction(site).location
        for warp, offsets in enumerate(by_warp):
            lanes = np.flatnonzero(offsets >= 0)
            first = int(offsets[lanes].min())
            operand, start = backend.operand_at(first) if space == "global" else ("", first // 128 * 128)
            places = offsets[lanes] - start
            chain = location.chain if location else ()
            found.append(Request(chain, action, warp, operand, width, tuple(lanes.tolist()), places, start))
    return found


_ORDER: dict[str, Any] = {"n": "C", "t": "F"}


def of_operand(name: str, shape: tuple[int, int, int], operand: str) -> Request:
    """The first request to A, B or out in global memory."""
    return next(each for each in requests(name, shape) if each.operand == operand)


def of_line(name: str, shape: tuple[int, int, int], header: str, text: str, warp: int = 0) -> list[Request]:
    """A warp's requests to SMEM of the line of a header in cuda/ that has this text, or of what is inlined into it."""
    source = (importlib.resources.files("tilewright") / "cuda" / header).read_text(encoding="utf-8")
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    line = f"{header.rpartition('/')[2]}:{number}"
    return [each for each in requests(name, shape) if line in each.lines and not each.operand and each.warp == warp]
