"""The time limit of an emulation whose rate is unknown: it ends as soon as it is certain to take too long."""

import time

from tilewright.backends.emulation_limit import emulation_limit, long_emulation

SETTLING_SECONDS = 2.0
"""The time before an estimate counts, in which the first blocks are compiled."""
FIRM = 0.75
"""The share of the limit after which an emulation may take up to twice the limit, since estimates fluctuate."""


class TimeLimit:
    """A running estimate of an emulation's total seconds, which ends the emulation beyond the limit.

    subject, remedy: for the message.
    batch: the share of the emulation that runs together. Part of its threads may have exited while the rest has all its
    work ahead, so all of it counts as done.
    """

    def __init__(self, subject: str, batch: float, remedy: str) -> None:
        self._subject, self._batch, self._remedy = subject, batch, remedy
        self._limit, self._start = emulation_limit(), time.monotonic()

    def __call__(self, done: float) -> None:
        """Continue at a finished share from 0 to 1, or raise TimeoutError with the estimate."""
        elapsed = time.monotonic() - self._start
        seconds = elapsed / min(done + self._batch, 1.0)
        allowed = self._limit if elapsed < FIRM * self._limit else 2 * self._limit
        if elapsed > min(SETTLING_SECONDS, self._limit) and seconds > allowed:
            state = f"{done:.2%} is done" if done else "no thread has ended: does the kernel end?"
            refusal = long_emulation(self._subject, seconds, self._remedy, at_least=not done)
            raise TimeoutError(f"{refusal}\n  after {elapsed:.0f} s {state}")
