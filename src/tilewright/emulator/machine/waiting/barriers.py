"""Barriers of a CTA (bar, barrier.cta) and of a cluster (barrier.cluster)."""

from dataclasses import dataclass, replace

import numpy as np

from tilewright.emulator.errors import BarrierProtocol
from tilewright.emulator.lanes import WARP, Array, Group, Indices, Mask, Topology, lanes_of
from tilewright.emulator.machine.wave import Wave

NAMED_BARRIERS = 16
CLUSTER_BARRIER = "cluster"
"""The name of a cluster's barrier for observers; other barriers have numbers."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The reduction of bar.red over the predicates of all threads: popc, and, or.

    place: the lanes of the result's register; None if no instruction reads it.
    """

    operation: str
    place: Array | None

    def give(self, group: Group, trues: Indices, arrived: Indices) -> None:
        """Give the result to lanes, from the numbers of true predicates and of arrivals, by CTA."""
        if self.place is not None:
            results = {"popc": trues, "and": trues == arrived, "or": trues > 0}[self.operation]
            self.place[group.lanes] = results[group.cta]


@dataclass(slots=True)
class _Waiting:
    group: Group
    block: int
    site: int
    reduction: _Reduction | None = None


class _NamedBarrier:
    """The state of one barrier number in all resident CTAs; arrays have shape (ctas,).

    expected: threads per CTA, 0 for all that have not exited.
    trues: threads that arrived with a true predicate.
    operation: the reduction of the phase, empty for none.
    lanes: (lanes,), whether each lane has arrived.
    """

    def __init__(self, topology: Topology) -> None:
        ctas = topology.ctas
        self.arrived, self.expected, self.trues = (np.zeros(ctas, np.int64) for _ in range(3))
        self.lanes = np.zeros(topology.lanes, np.bool_)
        self.operation = np.full(ctas, "", "U4")
        self.waiting: list[_Waiting] = []


