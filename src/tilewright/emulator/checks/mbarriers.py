"""The checks of mbarriers: knowledge passes from arrivals to waits, and initialization precedes use."""

import numpy as np

from tilewright.emulator.checks.accesses import AccessChecks
from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.lifetimes import LifetimeChecks
from tilewright.emulator.checks.shadow import NEVER, column_of, pack
from tilewright.emulator.errors import LaunchError
from tilewright.emulator.lanes import Array, Group, Indices, Mask
from tilewright.emulator.machine.waiting.mbarriers import MBARRIER_BYTES
from tilewright.emulator.program.traits import CLUSTER, CTA, Traits


class MbarrierChecks:
    """The mbarriers of a wave, by their shared addresses."""

    def __init__(self, ground: Ground, accesses: AccessChecks, lifetimes: LifetimeChecks) -> None:
        self._parts = ground, accesses, lifetimes
        self._modifiers = ground.words.modifiers
        self._facts: dict[int, MbarrierFacts] = {}

    def at(self, offset: int) -> "MbarrierFacts":
        """The facts of the mbarriers at a shared address."""
        return self._facts[offset]

    def made(self, site: int, lanes: Indices, offset: int, cta: Indices) -> None:
        """mbarrier.init."""
        if offset not in self._facts:
            self._facts[offset] = MbarrierFacts(*self._parts, offset)
            self._facts[offset].require_room(site, len(self._facts))
        self._facts[offset].init(site, lanes, cta)

    def arrived(self, site: int, lanes: Indices, offset: int, cta: Indices) -> None:
        """mbarrier.arrive: it releases, unless it is relaxed."""
        if "relaxed" not in self._modifiers(site):
            self._facts[offset].arrive(lanes, cta, self._scope(site))

    def passed(self, site: int, group: Group, offset: int) -> None:
        """Record that a wait is over: it acquires, unless it is relaxed."""
        if "relaxed" not in self._modifiers(site):
            self._facts[offset].wait(group, self._scope(site))

    def fence(self, lanes: Indices) -> None:
        """fence.mbarrier_init: a release of earlier initializations by the same thread, and of nothing else."""
        for facts in self._facts.values():
            facts.fence(lanes)

    def release_initialized(self, rows: Array, lanes: Indices) -> None:
        """Add to the rows of a barrier the initializations that the arriving lanes have fenced."""
        for facts in self._facts.values():
            facts.release_initialized(rows, lanes)

    def _scope(self, site: int) -> int:
        """The scope of an arrival or a wait: .cta, unless it names another."""
        return CLUSTER if "cluster" in self._modifiers(site) else CTA


