"""The mbarrier objects. Source: PTX ISA, "mbarrier".

A phase of an mbarrier is over when no arrivals and no bytes are pending. The count of pending bytes may be negative for
a while, since a multicast copy can land before its expect_tx.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tilewright.emulator.errors import BarrierProtocol, MbarrierLifetime, MbarrierState
from tilewright.emulator.lanes import Active, Array, Group, Indices, Mask, lanes_of
from tilewright.emulator.machine.waiting.mbarrier_states import fault_of, parity_of, pending_of, states_of
from tilewright.emulator.machine.wave import Wave


class _Barrier:
    """The mbarriers at one shared-memory offset of all resident CTAs; arrays have shape (ctas,)."""

    def __init__(self, ctas: int) -> None:
        self.valid = np.zeros(ctas, np.bool_)
        self.count, self.pending, self.bytes, self.phase = (np.zeros(ctas, np.int64) for _ in range(4))

    def over(self) -> Mask:
        """The CTAs in which nothing of the current phase is pending."""
        return np.asarray(self.valid & (self.pending == 0) & (self.bytes == 0))


MBARRIER_BYTES = 8
"""The size of an mbarrier object, and its alignment."""
_MOST_BYTES = (1 << 20) - 1
"""The limit of the tx-count in either direction (PTX ISA, "Contents of the mbarrier object")."""


_FUTILE_ROUNDS = 8
"""How often all try_wait give up in a row although nothing comes of it, before the launch counts as deadlocked."""


@dataclass(slots=True)
class _Waiting:
    """Lanes that wait for the end of a parity's phase, and the block where they go on.

    done: the lanes of the predicate that says whether the phase is over; None if no instruction reads it.
    """

    group: Group
    cta: Indices
    parity: Indices
    block: int
    site: int
    done: Array | None = None

    def take(self, mask: Mask) -> "_Waiting":
        """Some of the lanes."""
        return replace(self, group=self.group.take(mask), cta=self.cta[mask], parity=self.parity[mask])


class Mbarriers:
    """The mbarriers of a wave, and the lanes that wait for them."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._barriers: dict[int, _Barrier] = {}
        self._waiting: dict[int, list[_Waiting]] = {}
        self._failed = np.zeros(wave.topology.lanes, np.bool_)  # lanes whose last try_wait gave up
        self._milestones, self._futile = 0, 0
        self._tested: dict[tuple[int, int], _Waiting] = {}  # the last test_wait that failed, by site and offset

    def init(self, site: int, group: Group, space: str, address: Array, count: Array, active: Active) -> None:
        """mbarrier.init."""
        counts = lanes_of(count, group.size)
        if ((counts < 1) | (counts >= 1 << 20)).any():
            raise BarrierProtocol(f"{self._at(site)} has a count outside 1..2**20 - 1: {int(counts.max())}")
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            barrier = self._barriers.setdefault(offset, _Barrier(self._wave.topology.ctas))
            if barrier.valid[cta].any() or np.unique(cta).size < cta.size:
                raise MbarrierLifetime(
                    f"{self._at(site)} initializes the mbarrier at {self._wave.words.shared(offset)} again without "
                    "mbarrier.inval in between",
                    address=offset,
                )
            barrier.valid[cta] = True
            barrier.count[cta] = barrier.pending[cta] = counts[lanes]
            barrier.bytes[cta] = barrier.phase[cta] = 0
            self._wave.tell.mbarrier_made(site, group.indices[lanes], offset, cta)

    def invalidate(self, site: int, group: Group, space: str, address: Array, active: Active) -> None:
        """mbarrier.inval."""
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            barrier = self._valid(site, offset, cta)
            barrier.valid[cta] = False
            self._wave.tell.mbarrier_ended(site, group.indices[lanes], offset, cta)

    def expect(self, site: int, group: Group, space: str, address: Array, size: Array, active: Active) -> None:
        """mbarrier.expect_tx, and complete_tx with a negative size."""
        sizes = lanes_of(size, group.size)
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            barrier = self._valid(site, offset, cta)
            self._wave.tell.mbarrier_used(site, group.indices[lanes], offset, cta)
            np.add.at(barrier.bytes, cta, sizes[lanes])
            self._require_bytes(site, offset)
            self._advance(offset)

    def arrive(
        self,
        site: int,
        group: Group,
        space: str,
        address: Array,
        count: Array,
        expected: Array,
        drop: bool,
        active: Active,
    ) -> Array:
        """mbarrier.arrive, after an expect_tx of `expected` bytes; returns the state."""
        counts, sizes = lanes_of(count, group.size), lanes_of(expected, group.size)
        state = np.zeros(group.size, np.uint64)
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            barrier = self._valid(site, offset, cta)
            before = barrier.pending[cta] - _earlier(cta, counts[lanes].astype(np.int64))
            state[lanes] = states_of(self._place(offset, cta), before, barrier.phase[cta])
            self._wave.tell.mbarrier_used(site, group.indices[lanes], offset, cta)
            self._wave.tell.mbarrier_arrived(site, group.indices[lanes], offset, cta)
            np.add.at(barrier.bytes, cta, sizes[lanes].astype(np.int64))
            self._require_bytes(site, offset)
            np.subtract.at(barrier.pending, cta, counts[lanes].astype(np.int64))
            if drop:
                np.subtract.at(barrier.count, cta, counts[lanes].astype(np.int64))
            if (barrier.pending < 0).any():
                who = int(np.flatnonzero(barrier.pending < 0)[0])
                raise BarrierProtocol(
                    f"{self._at(site)} arrives too often: the mbarrier at {self._wave.words.shared(offset)} of CTA "
                    f"{int(self._wave.cta_numbers[who])} takes {int(barrier.count[who])} arrivals in a phase and "
                    f"got {-int(barrier.pending[who])} more",
                    address=offset,
                )
            if "noComplete" in self._wave.words.modifiers(site) and barrier.over().any():
                raise BarrierProtocol(
                    f"{self._at(site)} completes the phase of the mbarrier at {self._wave.words.shared(offset)}, which "
                    ".noComplete rules out"
                )
            self._advance(offset)
        return state

    def pending_count(self, state: Array) -> Array:
        """mbarrier.pending_count: the number of arrivals that were pending before the one that returned the state."""
        return pending_of(np.asarray(state).astype(np.int64)).astype(np.uint32)

    def parity(self, site: int, group: Group, space: str, address: Array, state: Array, active: Active) -> Array:
        """The parity of the phase in each lane's state; the state must fit this mbarrier now."""
        states = lanes_of(state, group.size).astype(np.int64)
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            phase = self._valid(site, offset, cta).phase[cta]
            if fault := fault_of(states[lanes], self._place(offset, cta), phase):
                first, why = fault
                message = f"{self._at(site)} asks the mbarrier at {self._wave.words.shared(offset)} {why}"
                raise MbarrierState(message, address=offset, lane=group.indices[lanes][first : first + 1])
        return parity_of(states)

    def _place(self, offset: int, cta: Indices) -> Indices:
        """A number for the mbarrier of each CTA, unique in its cluster; shared memory has less than 2**18 bytes."""
        return cta % self._wave.topology.cluster_size << 15 | offset // MBARRIER_BYTES

    def arrive_later(self, site: int, offset: int, cta: Indices, increments: bool) -> None:
        """Announce arrivals, one per entry of cta; `increments` makes room for them in the phase."""
        if increments:
            np.add.at(self._valid(site, offset, cta).pending, cta, 1)

    def arrive_at(self, site: int, offset: int, cta: Indices) -> None:
        """Make one arrival for each entry of cta."""
        barrier = self._valid(site, offset, cta)
        np.subtract.at(barrier.pending, cta, 1)
        if (barrier.pending < 0).any():
            message = f"{self._at(site)} arrives too often at the mbarrier at {self._wave.words.shared(offset)}"
            raise BarrierProtocol(message, address=offset)
        self._advance(offset)

    def complete(self, site: int, offset: int, cta: Indices, size: int) -> None:
        """Count `size` bytes that asynchronous copies have landed, for each entry of cta.

        Nobody waits for those that land in a CTA that has exited: the checks have reported its exit, if there are any.
        """
        alive = self._wave.alive_threads[cta] > 0
        if not alive.all() and self._wave.tell.hear("exited_early"):
            cta = cta[alive]
            if not cta.size:
                return
        np.subtract.at(self._valid(site, offset, cta).bytes, cta, size)
        self._advance(offset)

    def test(self, site: int, group: Group, space: str, address: Array, parity: Array, active: Active) -> Mask:
        """mbarrier.test_wait: whether the phase of each lane's parity is over."""
        parities = lanes_of(parity, group.size).astype(np.int64)
        done = np.zeros(group.size, np.bool_)
        for offset, cta, lanes in self._locate(site, group, space, address, active):
            barrier = self._valid(site, offset, cta)
            over = done[lanes] = barrier.phase[cta] % 2 != parities[lanes]
            if not over.all():
                part = group if isinstance(lanes, slice) else group.take(_mask(lanes, group.size))
                self._tested[site, offset] = _Waiting(part, cta, parities[lanes], self._wave.block, site)
            self._wave.tell.mbarrier_used(site, group.indices[lanes], offset, cta)
            if over.any():
                passing = group.take(_mask(np.arange(group.size)[lanes][over], group.size))
                self._wave.tell.mbarrier_passed(site, passing, offset)
        return done

    def attempt(self, site: int, group: Group, space: str, address: Array, parity: Array) -> Mask:
        """mbarrier.try_wait: the lanes that will wait for the end of the phase; the others time out this time.

        The time limit of try_wait is unknown. A lane's first attempt fails if something is left to wait for and
        operations are not eager, so a kernel that does not try again goes wrong here.
        """
        if self._wave.asynchrony.policy == "eager":
            return np.ones(group.size, np.bool_)
        parities = lanes_of(parity, group.size).astype(np.int64)
        stays = np.ones(group.size, np.bool_)
        for offset, cta, lanes in self._locate(site, group, space, address, None):
            stays[lanes] = self._valid(site, offset, cta).phase[cta] % 2 != parities[lanes]
        failed_before = self._failed[group.lanes].copy()
        self._failed[group.lanes] = ~stays & ~failed_before
        return stays | failed_before

    def wait(
        self, site: int, group: Group, space: str, address: Array, parity: Array, stays: Mask, done: Array | None
    ) -> None:
        """mbarrier.try_wait: lanes go on to the next block when their parity's phase is over or they do not stay.

        done: the lanes of the predicate, which is true in those that stay.
        """
        wave = self._wave
        if not stays.all():
            wave.push(wave.block + 1, group.take(~stays))
            address, parity = (lanes_of(values, group.size)[stays] for values in (address, parity))
            group = group.take(stays)
            if not group.size:
                return
        wave.tell.waits_at(site, "mbarrier", group)
        parities = lanes_of(parity, group.size).astype(np.int64)
        for offset, cta, lanes in self._locate(site, group, space, address, None):
            self._valid(site, offset, cta)
            self._wave.tell.mbarrier_used(site, group.indices[lanes], offset, cta)
            part = group if isinstance(lanes, slice) else group.take(_mask(lanes, group.size))
            self._release(offset, _Waiting(part, cta, parities[lanes], wave.block + 1, site, done))

    def time_out(self) -> bool:
        """Let all that wait at a try_wait give up, since its time limit may end; False if that leads nowhere.

        Only kernels that look once, and go on without the phase, need this: other lanes come to wait again.
        """
        waiting, reached = [entry for entries in self._waiting.values() for entry in entries], self._wave.milestones
        self._futile = self._futile + 1 if reached == self._milestones else 0
        self._milestones = reached
        if not waiting or self._futile >= _FUTILE_ROUNDS:
            return False
        self._waiting.clear()
        for entry in waiting:
            if entry.done is not None:
                entry.done[entry.group.lanes] = False
            self._wave.push(entry.block, entry.group)
        return True

    def require_valid(self, site: int, offset: int, cta: Indices) -> None:
        """Raise if an mbarrier that copies will signal is not initialized, or its CTA has exited."""
        self._valid(site, offset, cta)

    def describe_waiting(self) -> list[str]:
        """A line for each waiting group, with what it waits for."""
        return [
            self._describe(offset, entry, "waiting at")
            for offset, waiting in self._waiting.items()
            for entry in waiting
        ]

    def waited_for(self) -> int | None:
        """The shared address of an mbarrier that a group waits for."""
        return next((offset for offset, waiting in self._waiting.items() if waiting), None)

    def describe_testing(self) -> list[str]:
        """A line for each group whose last test_wait failed and would fail again."""
        lines = []
        for (_, offset), entry in self._tested.items():
            still = self._barriers[offset].phase[entry.cta] % 2 == entry.parity
            still &= self._wave.alive[entry.group.lanes]
            if still.any():
                lines.append(self._describe(offset, entry.take(still), "asking again and again at"))
        return lines

    def _describe(self, offset: int, waiting: _Waiting, does: str) -> str:
        barrier, cta = self._barriers[offset], int(waiting.cta[0])
        missing = int(barrier.bytes[cta])
        surplus = f"{-missing} bytes more than expected have arrived"
        return (
            f"{self._wave.words.name(waiting.group)}, {does} {self._at(waiting.site)} for the phase of parity "
            f"{int(waiting.parity[0])} of the mbarrier at {self._wave.words.shared(offset)}: pending arrivals "
            f"{int(barrier.pending[cta])} of {int(barrier.count[cta])}, "
            f"{surplus if missing < 0 else f'missing bytes {missing}'}, phases completed {int(barrier.phase[cta])}"
        )

    def _locate(
        self, site: int, group: Group, space: str, address: Array, active: Active
    ) -> Iterator[tuple[int, Indices, slice | Indices]]:
        """Each distinct offset, the CTA slots of its lanes, and the lanes (an index into the group)."""
        lanes: slice | Indices = slice(None)
        if active is not None:
            lanes = np.flatnonzero(lanes_of(active, group.size))
            if not lanes.size:
                return
            address = lanes_of(address, group.size)[lanes]
            group = group.take(lanes_of(active, group.size))
        cta, offsets = self._wave.access.cta_and_offset(site, group, space, address)
        first = int(offsets[0])
        if (offsets == first).all():
            yield first, cta, lanes
            return
        numbers = np.arange(group.size) if isinstance(lanes, slice) else lanes
        for offset in np.unique(offsets):
            here = offsets == offset
            yield int(offset), cta[here], numbers[here]

    def _valid(self, site: int, offset: int, cta: Indices) -> _Barrier:
        if not self._wave.alive_threads[cta].all():
            alone = self._wave.topology.cluster_size == 1
            remedy = (
                "a CTA may exit only after its copies have landed: wait for the mbarrier that they signal"
                if alone
                else "no CTA of a cluster may exit while another still sends to it"
            )
            message = f"{self._at(site)} uses shared memory of a CTA that has exited: {remedy}"
            raise MbarrierLifetime(message, address=offset)
        barrier = self._barriers.get(offset)
        if barrier is None or not barrier.valid[cta].all():
            raise MbarrierLifetime(
                f"{self._at(site)} uses the mbarrier at {self._wave.words.shared(offset)}, which is not initialized",
                address=offset,
            )
        return barrier

    def _require_bytes(self, site: int, offset: int) -> None:
        """Raise if an mbarrier's pending bytes, in either direction, exceed the range of its tx-count."""
        pending = self._barriers[offset].bytes
        if (np.abs(pending) > _MOST_BYTES).any():
            message = (
                f"{self._at(site)} leaves the mbarrier at {self._wave.words.shared(offset)} with a tx-count of "
                f"{int(pending[np.abs(pending).argmax()])} bytes, outside -(2**20 - 1)..2**20 - 1: split the phase"
            )
            raise BarrierProtocol(message, address=offset)

    def _advance(self, offset: int) -> None:
        """Start the next phase in the CTAs where the current one is over, and wake the lanes that waited for that."""
        barrier = self._barriers[offset]
        over = barrier.over()
        if not over.any():
            return
        barrier.phase[over] += 1
        self._wave.milestones += 1
        self._wave.tell.mbarrier_completed(offset, over)
        barrier.pending[over] = barrier.count[over]
        for waiting in self._waiting.pop(offset, []):
            self._release(offset, waiting)

    def _release(self, offset: int, waiting: _Waiting) -> None:
        """Let the lanes whose phase is over go on; the others keep waiting."""
        barrier = self._barriers[offset]
        done = barrier.phase[waiting.cta] % 2 != waiting.parity
        if done.any():
            passing = waiting.group if done.all() else waiting.group.take(done)
            self._wave.tell.mbarrier_passed(waiting.site, passing, offset)
            self._wave.push(waiting.block, passing)
            if done.all():
                return
            waiting = waiting.take(~done)
        self._waiting.setdefault(offset, []).append(waiting)

    def _at(self, site: int) -> str:
        return self._wave.words.describe(site)


def _earlier(cta: Indices, counts: Indices) -> Indices:
    """For each entry, the sum of the earlier entries with the same CTA."""
    order = np.argsort(cta, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    first = np.r_[True, cta[order][1:] != cta[order][:-1]]
    earlier = np.empty_like(before)
    earlier[order] = before - np.maximum.accumulate(np.where(first, before, 0))
    return earlier


def _mask(indices: Indices, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[indices] = True
    return mask
