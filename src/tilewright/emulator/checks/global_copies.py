"""The checks of bulk copies' reads and writes of global memory.

Reads are recorded late: an allocation that no thread writes costs only a list of reads.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.releases import Releases
from tilewright.emulator.checks.reporting.rules import accesses
from tilewright.emulator.checks.shadow import GlobalShadow, column_of, is_asynchronous, pack, site_of, time_of
from tilewright.emulator.lanes import Array, Indices
from tilewright.emulator.machine.operation import GlobalRegion
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.semantics.tiles import Rows


class GlobalCopyChecks:
    """The checks of a wave's bulk copies; each copy belongs to the lane that issues it and to its agent's column."""

    def __init__(self, ground: Ground, releases: Releases) -> None:
        self._ground, self._releases = ground, releases

    def read(self, site: int, lanes: Indices, columns: Indices | None, region: GlobalRegion) -> None:
        """Check copies, one by each lane, that read their parts of a region.

        columns: the columns of the agents that signal the end of the reads; None if the reads are not recorded.
        """
        assert region.bounds is not None
        (first, last), rows_of = region.bounds, region.rows_of
        clusters, shadow = self._ground.clusters_of(lanes), self._ground.shadow_of(first - GLOBAL_BASE)
        access = None if columns is None else pack(self._ground.tick(), columns, site, True)
        if not shadow.written and last - GLOBAL_BASE < shadow.end:
            if access is not None:
                shadow.deferred.append(partial(_note_reads, shadow, rows_of, access, clusters))
            return
        for index, lane in enumerate(lanes.tolist()):
            if (rows := rows_of(index)) is not None:
                shadow = self._shadow_of(rows)
                cells = _cells(shadow, rows)
                writes, writers = shadow.writes[cells], shadow.write_clusters[cells]
                self._require_order("reads", site, lane, shadow, cells, writes, writers)
                if access is not None:
                    shadow.read(cells[None], access[index].reshape(1, 1), clusters[index].reshape(1, 1))

    def write(self, site: int, lane: int, rows: Rows | None, agent: tuple[str, int]) -> int:
        """Check a bulk store or reduction of a lane that writes a range; returns the time, for the wait."""
        ground, now = self._ground, self._ground.tick()
        if rows is None:
            return now
        shadow, size = self._shadow_of(rows), ground.topology.cluster_size
        shadow.expect_writes()
        cells, verb = _cells(shadow, rows), "updates" if ground.traits.reductions[site] else "writes"
        pasts = zip((shadow.writes, *shadow.reads), (shadow.write_clusters, *shadow.read_clusters), strict=True)
        for number, (past, clusters) in enumerate(pasts):
            self._require_order(verb, site, lane, shadow, cells, past[cells], clusters[cells], reads=number > 0)
        column = ground.clocks.agent(agent, size) + ground.topology.cta[lane] % size
        shadow.writes[cells] = pack(now, column, site, True)
        shadow.write_clusters[cells] = ground.cluster_of(lane)
        return now

    def _shadow_of(self, rows: Rows) -> GlobalShadow:
        return self._ground.shadow_of(int(rows.starts[0]) - GLOBAL_BASE)

    def _require_order(
        self,
        verb: str,
        site: int,
        lane: int,
        shadow: GlobalShadow,
        cells: Indices,
        past: Array,
        clusters: Array,
        reads: bool = False,
    ) -> None:
        """Report past accesses that a lane's copy is not ordered after; it must see threads' writes past a fence."""
        some = np.flatnonzero(past > 0)
        if not some.size:
            return
        ground = self._ground
        clocks, past = ground.clocks, past[some]
        column, time, lanes = column_of(past), time_of(past), np.full(some.size, lane)
        foreign = clusters[some] != ground.cluster_of(lane)
        own = np.where(foreign, 0, column)
        known = (clocks.facts[KNOWN, lane, own] >= time) | (own == clocks.column[lane])
        if foreign.any():
            theirs = (lanes[foreign], clusters[some][foreign], column[foreign], time[foreign])
            known[foreign] = self._releases.knows(*theirs)
        ordered, ordinary = known, column < clocks.base
        if not reads and ordinary.any():
            seen = clocks.facts[clocks.visible_global, lane, own] >= time
            if foreign.any():
                seen[foreign] = self._releases.sees(*theirs)
            ordered = known & (seen | ~ordinary)
        late = ~ordered
        if verb == "updates":
            late &= ~ground.traits.reductions[site_of(past)]
        by_threads = ordinary | foreign
        for kind, mask in (
            ("read-before-wait" if verb == "reads" else "overwrite-before-wait", late & ~by_threads),
            ("race", late & by_threads & ~known),
            ("proxy-fence", late & by_threads & known),
        ):
            if not mask.any():
                continue
            index = int(mask.argmax())
            address = GLOBAL_BASE + shadow.start + int(cells[some[index]]) * shadow.cell
            cluster = int(clusters[some[index]]) if foreign[index] else None
            who = ground.name_of(int(column[index]), int(ground.topology.cta[lane]), cluster)
            how = accesses(
                kind, ground.words.instruction(int(site_of(past[index]))), bool(is_asynchronous(past[index]))
            )
            message = f"{ground.words.describe(site)} {verb} address {address:#x}, which {who} {how}"
            group = ground.topology.group(np.array([lane]))
            ground.report(kind, message, (site, int(site_of(past[index]))), group, address)


def _cells(shadow: GlobalShadow, rows: Rows) -> Indices:
    return shadow.cells_of_rows(rows.starts - GLOBAL_BASE, rows.nbytes)


def _note_reads(shadow: GlobalShadow, rows_of: Callable[[int], Rows | None], access: Array, clusters: Array) -> None:
    """Record reads of an allocation that had not been written by then."""
    for index in range(access.size):
        if (rows := rows_of(index)) is not None:
            shadow.read(_cells(shadow, rows)[None], access[index].reshape(1, 1), clusters[index].reshape(1, 1))
