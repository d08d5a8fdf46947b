"""How contenders are timed against each other: burst (right after idle) and settled (at the power limit).

A contender is a function that launches its work a number of times and returns the GPU seconds it took. Both
protocols interleave the contenders and rotate their order, so that drift of clocks and temperature meets all alike.
"""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

Contender: TypeAlias = Callable[[int], float]
"""Launch n times; return the GPU seconds of all of them together."""

Samples: TypeAlias = dict[str, list[float]]
"""Seconds per launch, one sample a round, by contender; samples of one round belong together."""


def burst(
    contenders: Mapping[str, Contender],
    *,
    rounds: int = 5,
    idle_seconds: float = 1.0,
    warmups: int = 3,
    launches: int = 10,
    progress: Callable[[float], None] = lambda share: None,
) -> Samples:
    """Time `launches` calls right after `idle_seconds` of rest and `warmups` untimed calls, `rounds` times."""
    samples: Samples = {name: [] for name in contenders}
    for index in range(rounds):
        for name in _rotated(contenders, index):
            time.sleep(idle_seconds)
            contenders[name](warmups)
            samples[name].append(contenders[name](launches) / launches)
        progress((index + 1) / rounds)
    return samples


def settled(
    contenders: Mapping[str, Contender],
    *,
    cycles: int = 7,
    slice_seconds: float = 0.6,
    warmup_seconds: float = 1.5,
    progress: Callable[[float], None] = lambda share: None,
) -> Samples:
    """Keep the GPU busy throughout, in slices a contender; the second half of each slice is measured."""
    samples: Samples = {name: [] for name in contenders}
    batch = {name: max(1, int(0.02 / contender(1))) for name, contender in contenders.items()}
    first = next(iter(contenders))
    _keep_busy(contenders[first], batch[first], warmup_seconds)
    for cycle in range(cycles):
        for name in _rotated(contenders, cycle):
            _keep_busy(contenders[name], batch[name], slice_seconds / 2)
            samples[name].append(_keep_busy(contenders[name], batch[name], slice_seconds / 2))
        progress((cycle + 1) / cycles)
    return samples


def _keep_busy(contender: Contender, batch: int, seconds: float) -> float:
    """Launch in batches until `seconds` of GPU time have passed; seconds per launch."""
    spent, launches = 0.0, 0
    while spent < seconds:
        spent += contender(batch)
        launches += batch
    return spent / launches


def _rotated(contenders: Mapping[str, Contender], turn: int) -> list[str]:
    names = list(contenders)
    turn %= len(names)
    return names[turn:] + names[:turn]
