"""How contenders are timed against each other: burst (right after idle) and settled (at the power limit).

A contender is a function that launches its work a number of times and returns the GPU seconds it took. Both
protocols interleave the contenders and go through them forwards and backwards (A B B A), so that a drift of clocks
and temperature meets all alike; a sample is the mean of both passes.
"""

import time
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import TypeAlias

Contender: TypeAlias = Callable[[int], float]
"""Launch n times; return the GPU seconds of all of them together."""

Samples: TypeAlias = dict[str, list[float]]
"""Seconds per launch, one sample a cycle, by contender; samples of one cycle belong together."""


def burst(
    contenders: Mapping[str, Contender],
    *,
    rounds: int = 5,
    idle_seconds: float = 1.0,
    warmups: int = 3,
    launches: int = 10,
    progress: Callable[[float], None] = lambda share: None,
) -> Samples:
    """Time `launches` calls right after `idle_seconds` of rest and `warmups` untimed calls, in `rounds` cycles."""

    def measure(contender: Contender) -> float:
        time.sleep(idle_seconds)
        contender(warmups)
        return contender(launches) / launches

    return _there_and_back(contenders, measure, rounds, progress)


def settled(
    contenders: Mapping[str, Contender],
    *,
    cycles: int = 7,
    slice_seconds: float = 0.6,
    warmup_seconds: float = 1.5,
    progress: Callable[[float], None] = lambda share: None,
) -> Samples:
    """Keep the GPU busy throughout, in slices a contender; the second half of each slice is measured."""
    batch = {contender: max(1, int(0.02 / contender(1))) for contender in contenders.values()}

    def measure(contender: Contender) -> float:
        _keep_busy(contender, batch[contender], slice_seconds / 2)
        return _keep_busy(contender, batch[contender], slice_seconds / 2)

    first = next(iter(contenders.values()))
    _keep_busy(first, batch[first], warmup_seconds)
    return _there_and_back(contenders, measure, cycles, progress)


def _there_and_back(
    contenders: Mapping[str, Contender],
    measure: Callable[[Contender], float],
    cycles: int,
    progress: Callable[[float], None],
) -> Samples:
    samples: Samples = {name: [] for name in contenders}
    for cycle in range(cycles):
        order = list(contenders)[:: 1 if cycle % 2 == 0 else -1]
        passes: Samples = {name: [] for name in contenders}
        for name in (*order, *reversed(order)):
            passes[name].append(measure(contenders[name]))
        for name, seconds in passes.items():
            samples[name].append(fmean(seconds))
        progress((cycle + 1) / cycles)
    return samples


def _keep_busy(contender: Contender, batch: int, seconds: float) -> float:
    """Launch in batches until `seconds` of GPU time have passed; seconds per launch."""
    spent, launches = 0.0, 0
    while spent < seconds:
        spent += contender(batch)
        launches += batch
    return spent / launches
