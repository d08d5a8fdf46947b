"""The ladder on a GPU: rungs with the same data are timed together with each other and cuBLAS, in one process."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.errors import message_of
from tilewright.kernels.ladder import before, gains
from tilewright.ladder.result import RungResult

if TYPE_CHECKING:
    from tilewright.bench.comparison import Comparison, Progress
    from tilewright.measure.data import Data
    from tilewright.measure.protocol import Protocol

CYCLES = 3
"""The cycles of each protocol. The ladder's steps exceed its noise; `tilewright bench` is for the last percent."""

IDLE_SECONDS = 0.5
"""Rest before a burst."""


def time_all(results: Sequence[RungResult], seed: int, settled: bool, progress: Callable[[float], None]) -> bool:
    """Verify and time every rung that is not skipped; returns whether Ctrl-C ended it early."""
    from tilewright.bench import Burst, Settled

    protocols = [Burst(cycles=CYCLES, idle_seconds=IDLE_SECONDS), *([Settled(cycles=CYCLES)] if settled else [])]
    running = [each for each in results if not each.skipped]
    groups: dict[tuple[str, str, Data], list[RungResult]] = {}
    for each in running:
        groups.setdefault((each.dtype.name, each.rung.layout, each.rung.data), []).append(each)
    done = 0
    for group in groups.values():

        def part(share: float, _doing: str, done: int = done, size: int = len(group)) -> None:
            progress((done + share * size) / len(running))

        if _interrupted(group, seed, protocols, part):
            break
        done += len(group)
    note_gains(running)
    return done < len(running)


def _interrupted(group: Sequence[RungResult], seed: int, protocols: "Sequence[Protocol]", progress: "Progress") -> bool:
    """Time rungs that multiply the same data; returns whether Ctrl-C ended it early.

    The data are freed on return, before others are made. If they cannot be made, the rungs are skipped.
    """
    from tilewright.bench import Cublas, Inputs, Shape, Tilewright, compare
    from tilewright.bench.comparison import first_line

    first = group[0]
    contenders = [Tilewright(each.rung.name, each.config, name=each.rung.name) for each in group]
    try:
        shape = Shape(first.m, first.n, first.k, dtype=first.dtype.name, layout=first.rung.layout)
        inputs = Inputs(shape, data=first.rung.data, seed=seed)
        comparison = compare([*contenders, Cublas()], inputs, protocols, baseline="cublas", progress=progress)
    except KeyboardInterrupt:
        return True
    except Exception as error:  # any failure: the other rungs are still measured
        for each in group:
            each.skipped = message_of(error) or first_line(error)
        return False
    for each in group:
        _note(each, comparison)
    return comparison.interrupted


def _note(result: RungResult, comparison: "Comparison") -> None:
    """Record the comparison's result for a rung; nothing if the comparison was interrupted before it."""
    try:
        entry = comparison.entry(result.rung.name)
    except KeyError:
        return
    result.verified = False if entry.status == "failed" else entry.verified
    result.relative_error = entry.relative_error
    if entry.reason:
        result.skipped = entry.reason
    result.measured = {
        name: measured for name in entry.samples if (measured := comparison.measured(entry, name)) is not None
    }
    if (burst := result.measured.get("burst")) is not None:
        result.time_us, result.tflops = burst["time_us"], burst["tflops"]
        result.speed_of_light_share = burst["speed_of_light_share"]
        result.cublas_ratio = burst["ratio"]["median"] if "ratio" in burst else None


def note_gains(results: Sequence[RungResult]) -> None:
    """Record each timed rung's speed relative to the timed rung before it."""
    timed = {each.rung.name: each.time_us for each in results if each.time_us is not None}
    found, others = gains(timed), before(timed)
    for each in results:
        each.gain, each.gain_over = found.get(each.rung.name), others.get(each.rung.name)
