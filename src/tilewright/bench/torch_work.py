"""Work that launches through torch, timed by torch's events, and graphs of it."""

from collections.abc import Callable
from typing import Any

from tilewright.measure.protocol import Work


def timed(torch: Any, work: Callable[[int], None]) -> Callable[[int], float]:
    """A function that does the work so many times between two events and returns the seconds between them."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(times: int) -> float:
        start.record()
        work(times)
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3

    return run


def replayed(torch: Any, launch: Callable[[], None], launches: int) -> Work:
    """Work that replays a graph of what `launch` puts on torch's current stream; it counts as so many launches.

    `launch` must have run before, since it may neither compile nor synchronize while it is captured.
    """
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        launch()

    def replay(times: int) -> None:
        for _ in range(times):
            captured.replay()

    return Work(timed(torch, replay), launches)