class MbarrierFacts:
    """The facts that the mbarriers at one shared address, in all CTAs of a wave, carry from arrivals to waits.

    pending: rows of the current phase's arrivals; done: of the completed phases; each (kinds, 2, ctas, columns), of
    arrivals from the mbarrier's own CTA and from peers. initialized: when the mbarrier was initialized, by the lane
    `initializer`; fenced: whether that thread has executed fence.mbarrier_init since. Who knows of the initialization
    has learned of it in a column of its own, by whatever orders accesses.
    """

    def __init__(self, ground: Ground, accesses: AccessChecks, lifetimes: LifetimeChecks, offset: int) -> None:
        ctas = ground.topology.ctas
        self._ground, self._accesses, self._lifetimes, self.offset = ground, accesses, lifetimes, offset
        self.column = ground.clocks.agent(("mbarrier", offset), ground.topology.cluster_size)
        self._made = ground.clocks.agent(("init", offset), ground.topology.cluster_size)
        self._pending, self._done = (np.stack([ground.clocks.nothing(ctas)] * 2, axis=1) for _ in range(2))
        self._peers = False  # whether any have arrived
        self._initializer = np.zeros(ctas, np.int64)
        self._initialized, self._fenced = np.zeros(ctas, np.int64), np.zeros(ctas, np.bool_)
        self._site = 0
        self._copies: int | None = None
        self._sent = np.zeros(ctas, np.bool_)  # whether peers' st.async or red.async signal it
        self._used = np.zeros((ctas, ground.clocks.base), np.int64)  # when each thread of the cluster last used it

    @property
    def _place(self) -> str:
        return self._ground.words.shared(self.offset)

    def require_room(self, site: int, count: int) -> None:
        """End the launch if `count` mbarriers, most of them made in a loop, take more host memory than allowed."""
        ground, nbytes = self._ground, self._pending.nbytes + self._done.nbytes + self._used.nbytes
        if count * nbytes + ground.clocks.facts.nbytes > ground.state.most_bytes:
            raise LaunchError(
                f"{ground.words.describe(site)} initializes the {count}th mbarrier of {self._used.shape[0]} CTAs "
                f"that run together: to check so many takes more than {ground.state.most_bytes} bytes; launch fewer "
                "CTAs, or on a Device with checks=False"
            )

    def columns(self, cta: Indices) -> Indices:
        """The column of each CTA's mbarrier."""
        return self.column + cta % self._ground.topology.cluster_size

    def init(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.init."""
        self._site = site
        self._initializer[cta], self._initialized[cta] = lanes, self._ground.tick()
        self._fenced[cta] = self._used[cta] = 0
        column = self._made + cta % self._ground.topology.cluster_size
        self._ground.clocks.facts[KNOWN, lanes, column] = self._initialized[cta]
        self._accesses.access_shared("st", site, lanes, self._places(cta), MBARRIER_BYTES)
        self._occupy(site, cta, NEVER)

    def _places(self, cta: Indices) -> Indices:
        """The places of some CTAs' mbarriers in flat shared memory."""
        return cta * self._ground.topology.shared_stride + self.offset

    def _occupy(self, site: int, cta: Indices, until: int) -> None:
        """Occupy the mbarriers of some CTAs until a time; other accesses must know of that time."""
        column = self._made + cta % self._ground.topology.cluster_size
        shadow = self._ground.shared
        cells = shadow.cells(self._places(cta), MBARRIER_BYTES)
        own = (until == NEVER) | (column_of(shadow.writes[cells]) == column[:, None])  # not a neighbor's
        shadow.writes[cells] = np.where(own, pack(until, column, site, True)[:, None], shadow.writes[cells])

    def invalidate(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.inval: all uses must be known to be over."""
        clocks, now = self._ground.clocks, self._ground.tick()
        clocks.facts[KNOWN, lanes, self._made + cta % self._ground.topology.cluster_size] = now
        self._occupy(site, cta, now)
        used = self._used[cta]
        late = used > clocks.overwritable(lanes[:, None], np.arange(clocks.base))
        late[np.arange(lanes.size), clocks.column[lanes]] = False
        if late.any():
            first, column = (int(index[0]) for index in np.nonzero(late))
            message = (
                f"{self._ground.words.describe(site)} ends the mbarrier at {self._place}, which "
                f"{self._ground.name_of(column, int(cta[first]))} uses without order"
            )
            group = self._ground.topology.group(np.array([lanes[first]]))
            self._ground.report("race", message, (site,), group, self.offset)

    def fence(self, lanes: Indices) -> None:
        """fence.mbarrier_init by some lanes."""
        self._fenced |= np.isin(self._initializer, lanes) & (self._initialized > 0)

    def release_initialized(self, rows: Array, lanes: Indices) -> None:
        """Add to the rows of a barrier the initializations that arriving lanes have released by the fence."""
        cta = np.flatnonzero(np.isin(self._initializer, lanes) & self._fenced)
        column = self._made + cta % self._ground.topology.cluster_size
        rows[KNOWN, cta, column] = np.maximum(rows[KNOWN, cta, column], self._initialized[cta])

    def use(self, site: int, lanes: Indices, cta: Indices, by_copy: bool = False) -> None:
        """Record that lanes use the mbarriers of CTAs, directly or through a copy that will signal them."""
        ground = self._ground
        clocks, topology = ground.clocks, ground.topology
        known = clocks.facts[KNOWN, lanes, self._made + cta % topology.cluster_size]
        bad = known < self._initialized[cta]
        if bad.any():
            first = int(bad.argmax())
            message = (
                f"{ground.words.describe(site)} uses the mbarrier at {self._place} and is not ordered after its "
                f"initialization: {self._remedy(bool(topology.cta[lanes[first]] != cta[first]))} must stand between "
                "the two"
            )
            group = topology.group(lanes[first : first + 1])
            ground.report("mbarrier-init", message, (site, self._site), group, self.offset)
        now, remote = ground.tick(), topology.cta[lanes] != cta
        self._used[cta, clocks.column[lanes]] = now
        if not by_copy:  # the phase tells when a copy ends
            self._lifetimes.touch(site, cta[remote], clocks.column[lanes[remote]], self.offset, now)

    def _remedy(self, remote: bool) -> str:
        """The remedy for a use that is not ordered after the initialization, maybe from another CTA."""
        if not remote:
            return "a barrier of the CTA, such as __syncthreads(),"
        return "a barrier of the cluster, with fence.mbarrier_init before it if its arrival is .relaxed,"

    def arrive(self, lanes: Indices, cta: Indices, scope: int) -> None:
        """Record that lanes arrive at the mbarriers of CTAs."""
        clocks = self._ground.clocks
        now = self._ground.tick()
        self._pending = clocks.fit(self._pending)
        remote = self._ground.topology.cta[lanes] != cta
        self._peers |= bool(remote.any())
        for peers, these in enumerate((~remote, remote)):
            if not these.any():
                continue
            facts, slots = clocks.facts[:, lanes[these]], cta[these]
            facts[KNOWN, np.arange(slots.size), clocks.column[lanes[these]]] = now
            order = np.argsort(slots, kind="stable")
            slots, starts = np.unique(slots[order], return_index=True)
            joined = np.maximum.reduceat(facts[:, order], starts, axis=1)
            if peers and scope < CLUSTER:
                joined = clocks.only_over(joined)
            self._pending[:, peers, slots] = np.maximum(self._pending[:, peers, slots], joined)

    def column_of_copies(self, cta: Indices) -> Indices:
        """The columns of the cp.async, st.async and red.async that signal each CTA's mbarrier."""
        size = self._ground.topology.cluster_size
        if self._copies is None:
            self._copies = self._ground.clocks.agent(("store", self.offset), size, ordinary=True)
        return self._copies + cta % size

    def sent(self, lanes: Indices, cta: Indices) -> None:
        """Record that lanes send st.async or red.async that will signal the mbarriers of CTAs."""
        remote = self._ground.topology.cta[lanes] != cta
        self._sent[cta[remote]] = True
        self._peers |= bool(remote.any())

    def complete(self, over: Mask) -> None:
        """Record that the current phase ends in some CTAs: copies that signaled it have landed."""
        clocks = self._ground.clocks
        self._pending, self._done = clocks.fit(self._pending), clocks.fit(self._done)
        self._done[..., over, :] = np.maximum(self._done[..., over, :], self._pending[..., over, :])
        self._pending[..., over, :] = 0
        ctas = np.flatnonzero(over)
        self._done[KNOWN, 0, ctas, self.columns(ctas)] = self._ground.tick()
        if self._copies is not None:
            columns = self.column_of_copies(ctas)
            self._done = clocks.fit(self._done)
            self._done[KNOWN, self._sent[ctas].astype(np.int64), ctas, columns] = self._ground.tick()

    def wait(self, group: Group, scope: int) -> None:
        """Record that a group goes on after it has seen the last phase of its CTAs' mbarriers end."""
        clocks = self._ground.clocks
        clocks.learn(group, self._done[:, 0])
        if self._peers:
            peers = self._done[:, 1]
            clocks.learn(group, peers if scope >= CLUSTER else clocks.only_over(peers))


def nbytes_of_mbarriers(traits: Traits, threads: int, cluster: int, lane: int) -> int:
    """The bytes of a CTA's mbarrier rows, as far as its program tells: each takes as much as four lanes.

    lane: the bytes of a lane's rows.
    """
    return traits.inits * (4 * lane + cluster * threads * np.dtype(np.int64).itemsize)
