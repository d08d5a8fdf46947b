"""The Plans of earlier calls: found by key, and dropped in the order in which they were last used."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from tilewright.planner.plan import Plan


class PlanCache:
    """At most `capacity` Plans, and at most `alike` of one key, of which a call tries each until one fits.

    The least recently used Plan makes room for a new one. Any number of threads may use it at once.
    """

    def __init__(self, capacity: int = 4096, alike: int = 64):
        self._capacity, self._alike = capacity, alike
        self._by_key: dict[Hashable, tuple[Plan, ...]] = {}
        self._keys: OrderedDict[Plan, Hashable] = OrderedDict()  # the least recently used Plan first
        self._adding = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: Hashable) -> tuple[Plan, ...]:
        """The Plans of a key; TypeError for one that cannot be hashed."""
        return self._by_key.get(key, ())

    def used(self, plan: Plan) -> None:
        """Remember that a Plan has just been called."""
        try:  # noqa: SIM105 - on the path of every call, which suppress() would lengthen
            self._keys.move_to_end(plan)
        except KeyError:  # another thread's Plan has taken its place meanwhile
            pass

    def add(self, key: Hashable, plan: Plan) -> None:
        """Keep a Plan, as the one used last."""
        with self._adding:
            alike = self._by_key.get(key, ())
            if len(alike) >= self._alike:
                oldest = next(known for known in list(self._keys) if known in alike)
                self._drop(oldest, self._keys.pop(oldest))
            elif len(self._keys) >= self._capacity:
                self._drop(*self._keys.popitem(last=False))
            self._by_key[key] = (*self._by_key.get(key, ()), plan)
            self._keys[plan] = key

    def _drop(self, plan: Plan, key: Hashable) -> None:
        if kept := tuple(known for known in self._by_key[key] if known is not plan):
            self._by_key[key] = kept
        else:
            del self._by_key[key]
