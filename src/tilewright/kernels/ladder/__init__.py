"""The ladder: from a naive kernel to the state of the art, one idea at a time."""

from tilewright.kernels.ladder.rungs import LADDER, Published, Rung

__all__ = ["LADDER", "Published", "Rung"]
