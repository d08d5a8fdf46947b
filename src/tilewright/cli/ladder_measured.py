"""The ladder on a GPU: rungs of one element type and layout are timed beside each other and cuBLAS, in one process."""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from tilewright.cli.ladder_result import Climbed

if TYPE_CHECKING:
    from tilewright.bench import Comparison
    from tilewright.hardware import Hardware

CYCLES = 3
"""Of each protocol. The steps of the ladder are larger than its noise; `tilewright bench` is for the last percent."""

IDLE_SECONDS = 0.5
"""Rest before a burst."""


def measure(
    climbed: Sequence[Climbed],
    config_of: "Callable[[Climbed, Hardware], Any]",
    seed: int,
    settled: bool,
    progress: Callable[[float], None],
) -> bool:
    """Verify and time every rung that is not skipped; whether Ctrl-C ended it early."""
    from tilewright.backends.gpu import backend
    from tilewright.bench import Burst, Cublas, Inputs, Settled, Shape, Tilewright, compare

    protocols = [Burst(cycles=CYCLES, idle_seconds=IDLE_SECONDS), *([Settled(cycles=CYCLES)] if settled else [])]
    running = [each for each in climbed if not each.skipped]
    groups = [list(group) for _, group in groupby(running, lambda each: (each.dtype, each.rung.layout))]
    done = 0
    for group in groups:
        first = group[0]
        shape = Shape(first.m, first.n, first.k, dtype=first.dtype, layout=first.rung.layout)
        hardware = backend(0).hardware
        contenders = [Tilewright(each.rung.name, config_of(each, hardware), name=each.rung.name) for each in group]

        def part(share: float, _doing: str, done: int = done, size: int = len(group)) -> None:
            progress((done + share * size) / len(running))

        comparison = compare(
            [*contenders, Cublas()], Inputs(shape, seed=seed), protocols, baseline="cublas", progress=part
        )
        for each in group:
            _note(each, comparison)
        done += len(group)
        if comparison.interrupted:
            return True
    _note_gains(running)
    return False


def _note(climbed: Climbed, comparison: "Comparison") -> None:
    """What the comparison says of a rung; where it was interrupted before, nothing."""
    try:
        entry = comparison.entry(climbed.rung.name)
    except KeyError:
        return
    climbed.verified, climbed.relative_error = entry.verified, entry.relative_error
    climbed.config = entry.about.get("config", {})
    if entry.reason:
        climbed.skipped = entry.reason
    climbed.measured = {
        name: measured for name in entry.samples if (measured := comparison.measured(entry, name)) is not None
    }
    if (burst := climbed.measured.get("burst")) is not None:
        climbed.time_us, climbed.tflops = burst["time_us"], burst["tflops"]
        climbed.speed_of_light_share = burst["speed_of_light_share"]
        climbed.cublas_ratio = burst["ratio"]["median"] if "ratio" in burst else None


def _note_gains(climbed: Sequence[Climbed]) -> None:
    """Each rung's speed against the rung of its road that ran before it."""
    for before, each in pairwise(climbed):
        if before.rung.road == each.rung.road and before.time_us and each.time_us:
            each.gain = before.time_us / each.time_us
