"""The checks of tensor maps that a kernel writes: TMA reads them by a proxy of its own, past two fences.

The writer releases, by tensormap.cp_fenceproxy or fence.proxy.tensormap, and the thread that issues the copy, or one
that it is ordered after, acquires. Source: PTX ISA, "tensormap.cp_fenceproxy", "membar / fence": fence.proxy.tensormap.
"""

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.releases import Releases
from tilewright.emulator.checks.shadow import GlobalShadow, column_of, site_of, time_of
from tilewright.emulator.lanes import Array, Group, Indices
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES

_MOST_FENCES = 1 << 18
"""Fences that are remembered; a launch with more is not checked further, which misses faults and invents none."""


class TensorMapChecks:
    """The fences of a wave's lanes for tensor maps.

    acquired: by address and lane, when the lane last acquired the map while it knew of all writes to it.
    released: by lane, when it last released.
    """

    def __init__(self, ground: Ground, releases: Releases) -> None:
        self._ground, self._releases = ground, releases
        self._acquired: dict[int, dict[int, int]] = {}
        self._released: dict[int, int] = {}
        self._fences = 0

    def acquire(self, group: Group, addresses: Array) -> None:
        """fence.proxy.tensormap::generic.acquire."""
        now, lanes = self._ground.tick(), group.indices
        addresses = np.broadcast_to(addresses, lanes.shape)
        for address in np.unique(addresses).tolist():
            if (found := self._writes(address)) is None:
                continue
            some = lanes[addresses == address]
            if self._fences < _MOST_FENCES:
                self._fences += some.size
                known = [lane for lane in some.tolist() if self._known(lane, *found).all()]
                self._acquired.setdefault(address, {}).update(dict.fromkeys(known, now))

    def release(self, group: Group) -> None:
        """fence.proxy.tensormap::generic.release."""
        self._released.update(dict.fromkeys(group.indices.tolist(), self._ground.tick()))

    def use(self, site: int, lanes: Indices, address: int) -> None:
        """Check TMA instructions of lanes that take the map at an address."""
        if (found := self._writes(address)) is None or self._fences >= _MOST_FENCES:
            return
        writes, clusters = found
        for lane in lanes.tolist():
            known = self._known(lane, writes, clusters)
            if not known.all():
                self._report("race", site, lane, address, int(writes[~known][0]), int(clusters[~known][0]), "")
            elif (late := self._unreleased(lane, writes, clusters)).any():
                fence = ", without fence.proxy.tensormap::generic.release after it"
                self._report(
                    "tensormap-fence", site, lane, address, int(writes[late][0]), int(clusters[late][0]), fence
                )
            elif not self._sees(lane, address, int(time_of(writes).max())):
                last = int(time_of(writes).argmax())
                fence = ", without fence.proxy.tensormap::generic.acquire in between"
                self._report("tensormap-fence", site, lane, address, int(writes[last]), int(clusters[last]), fence)

    def _writes(self, address: int) -> tuple[Array, Array] | None:
        """The writes to a map in this launch and their clusters, if there are any."""
        owner = self._ground.wave.access.memory.containing(address - GLOBAL_BASE)
        if owner is None:
            return None
        shadow: GlobalShadow = self._ground.shadow_of(address - GLOBAL_BASE)
        if not shadow.written:
            return None
        cells = shadow.cells(np.array([address - GLOBAL_BASE]), TENSOR_MAP_BYTES)[0]
        cells = cells[(cells >= 0) & (cells < shadow.writes.size)]
        writes, clusters = shadow.writes[cells], shadow.write_clusters[cells]
        some = writes > 0
        return (writes[some], clusters[some]) if some.any() else None

    def _known(self, lane: int, writes: Array, clusters: Array) -> Array:
        """Which writes a lane knows of."""
        clocks, column, time = self._ground.clocks, column_of(writes), time_of(writes)
        foreign = clusters != self._ground.cluster_of(lane)
        own = np.where(foreign, 0, column)
        known = (clocks.facts[KNOWN, lane, own] >= time) | (own == clocks.column[lane])
        if foreign.any():
            lanes = np.full(int(foreign.sum()), lane)
            known[foreign] = self._releases.knows(lanes, clusters[foreign], column[foreign], time[foreign])
        return np.asarray(known)

    def _unreleased(self, lane: int, writes: Array, clusters: Array) -> Array:
        """The writes of the lane's cluster that no fence of their thread follows."""
        ground, topology = self._ground, self._ground.topology
        fused = np.array([ground.words.instruction(int(site)).action == "cp_fenceproxy" for site in site_of(writes)])
        column, first = column_of(writes), topology.cta[lane] // topology.cluster_size * topology.cluster_size
        ordinary = ~fused & (clusters == ground.cluster_of(lane)) & (column < ground.clocks.base)
        writers = column % topology.threads * topology.ctas + first + column // topology.threads
        released = np.array([self._released.get(int(writer), 0) for writer in writers])
        return np.asarray(ordinary & (released < time_of(writes)))

    def _sees(self, lane: int, address: int, time: int) -> bool:
        """Whether a lane knows of an acquire of a map after a time."""
        clocks = self._ground.clocks
        return any(
            fence > time
            and (other == lane or (self._ground.cluster_of(other) == self._ground.cluster_of(lane)
                                   and clocks.facts[KNOWN, lane, clocks.column[other]] >= fence))
            for other, fence in self._acquired.get(address, {}).items()
        )  # fmt: skip

    def _report(self, kind: str, site: int, lane: int, address: int, access: int, cluster: int, fence: str) -> None:
        ground, past = self._ground, int(site_of(np.array(access)))
        other = cluster if cluster != ground.cluster_of(lane) else None
        who = ground.name_of(int(column_of(np.array(access))), int(ground.topology.cta[lane]), other)
        how = f"has written{fence}" if fence else "writes without order"
        message = f"{ground.words.describe(site)} takes the tensor map at address {address:#x}, which {who} {how}"
        ground.report(kind, message, (site, past), ground.topology.group(np.array([lane])), address)
