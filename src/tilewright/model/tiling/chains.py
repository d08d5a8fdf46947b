"""Chains of dependent operations: how independent work hides latency (instruction-level parallelism).

Source of the example: A. Gordić, "Inside NVIDIA GPUs": three multiply-adds of 4 clocks each take 12 clocks one after
another and 6 if none depends on another.
"""

from tilewright.rounding import MOST_COUNTED, ceil_div, natural

FMA_LATENCY = 4
"""Clocks until a dependent instruction can use the result of a multiply-add, since Volta (Jia and others, arXiv
1804.06826)."""
SCHEDULERS = 4
"""Of an SM, each with its own warps and a quarter of the CUDA cores."""
SCHEDULER_WARPS = 16
"""The most that a scheduler has: a quarter of an SM's 64."""
SWITCH_CLOCKS = 1
"""Clocks in which a scheduler issues nothing when it goes on with another warp, which it does when its warp has to wait
for the next operation's operands. An H200 shows it (results/fma_clocks_h200.json): four warps of one chain take 2
clocks for each operation, of two chains 3/2, of three 4/3, and of four, which never wait, 1."""


def chain_clocks(length: int, chains: int = 1, latency: int = FMA_LATENCY, interval: int = 1, warps: int = 1) -> int:
    """Clocks until the last result of independent chains of so many operations, each of which needs the one before.

    Each of the scheduler's warps has so many chains. The scheduler issues an operation each `interval` clocks, one of
    each chain in turn, warp after warp. Raises an ArgumentValueError for a number below 1,
    and for more warps than a scheduler has.
    """
    given = {"length": length, "chains": chains, "latency": latency, "interval": interval, "warps": warps}
    for name, value in given.items():
        natural(name, value, 1, SCHEDULER_WARPS if name == "warps" else MOST_COUNTED)
    visit = chains * interval
    if warps > 1 and visit < latency:
        visit = max(visit, chains + SWITCH_CLOCKS)
    turn = max(latency, warps * visit)
    return (length - 1) * turn + (warps - 1) * visit + (chains - 1) * interval + latency


def operation_clocks(chains: int = 1, latency: int = FMA_LATENCY, interval: int = 1, warps: int = 1) -> float:
    """Clocks of a scheduler for each operation of very long chains; the numbers and errors are `chain_clocks`'."""
    length = MOST_COUNTED
    return chain_clocks(length, chains, latency, interval, warps) / (length * chains * warps)


def chains_to_fill(latency: int = FMA_LATENCY, interval: int = 1) -> int:
    """The least independent chains of a warp with which its scheduler issues without a pause."""
    return ceil_div(natural("latency", latency, 1, MOST_COUNTED), natural("interval", interval, 1, MOST_COUNTED))
