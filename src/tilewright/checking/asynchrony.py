"""The orders of asynchronous completion under which a kernel is checked."""

from dataclasses import dataclass
from typing import Literal

from tilewright.errors import ArgumentValueError


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """An order in which asynchronous copies and multiplications complete; see `tilewright.emulator.Device`."""

    policy: Literal["eager", "lazy", "random"]
    seed: int = 0

    def __str__(self) -> str:
        return f"random({self.seed})" if self.policy == "random" else self.policy


MOST_RANDOM = 10_000
"""The most random orders of a check."""


def asynchronies(count: int, seed: int = 0) -> list[Asynchrony]:
    """The eager and the lazy order, and `count` random ones; the first random one has this seed."""
    if count > MOST_RANDOM:
        raise ArgumentValueError(f"schedules is {count}, and a check takes at most {MOST_RANDOM}: take fewer")
    return [
        Asynchrony("eager"),
        Asynchrony("lazy"),
        *(Asynchrony("random", seed + number) for number in range(count)),
    ]
