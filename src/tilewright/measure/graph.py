"""Work that replays a CUDA graph of launches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cuda.bindings import driver

from tilewright.measure.protocol import Work
from tilewright.measure.timing import captured, checked, elapsed, new_event, new_stream


@contextmanager
def graph_work(launch: Callable[[int], object], launches: int) -> Iterator[Work]:
    """Work that replays `launches` calls of `launch(stream)` inside the `with` block.

    The GPU's context must be current in this thread. `launch` must only launch, because it is captured.
    """
    with new_stream() as stream, new_event() as start, new_event() as end, captured(launch, launches, stream) as graph:

        def run(times: int) -> float:
            def replay() -> None:
                for _ in range(times):
                    checked(driver.cuGraphLaunch(graph, stream))

            return elapsed(replay, stream, start, end)

        yield Work(run, launches)
