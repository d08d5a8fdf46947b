"""The least time of a pass through a model on a chip, and what a faster GEMM would gain."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.model.chips import BYTES, AnyChip, chip_of
from tilewright.model.llm.products import Attention, Product
from tilewright.model.speed_of_light import SpeedOfLight
from tilewright.rounding import MOST_COUNTED, natural, real


@dataclass(frozen=True, slots=True)
class Work:
    """A product, or attention, with its least time in one layer, and how many layers have it."""

    name: str
    layers: int
    flops: float
    nbytes: float
    light: SpeedOfLight

    @property
    def seconds(self) -> float:
        """Of all layers."""
        return self.light.seconds * self.layers


class Times(NamedTuple):
    """Seconds of a layer on the average, of the whole pass, and of each of its tokens."""

    layer: float
    whole: float
    token: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"layer_seconds": self.layer, "seconds": self.whole, "token_seconds": self.token}


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass through a model: the work of its products and of attention."""

    gemms: tuple[Work, ...]
    attention: Work
    tokens: int

    @property
    def work(self) -> tuple[Work, ...]:
        """All of it."""
        return (*self.gemms, self.attention)

    @property
    def seconds(self) -> float:
        """The least time of the pass, one thing after the other."""
        return sum(each.seconds for each in self.work)

    @property
    def layers(self) -> int:
        """Of the model: those that have attention's products."""
        return max(each.layers for each in self.gemms)

    def times(self, seconds: Sequence[float] | None = None) -> Times:
        """The Times of the pass; seconds: of each `work` in one layer, if they are others than the least.

        The last product, that of logits, counts for the pass and for no layer.
        """
        each = [work.light.seconds for work in self.work] if seconds is None else seconds
        whole = sum(work.layers * time for work, time in zip(self.work, each, strict=True))
        logits = each[len(self.gemms) - 1]
        return Times((whole - logits) / self.layers, whole, whole / self.tokens)

    @property
    def gemm_share(self) -> float:
        """The share of that time in which weights are multiplied."""
        return sum(each.seconds for each in self.gemms) / self.seconds


def least_pass(
    products: Sequence[Product],
    beside: Attention,
    chip: AnyChip,
    tokens: int,
    operands: str,
    weight_bits: float | None = None,
) -> Pass:
    """The pass at the chip's speed of light for elements of a type by its name.

    weight_bits: of a weight in memory, if it is stored in fewer bits than it is multiplied in.
    Raises an ArgumentValueError for a type that the chip does not multiply, and for bits that cannot be.
    """
    chip = chip_of(chip)
    natural("tokens", tokens, 1, MOST_COUNTED)
    element = BYTES[chip.rate(operands).operands]
    if weight_bits is not None and not 1 <= real("weight_bits", weight_bits) <= 8 * element:
        raise ArgumentValueError(
            f"weight_bits={weight_bits:g} is no width of a weight: give 1 to {8 * element:g}, those of {operands}"
        )
    weight = element if weight_bits is None else weight_bits / 8
    rate, bandwidth = chip.flops(chip.rate(operands)), chip.gpu.memory_bandwidth

    def work(name: str, layers: int, flops: float, nbytes: float) -> Work:
        return Work(name, layers, flops, nbytes, SpeedOfLight(flops / rate, nbytes / bandwidth))

    gemms = tuple(work(each.name, each.layers, each.flops, each.nbytes(element, weight)) for each in products)
    return Pass(gemms, work("attention itself", 1, beside.flops, beside.nbytes), tokens)


def amdahl(share: float, speedup: float) -> float:
    """How many times as fast all becomes if a share of its time becomes `speedup` times as fast.

    Raises an ArgumentValueError for a share that is not from 0 to 1, or a speedup that is no number above 0.
    """
    real("share", share, 0, 1)
    if not 0 < real("speedup", speedup) < inf:
        raise ArgumentValueError(f"speedup={speedup} must be a number above 0: give 2 for twice as fast")
    return 1 / (1 - share + share / speedup)
