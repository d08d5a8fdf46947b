"""GPU time of a launch, measured by CUDA events around replays of a graph, so the host's speed does not matter."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from cuda.bindings import driver

from tilewright.errors import UnavailableError

SAMPLE_SECONDS = 2e-3
"""Minimum GPU time of one sample; the events resolve about half a microsecond."""

MAX_LAUNCHES = 500


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per launch: median and quartiles of `samples` samples of `launches` launches each."""

    median: float
    low: float
    high: float
    samples: int
    launches: int


def time_launches(launch: Callable[[int], object], *, samples: int = 15) -> Timing:
    """Time the work that `launch(stream)` puts on the CUDA stream with that handle.

    The GPU's context must be current in this thread. `launch` must only launch, because it is captured into a graph.
    Work already under way on the GPU is finished first. Successive launches find their operands in L2 if they fit.
    There is no idling, no rotation of operands and no power protocol.
    """
    checked(driver.cuCtxSynchronize())
    with new_stream() as stream, new_event() as start, new_event() as end:
        launch(int(stream))
        once = elapsed(lambda: launch(int(stream)), stream, start, end)
        launches = max(1, min(MAX_LAUNCHES, ceil(SAMPLE_SECONDS / max(once, 1e-7))))
        with captured(launch, launches, stream) as graph:

            def replay() -> None:
                checked(driver.cuGraphLaunch(graph, stream))

            replay()
            times = sorted(elapsed(replay, stream, start, end) / launches for _ in range(samples))
    low, _, high = statistics.quantiles(times, n=4) if samples > 1 else times * 3
    return Timing(statistics.median(times), low, high, samples, launches)


def elapsed(work: Callable[[], object], stream: Any, start: Any, end: Any) -> float:
    """The GPU seconds of what `work` puts on the stream."""
    checked(driver.cuEventRecord(start, stream))
    work()
    checked(driver.cuEventRecord(end, stream))
    checked(driver.cuEventSynchronize(end))
    return float(checked(driver.cuEventElapsedTime(start, end))) * 1e-3


@contextmanager
def new_stream() -> Iterator[Any]:
    """A stream of the current context inside the `with` block."""
    stream = checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    try:
        yield stream
    finally:
        checked(driver.cuStreamDestroy(stream))


@contextmanager
def new_event() -> Iterator[Any]:
    """An event of the current context inside the `with` block."""
    event = checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT))
    try:
        yield event
    finally:
        checked(driver.cuEventDestroy(event))


@contextmanager
def captured(launch: Callable[[int], object], launches: int, stream: Any) -> Iterator[Any]:
    """An executable graph of so many calls of `launch(stream)` inside the `with` block."""
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    checked(driver.cuStreamBeginCapture(stream, mode))
    graph = executable = None
    try:
        try:
            for _ in range(launches):
                launch(int(stream))
        finally:
            graph = checked(driver.cuStreamEndCapture(stream))
        executable = checked(driver.cuGraphInstantiate(graph, 0))
        yield executable
    finally:
        if executable is not None:
            checked(driver.cuGraphExecDestroy(executable))
        if graph is not None:
            checked(driver.cuGraphDestroy(graph))


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises RuntimeError if the call failed."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise UnavailableError(f"the CUDA driver failed with {status.name} while measuring")
    return values[0] if values else None
