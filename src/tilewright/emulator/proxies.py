"""The order of generic and asynchronous accesses to shared memory.

What st or stmatrix wrote may be read by wgmma or a bulk store only after fence.proxy.async (PTX ISA, "Async proxy").
Here any such fence that a thread of the CTA executes after the write will do; whose it must be is not checked.
"""

import numpy as np

from tilewright.emulator.lanes import Group, Indices, Topology

GRANULE = 16


class ProxyOrder:
    """When each granule of flat shared memory was last written through the generic proxy, and each CTA's last fence."""

    def __init__(self, topology: Topology) -> None:
        self._stride = topology.shared_stride
        self._written = np.zeros(topology.ctas * topology.shared_stride // GRANULE, np.int64)
        self._fenced = np.zeros(topology.ctas, np.int64)
        self._now = 0

    def write(self, where: Indices) -> None:
        """A generic write to the granules that hold these offsets of flat shared memory."""
        self._now += 1
        self._written[where // GRANULE] = self._now

    def fence(self, group: Group) -> None:
        """fence.proxy.async."""
        self._now += 1
        self._fenced[group.cta] = self._now

    def overwrite(self, start: int, size: int) -> None:
        """An asynchronous write: what was there before does not matter any more."""
        if self._now:
            self._written[start // GRANULE : (start + size) // GRANULE] = 0

    def range_is_unfenced(self, start: int, size: int) -> bool:
        """Whether an asynchronous read of `size` bytes at an offset misses a fence."""
        written = self._written[start // GRANULE : -(-(start + size) // GRANULE)]
        return bool((written > self._fenced[start // self._stride]).any())

    def granules_are_unfenced(self, granules: Indices, cta: int) -> bool:
        """Whether an asynchronous read of granules of flat shared memory, in one CTA, misses a fence."""
        return self._now > 0 and bool((self._written[granules] > self._fenced[cta]).any())
