"""The state that all checks of a wave share: time, clocks, shadows of memory, names and reports."""

from collections.abc import Hashable

import numpy as np

from tilewright.emulator.checks.clocks import Clocks
from tilewright.emulator.checks.launch_state import LaunchState
from tilewright.emulator.checks.reporting.reports import Report
from tilewright.emulator.checks.shadow import NEVER, GlobalShadow, SharedShadow
from tilewright.emulator.errors import EmulatorError
from tilewright.emulator.lanes import Array, Group, Indices, Mask
from tilewright.emulator.machine.wave import Wave


class Ground:
    """The state that all checks of a wave share.

    clocks: vector clocks, which say what each lane knows of.
    shared: the shadow of shared memory.
    floor: (ctas,), when all threads of a CTA last met.
    """

    def __init__(self, wave: Wave, state: LaunchState) -> None:
        self.wave, self.words, self.topology, self.state = wave, wave.words, wave.topology, state
        self.traits = wave.program.traits
        topology = wave.topology
        self.clocks = Clocks(topology, self.traits.asynchronous, bool(self.traits.sequential.any()))
        if state.global_proxies:
            self.clocks.track_global_writes()
        self.shared = SharedShadow(
            topology.ctas * topology.shared_stride, topology.ctas, self.traits.shared_cell, topology.threads,
            topology.cluster_size > 1,
        )  # fmt: skip
        self.floor = np.zeros(topology.ctas, np.int64)
        self._clusters = (wave.cta_numbers // topology.cluster_size)[topology.cta]

    def tick(self) -> int:
        """Advance the time and return it."""
        self.state.now += 1
        if self.state.now >= NEVER:
            raise EmulatorError("the launch is too long to check: run fewer CTAs, or a Device with checks=False")
        return self.state.now

    def met(self, ctas: Mask) -> None:
        """Record that all threads of these CTAs have met at a barrier."""
        self.floor[ctas] = self.tick()

    def with_released(self, rows: Array, group: Group) -> Array:
        """The rows (by CTA slot) of a place where threads meet, after a group has released its knowledge there."""
        released = self.clocks.released(group, self.tick())
        return np.maximum(self.clocks.fit(rows), released)

    def shadow_of(self, where: int) -> GlobalShadow:
        """The shadow of the allocation that holds an offset of global memory."""
        owner = self.wave.access.memory.containing(where)
        assert owner is not None  # the access was found in bounds
        if owner.start not in self.state.allocations:
            shadow = GlobalShadow.of(owner.start, owner.size, self.traits.global_cell)
            self.state.allocations[owner.start] = shadow
        return self.state.allocations[owner.start]

    def clusters_of(self, lanes: Indices) -> Array:
        """The grid-wide numbers of the clusters of lanes."""
        clusters: Array = self._clusters[lanes]
        return clusters

    def cta_of(self, lane: int) -> int:
        """The grid-wide number of a lane's CTA."""
        return int(self.wave.cta_numbers[self.topology.cta[lane]])

    def cluster_of(self, lane: int) -> int:
        """The grid-wide number of a lane's cluster."""
        return self.cta_of(lane) // self.topology.cluster_size

    # Reports ---------------------------------------------------------------------------------------------------------

    def report(
        self,
        kind: str,
        message: str,
        sites: tuple[int, ...],
        group: Group,
        address: int | None,
        apart: tuple[Hashable, ...] = (),
    ) -> None:
        """Add a report, once for its kind and sites; `apart` tells it from others on the same lines."""
        words = self.words

        def make() -> Report:
            return Report(kind, message, tuple(map(words.describe, sites)), words.name(group), address)

        self.state.reports.add((kind, *sites), apart, make)

    def name_of_lane(self, lane: int) -> str:
        """A thread in words."""
        return f"thread {int(self.topology.thread[lane])} of CTA {self.cta_of(lane)}"

    def name_of(self, column: int, cta: int, cluster: int | None = None) -> str:
        """The owner of a column in words, as CTA slot `cta` sees it; cluster: another cluster's number in the grid."""
        if cluster is not None:
            size, (rank, thread) = self.topology.cluster_size, divmod(column, self.topology.threads)
            if rank < size:
                return f"thread {thread} of CTA {cluster * size + rank}"
            return f"a bulk store of CTA {cluster}" if size == 1 else f"a bulk store of cluster {cluster}"
        key = self.clocks.owner_of(column)
        if key is None:
            rank, thread = divmod(column, self.topology.threads)
            first = cta // self.topology.cluster_size * self.topology.cluster_size
            return f"thread {thread} of CTA {int(self.wave.cta_numbers[first + rank])}"
        assert isinstance(key, tuple)
        who = {
            "init": "the mbarrier at",
            "mbarrier": "a copy that signals the mbarrier at",
            "wgmma": "a wgmma of warpgroup",
            "bulk": "a bulk store of thread",
            "store": "a cp.async, st.async or red.async that signals the mbarrier at",
            "bulk write": "a bulk store of thread",
        }[key[0]]
        return f"{who} {self.words.shared(key[1]) if who.endswith(' at') else key[1]}"

    def shared_address(self, where: int) -> int:
        """An offset of flat shared memory as the CTA addresses it."""
        return where % self.topology.shared_stride
