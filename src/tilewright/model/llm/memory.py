"""The memory that a model takes: its weights, and the keys and values of the tokens that it has seen."""

from dataclasses import dataclass
from typing import Any

from tilewright.model.chips import AnyChip, chip_of
from tilewright.model.llm.architecture import Architecture
from tilewright.model.llm.products import kept_elements, kept_tokens, parameters
from tilewright.rounding import MOST_COUNTED, ceil_div, natural, real

CACHE_BYTES = 2
"""Of an element of the keys and values that are kept, whatever is multiplied."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of the weights and of all keys and values, and those of one GPU."""

    weights: int
    cache: int
    gpu: int

    @property
    def gpus(self) -> int:
        """How many GPUs hold both if they share them evenly; other things that need memory are left out."""
        return max(1, ceil_div(self.weights + self.cache, self.gpu))

    @property
    def each(self) -> float:
        """The bytes on each of these GPUs."""
        return (self.weights + self.cache) / self.gpus

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "weight_bytes": self.weights, "cache_bytes": self.cache, "memory_bytes": self.gpu, "gpus": self.gpus,
            "bytes_of_each": self.each,
        }  # fmt: skip


def memory(model: Architecture, chip: AnyChip, sequences: int, tokens: int, weight_bytes: float) -> Memory:
    """The Memory of a model on GPUs of a kind.

    sequences: that are read or written at once. tokens: of each; layers keep keys and values of all, or of a window.
    weight_bytes: of a weight. Raises an ArgumentValueError for numbers out of range.
    """
    natural("sequences", sequences, 1, MOST_COUNTED)
    natural("tokens", tokens, 0, 2 * MOST_COUNTED)
    real("weight_bytes", weight_bytes, 1 / 8, 8)
    cache = sequences * kept_tokens(model, tokens) * kept_elements(model) * CACHE_BYTES
    return Memory(round(parameters(model) * weight_bytes), cache, chip_of(chip).memory_bytes)