class Barriers:
    """The barriers of a wave: the lanes that have arrived at each, and the lanes that wait for it."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._named: dict[int, _NamedBarrier] = {}
        self._cluster_waiting: list[_Waiting] = []
        topology = wave.topology
        self._cluster_phase = np.zeros(topology.ctas // topology.cluster_size, np.int64)
        self._arrived_phase = np.full(topology.lanes, -1, np.int64)  # cluster phase of each lane's last arrival
        self._owes_wait = np.zeros(topology.lanes, np.bool_)  # lanes that have arrived at it and not waited since

    def sync(self, site: int, group: Group, name: Array, count: Array | None) -> None:
        """bar.sync: arrive, and go on when all have arrived."""
        self._wave.tell.waits_at(site, "barrier", group)
        self._arrive(site, group, name, count, self._wave.block + 1)

    def arrive(self, site: int, group: Group, name: Array, count: Array | None) -> None:
        """bar.arrive: count without waiting."""
        self._arrive(site, group, name, count, None)

    def reduce(
        self,
        site: int,
        group: Group,
        name: Array,
        count: Array | None,
        operation: str,
        condition: Array,
        place: Array | None,
    ) -> None:
        """bar.red: like bar.sync, with a result from the predicates of all threads (see _Reduction)."""
        self._wave.tell.waits_at(site, "barrier", group)
        self._arrive(site, group, name, count, self._wave.block + 1, _Reduction(operation, place), condition)

    def _arrive(
        self,
        site: int,
        group: Group,
        name: Array,
        count: Array | None,
        block: int | None,
        reduction: _Reduction | None = None,
        condition: Array | None = None,
    ) -> None:
        names = lanes_of(name, group.size)
        number = int(names[0])
        same = names == number
        if not same.all():
            rest = ~same
            of_lanes = [None if values is None else lanes_of(values, group.size) for values in (count, condition)]
            others, these = ([None if v is None else v[some] for v in of_lanes] for some in (rest, same))
            self._arrive(site, group.take(rest), names[rest], others[0], block, reduction, others[1])
            group, (count, condition) = group.take(same), these
        if number >= NAMED_BARRIERS:
            raise BarrierProtocol(f"{self._at(site)} names barrier {number}; there are {NAMED_BARRIERS}")
        ctas = self._wave.topology.ctas
        barrier = self._named.get(number)
        if barrier is None:
            barrier = self._named[number] = _NamedBarrier(self._wave.topology)
        self._join_phase(site, group, number, barrier, count, "" if reduction is None else reduction.operation)
        barrier.arrived += np.bincount(group.cta, minlength=ctas)
        barrier.lanes[group.lanes] = True
        if condition is not None:
            barrier.trues += np.bincount(group.cta[lanes_of(condition, group.size)], minlength=ctas)
        self._wave.tell.barrier_arrived(site, number, group)
        if block is not None:
            barrier.waiting.append(_Waiting(group, block, site, reduction))
        self._release(site, number, barrier)

    def _join_phase(
        self, site: int, group: Group, number: int, barrier: _NamedBarrier, count: Array | None, operation: str
    ) -> None:
        """Require the arrivals of a phase to agree, and record what they agree on."""
        threads = 0 if count is None else int(np.max(count))
        if count is not None and (count != threads).any():
            raise BarrierProtocol(f"{self._at(site)} expects different numbers of threads in different threads")
        if threads % 32:
            raise BarrierProtocol(f"{self._at(site)} expects {threads} threads, which is not a multiple of 32")
        started = barrier.arrived[group.cta] > 0
        if (barrier.expected[group.cta][started] != threads).any():
            raise BarrierProtocol(
                f"{self._at(site)} expects {threads or 'all'} threads at barrier {number}; an earlier arrival "
                "of the same phase expected another number"
            )
        if (barrier.operation[group.cta][started] != operation).any():
            raise BarrierProtocol(
                f"{self._at(site)} meets an arrival of another kind at barrier {number}: all threads of a phase "
                "execute bar.red with one operation, or none does"
            )
        barrier.expected[group.cta], barrier.operation[group.cta] = threads, operation

    def _release(self, site: int, number: int, barrier: _NamedBarrier) -> None:
        expected = np.where(barrier.expected > 0, barrier.expected, self._wave.alive_threads)
        arrived = self._arrived(barrier)
        over = arrived > expected
        if over.any():
            cta = int(over.argmax())
            raise BarrierProtocol(
                f"{self._at(site)}: {int(arrived[cta])} threads have arrived at barrier {number} of CTA {cta}, which "
                f"expects {int(expected[cta])}"
            )
        full = (arrived > 0) & (arrived == expected)
        if not full.any():
            return
        self._wave.milestones += 1
        waiting = [_split(entry, full[entry.group.cta]) for entry in barrier.waiting]
        self._wave.tell.barrier_completed(number, full, full & (barrier.expected == 0))
        self._wave.tell.barrier_passed(number, [entry.group for entry, _ in waiting if entry.group.size])
        for entry, _ in waiting:
            if entry.reduction is not None:
                entry.reduction.give(entry.group, barrier.trues, barrier.arrived)
        barrier.arrived[full] = barrier.trues[full] = 0
        barrier.lanes.reshape(-1, full.size)[:, full] = False
        barrier.waiting = [rest for _, rest in waiting if rest.group.size]
        for entry, _ in waiting:
            self._wave.push(entry.block, entry.group)

    def _arrived(self, barrier: _NamedBarrier) -> Array:
        """The number of threads that have arrived, by CTA.

        With an expected count, an arriving warp counts as a whole, including threads that have exited or never existed.
        """
        wave, topology = self._wave, self._wave.topology
        beyond = -topology.threads % WARP
        if not barrier.expected.any() or ((wave.alive_threads == topology.threads).all() and not beyond):
            return barrier.arrived
        warp = topology.thread // WARP * topology.ctas + topology.cta
        came = np.bincount(warp, weights=barrier.lanes) > 0
        exited = topology.cta[came[warp] & ~wave.alive & ~barrier.lanes]
        idle = np.bincount(exited, minlength=topology.ctas) + beyond * came[-topology.ctas :]
        return barrier.arrived + np.where(barrier.expected > 0, idle, 0)

    def cluster_arrive(self, site: int, group: Group) -> None:
        """barrier.cluster.arrive."""
        if self._owes_wait[group.lanes].any():
            raise BarrierProtocol(f"{self._at(site)} arrives again at the cluster barrier without having waited")
        self._owes_wait[group.lanes] = True
        self._arrived_phase[group.lanes] = self._cluster_phase[self._cluster(group)]
        self._wave.tell.barrier_arrived(site, CLUSTER_BARRIER, group)
        self._advance_clusters()

    def cluster_wait(self, site: int, group: Group) -> None:
        """barrier.cluster.wait."""
        self._wave.tell.waits_at(site, "barrier", group)
        if not self._owes_wait[group.lanes].all():
            raise BarrierProtocol(f"{self._at(site)} waits at the cluster barrier without having arrived")
        self._owes_wait[group.lanes] = False
        self._cluster_waiting.append(_Waiting(group, self._wave.block + 1, site))
        self._wake_clusters()

    def threads_exited(self) -> None:
        """Count threads that exit as arrived."""
        for number, barrier in self._named.items():
            if barrier.waiting:
                self._release(barrier.waiting[0].site, number, barrier)
        self._advance_clusters()

    def _advance_clusters(self) -> None:
        topology = self._wave.topology
        arrived = (self._arrived_phase == np.tile(self._phase_of_cta(), topology.threads)) | ~self._wave.alive
        by_cta = arrived.reshape(topology.threads, topology.ctas).all(axis=0)
        full = by_cta.reshape(-1, topology.cluster_size).all(axis=1)
        if full.any():
            self._cluster_phase[full] += 1
            self._wave.milestones += 1
            everybody = np.ones(topology.ctas, np.bool_)
            self._wave.tell.barrier_completed(CLUSTER_BARRIER, np.repeat(full, topology.cluster_size), everybody)
            self._wake_clusters()

    def _wake_clusters(self) -> None:
        waiting, self._cluster_waiting = self._cluster_waiting, []  # groups that go on may exit and wake others at once
        for entry in waiting:
            over = self._arrived_phase[entry.group.lanes] < self._cluster_phase[self._cluster(entry.group)]
            passing, rest = _split(entry, over)
            if rest.group.size:
                self._cluster_waiting.append(rest)
            if passing.group.size:
                self._wave.tell.barrier_passed(CLUSTER_BARRIER, [passing.group])
                self._wave.push(passing.block, passing.group)

    def _phase_of_cta(self) -> Indices:
        return np.repeat(self._cluster_phase, self._wave.topology.cluster_size)

    def _cluster(self, group: Group) -> Indices:
        return group.cta // self._wave.topology.cluster_size

    def describe_waiting(self) -> list[str]:
        """A line for each waiting group, with what it waits for."""
        lines = []
        for number, barrier in self._named.items():
            for entry in barrier.waiting:
                cta = int(entry.group.cta[0])
                expected = int(barrier.expected[cta]) or int(self._wave.alive_threads[cta])
                arrived = int(self._arrived(barrier)[cta])
                lines.append(
                    f"{self._wave.words.name(entry.group)}, waiting at {self._at(entry.site)}: {arrived} of {expected} "
                    f"threads have arrived at barrier {number}"
                )
        for entry in self._cluster_waiting:
            lines.append(
                f"{self._wave.words.name(entry.group)}, waiting at {self._at(entry.site)} for the rest of their cluster"
            )
        return lines

    def _at(self, site: int) -> str:
        return self._wave.words.describe(site)


def _split(entry: _Waiting, passes: Mask) -> tuple[_Waiting, _Waiting]:
    """The lanes that no longer wait, and the rest."""
    if passes.all():
        return entry, replace(entry, group=entry.group.take(~passes))
    return replace(entry, group=entry.group.take(passes)), replace(entry, group=entry.group.take(~passes))
