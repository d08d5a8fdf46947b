"""The Plans of earlier calls, found by key; the least recently used ones are dropped."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress

from tilewright.planner.plan import Plan


class PlanCache:
    """A cache of at most `capacity` Plans, and at most `alike` per key; a call tries each of these until one fits.

    A new Plan replaces the least recently used one. Any number of threads may use the cache at once.
    """

    def __init__(self, capacity: int = 4096, alike: int = 64):
        self._capacity, self._alike = capacity, alike
        self._start()

    def _start(self) -> None:
        self._by_key: dict[Hashable, tuple[Plan, ...]] = {}
        self._keys: OrderedDict[Plan, Hashable] = OrderedDict()  # the least recently used Plan first
        self._adding = threading.Lock()
        self.find = self._by_key.get
        """The Plans of a key, or the given default; raises TypeError for a key that cannot be hashed."""
        self.latest: Plan | None = None
        """The Plan used last; calls of it need not be reported again."""

    def start_over_in_child(self) -> None:
        """After a fork: forget all Plans if a thread that is not in this process was adding one."""
        if self._adding.locked():
            self._start()

    def __len__(self) -> int:
        return len(self._keys)

    def used(self, plan: Plan) -> None:
        """Remember that a Plan has just been called."""
        with suppress(KeyError):  # another thread's Plan may have replaced it meanwhile
            self._keys.move_to_end(plan)
            self.latest = plan

    def add(self, key: Hashable, plan: Plan) -> None:
        """Add a Plan, as the one used last."""
        with self._adding:
            alike = self._by_key.get(key, ())
            if len(alike) >= self._alike:
                oldest = next(known for known in list(self._keys) if known in alike)
                self._drop(oldest, self._keys.pop(oldest))
            elif len(self._keys) >= self._capacity:
                self._drop(*self._keys.popitem(last=False))
            self._by_key[key] = (*self._by_key.get(key, ()), plan)
            self._keys[plan] = key
            self.latest = plan

    def _drop(self, plan: Plan, key: Hashable) -> None:
        alike = self._by_key[key]
        if len(alike) > 1:
            self._by_key[key] = tuple(known for known in alike if known is not plan)
        else:
            del self._by_key[key]
