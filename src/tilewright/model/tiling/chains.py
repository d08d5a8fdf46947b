"""Chains of dependent operations: how independent work hides latency (instruction-level parallelism).

Source of the example: A. Gordić, "Inside NVIDIA GPUs": three multiply-adds of 4 clocks each take 12 clocks one after
another and 6 if none depends on another.
"""

from tilewright.rounding import MOST_COUNTED, ceil_div, natural

FMA_LATENCY = 4
"""Clocks until a dependent instruction can use the result of a multiply-add, since Volta (Jia and others, arXiv
1804.06826)."""


def chain_clocks(length: int, chains: int = 1, latency: int = FMA_LATENCY, interval: int = 1) -> int:
    """Clocks until the last result of independent chains of so many operations, each of which needs the one before.

    A scheduler issues an operation each `interval` clocks, one of each chain in turn. Raises an ArgumentValueError for
    a number below 1.
    """
    given = {"length": length, "chains": chains, "latency": latency, "interval": interval}
    for name, value in given.items():
        natural(name, value, 1, MOST_COUNTED)
    turn = max(latency, chains * interval)
    return (length - 1) * turn + (chains - 1) * interval + latency


def chains_to_fill(latency: int = FMA_LATENCY, interval: int = 1) -> int:
    """The least independent chains with which a scheduler issues without a pause: those of all its warps together."""
    return ceil_div(natural("latency", latency, 1, MOST_COUNTED), natural("interval", interval, 1, MOST_COUNTED))
