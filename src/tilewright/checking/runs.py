"""Runs of a kernel under several orders of asynchronous completion; their results must be equal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilewright.checking.asynchrony import Asynchrony
from tilewright.checking.result import Findings
from tilewright.emulator import (
    Counters,
    EmulatorError,
    LaunchError,
    PtxSyntaxError,
    UnsupportedInstruction,
)
from tilewright.reference import Array

if TYPE_CHECKING:
    from tilewright.emulator import Device

Results: TypeAlias = Mapping[str, Array]
Run: TypeAlias = Callable[[], tuple[Results, Counters | None]]
"""A function that runs the kernel once; returns its results by name, and the counters."""
Prepare: TypeAlias = "Callable[[Asynchrony, dict[str, Any]], tuple[Device, Run]]"
"""A function of an order and the options of a Device; returns the Device and the function that runs the kernel on it.
"""

REFUSALS = (LaunchError, PtxSyntaxError, UnsupportedInstruction)
"""Errors that say nothing about the kernel's behavior: it cannot run at all."""


def ignored(told: object) -> None:
    """A callback that does nothing."""


def run_under_each(
    orders: Sequence[Asynchrony],
    prepare: Prepare,
    findings: Findings,
    progress: Callable[[float], None] = ignored,
) -> Results | None:
    """Run a kernel under every order and add the findings, including differing results, to `findings`.

    Returns the results of the first order that ran to its end, if any did. Ctrl-C ends it with the findings so far.

    progress: called with the finished share of the check; may end it with TimeoutError.

    Raises:
        EmulatorError: if the emulator does not take the kernel or its launch.
    """
    first: tuple[Asynchrony, Results] | None = None
    done = 0.0
    for number, order in enumerate(orders):

        def share(fraction: float, number: int = number) -> None:
            nonlocal done
            done = (number + fraction) / len(orders)
            progress(done)

        findings.begin(order)
        options = {"asynchrony": order.policy, "seed": order.seed, "count_memory": True, "checks": True}
        device, run = prepare(order, {**options, "progress": share, "observers": [findings.coverage]})
        try:
            results, counters = run()
        except (KeyboardInterrupt, TimeoutError) as end:
            findings.interrupted = isinstance(end, KeyboardInterrupt)
            reason = f"interrupted under {order}, {done:.1%} of the check done" if findings.interrupted else str(end)
            findings.error = "\n  ".join((reason, *getattr(end, "__notes__", ())))
            break
        except REFUSALS:
            raise
        except EmulatorError as error:
            if not error.reported:
                kind, message = type(error).__name__, str(error)
                findings.report(order, kind, message, error.locations, error.threads, error.address)
            findings.counters = findings.counters or error.counters
            continue
        finally:
            findings.add_all(order, device.reports)
        if first is None:
            first, findings.counters = (order, results), counters
        else:
            for difference in _differences(results, first[1], str(first[0])):
                findings.report(order, "ScheduleDependence", difference)
    return None if first is None else first[1]


def _differences(results: Results, expected: Results, order: str) -> Iterator[str]:
    """Sentences about the results that differ, bit for bit, from those of another order."""
    for name, array in results.items():
        here, there = (np.frombuffer(value.tobytes(), f"V{array.itemsize}") for value in (array, expected[name]))
        different = np.flatnonzero(here != there)
        if different.size:
            place = tuple(int(index) for index in np.unravel_index(different[0], array.shape))
            yield (
                f"{name} differs from that of {order} in {different.size:,} of {array.size:,} elements, first at "
                f"{place}, {array[place]} instead of {expected[name][place]}: the result depends on when asynchronous "
                "operations complete"
            )
