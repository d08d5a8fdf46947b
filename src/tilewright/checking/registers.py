"""What a debugger shows at a line: the registers of one thread, before and after each instruction there."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.emulator import Observer
from tilewright.emulator.lanes import Active, Array, Group, lanes_of
from tilewright.emulator.machine.words import Words
from tilewright.errors import ArgumentValueError

_PLACE = re.compile(r"(?P<line>[^@\s]+:\d{1,9})(?:@(?P<thread>\d{1,9}))?")
FORM = "FILE:LINE or FILE:LINE@THREAD"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source, or of the PTX as PTX:LINE, and a thread of CTA 0."""

    line: str
    thread: int = 0

    @classmethod
    def parse(cls, text: str, written: str) -> "Place":
        """The place that a user names; written: how, in messages. Raises an ArgumentValueError for what is none."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ArgumentValueError(f"{written} is no place: write {FORM}, such as sum.cu:9@5")
        return cls(match["line"], int(match["thread"] or 0))

    def __str__(self) -> str:
        return f"{self.line}@{self.thread}"


class RegisterTrace(Observer):
    """The registers of a thread of CTA 0 when it first executes each instruction at a line.

    found: for each instruction, in this order, an object with `instruction` (with its line), `read` and `written`,
    which have an object for each register: see `meanings`.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.found: list[dict[str, Any]] = []
        self._seen: set[int] = set()
        self._words: Words | None = None

    def began(self, words: Words) -> None:
        """Keep the words of the CTAs that run now."""
        self._words = words

    def ended(self) -> None:
        """Forget them."""
        self._words = None

    def traced(
        self, site: int, group: Group, active: Active, read: Mapping[str, Array], written: Mapping[str, Array]
    ) -> None:
        """Record the thread's registers if it takes part for the first time."""
        assert self._words is not None
        if site in self._seen:
            return
        here = (group.thread == self.place.thread) & (self._words.cta_numbers[group.cta] == 0)
        if active is not None:
            here = here & active
        lanes = np.flatnonzero(here)
        if not lanes.size:
            return
        self._seen.add(site)
        before, after = (
            [meanings(name, lanes_of(values, group.size)[lanes[0]]) for name, values in registers.items()]
            for registers in (read, written)
        )
        self.found.append({"instruction": self._words.describe(site), "read": before, "written": after})


def meanings(name: str, bits: np.generic) -> dict[str, Any]:
    """What the bits of a register may mean.

    Keys: `register`, `bits` (how many) and `value`, as an unsigned number or a truth value; of 32 bits also `f32` and
    the pairs `f16` and `bf16`, lower half first; of 16 `f16` and `bf16`; of 64 `f64`. A number that is not finite is
    None.
    """
    if bits.dtype == np.bool_:
        return {"register": name, "bits": 1, "value": bool(bits)}
    words = np.asarray(bits).reshape(1)
    known: dict[str, Any] = {"register": name, "bits": 8 * words.itemsize, "value": int(words[0])}
    if words.itemsize == 8:
        return known | {"f64": _finite(words.view(np.float64))[0]}
    if words.itemsize == 4:
        known["f32"] = _finite(words.view(np.float32))[0]
    if words.itemsize >= 2:
        halves = words.view(np.uint16)
        known |= {"f16": _finite(halves.view(np.float16)), "bf16": _finite(halves.view(ml_dtypes.bfloat16))}
    return known


def _finite(values: Array) -> list[float | None]:
    return [number if math.isfinite(number) else None for number in map(float, values)]
