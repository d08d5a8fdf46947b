"""The orders of asynchronous completion under which a kernel is checked."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """An order in which asynchronous copies and multiplications complete; see `tilewright.emulator.Device`."""

    policy: Literal["eager", "lazy", "random"]
    seed: int = 0

    def __str__(self) -> str:
        return f"random({self.seed})" if self.policy == "random" else self.policy


def asynchronies(count: int, seed: int = 0) -> list[Asynchrony]:
    """The eager and the lazy order, and `count` random ones; the first random one has this seed."""
    return [
        Asynchrony("eager"),
        Asynchrony("lazy"),
        *(Asynchrony("random", seed + number) for number in range(count)),
    ]
