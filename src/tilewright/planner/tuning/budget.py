"""The seconds that a search may take, and what it has spent them on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

OTHER = "other"
"""What is spent on nothing that has a name."""


class Budget:
    """A number of seconds that count from now on; `spent` tells what they went into.

    already: seconds that were spent before, by what they went into.
    """

    def __init__(self, seconds: float, already: dict[str, float]):
        self._seconds, self._spent = seconds, dict(already)
        self._begun = time.monotonic() - sum(already.values())

    @property
    def elapsed(self) -> float:
        """Seconds spent."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """Seconds that are left, or less than 0."""
        return self._seconds - self.elapsed

    def reaches(self, share: float) -> bool:
        """Whether less than this share of all seconds is spent."""
        return self.elapsed < share * self._seconds

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Count the seconds of the `with` block as spent on this; blocks are not nested."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._spent[what] = self._spent.get(what, 0.0) + time.monotonic() - begun

    def spent(self) -> dict[str, float]:
        """The seconds by what they went into; their sum is all that have elapsed."""
        return self._spent | {OTHER: max(0.0, self.elapsed - sum(self._spent.values()))}
