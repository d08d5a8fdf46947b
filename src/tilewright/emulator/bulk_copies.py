"""Bulk copies and reductions (TMA): boxes of tensors and plain ranges between global and shared memory."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator import tma
from tilewright.emulator.arithmetic import lane_values, lanes_of
from tilewright.emulator.asynchrony import CommitGroups
from tilewright.emulator.bulk_operands import BulkOperands
from tilewright.emulator.counters import whole_sectors
from tilewright.emulator.errors import AsyncHazard, EmulatorError, OutOfBounds
from tilewright.emulator.lanes import WARP, Array, Group, Indices
from tilewright.emulator.memory import GLOBAL_BASE, Bytes, first_difference
from tilewright.emulator.reductions import reduce_into, require_bulk_reduction
from tilewright.emulator.swizzle import CHUNK
from tilewright.emulator.tensor_map import TensorMap

if TYPE_CHECKING:
    from tilewright.emulator.agents import MbarrierChecks
    from tilewright.emulator.machine import Machine


class BulkCopies:
    """cp.async.bulk, cp.reduce.async.bulk, and both of tensors."""

    def __init__(self, machine: "Machine") -> None:
        self._machine, self._operands = machine, BulkOperands(machine)
        self.groups = CommitGroups(machine.asynchrony, machine.topology.lanes)

    def load_tensor(
        self,
        site: int,
        group: Group,
        to: Array,
        handle: Array,
        coordinates: Sequence[Array],
        barrier: Array,
        mask: Array | None,
        active: Any,
    ) -> None:
        """A box of a tensor to shared memory; signals mbarriers at the same place in each destination CTA."""
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        access = self._machine.access
        to, barrier, handles, *axes = (
            lane_values(value, group.size, chosen) for value in (to, barrier, handle, *coordinates)
        )
        cta, offset = access.cta_and_offset(site, lanes, "cluster", to)
        signal_cta, signal = access.cta_and_offset(site, lanes, "cluster", barrier)
        boxes = np.stack(axes, axis=1).astype(np.int64)
        masks = np.zeros(lanes.size, np.uint16) if mask is None else lane_values(mask, group.size, chosen)
        operations: list[Callable[[], None]] = []
        for address, ranks in sorted(set(zip(handles.tolist(), masks.tolist(), strict=True))):
            some = np.flatnonzero((handles == address) & (masks == ranks))
            targets, signals = cta[some, None], signal_cta[some, None]
            if mask is not None:
                first = targets // access.topology.cluster_size * access.topology.cluster_size
                targets = signals = first + np.flatnonzero(ranks >> np.arange(16) & 1)
            tensor_map = self._operands.tensor_map(site, address)
            self._operands.check_tiles(site, tensor_map, boxes[some], offset[some])
            read = tma.bytes_read(tensor_map, boxes[some])
            self._machine.counters[site].load_by_tma(tensor_map.tile_bytes * some.size, read, targets.shape[1])
            if self._machine.checker is not None:
                barriers = self._check_landings(
                    site, lanes.indices[some], targets, offset[some], tensor_map.shared_bytes, signals, signal[some]
                )
                lows, highs, inside = tma.extents(tensor_map, boxes[some])
                if inside.any():
                    self._check_read(
                        site, lanes.indices[some], barriers, signals, signal[some],
                        (int(lows[inside].min()), int(highs[inside].max())), partial(_rows_of, tensor_map, boxes[some]),
                    )  # fmt: skip
            land = partial(self._land, site, tensor_map, boxes[some], targets, offset[some], signals, signal[some])
            together = self._machine.asynchrony.policy != "random"
            parts = [np.arange(some.size)] if together else list(np.arange(some.size)[:, None])
            operations += [partial(land, part) for part in parts]
        self._machine.asynchrony.defer(operations)

    def _check_landings(
        self,
        site: int,
        lanes: Indices,
        targets: Indices,
        offsets: Indices,
        nbytes: int,
        signals: Indices,
        signal_offsets: Indices,
    ) -> "dict[int, MbarrierChecks]":
        """Have the checks note copies to an offset of some CTAs, (lanes, places), each of which signals an mbarrier.

        Returns the mbarriers by their offsets.
        """
        checker, barriers = self._machine.checker, {}
        assert checker is not None
        for offset, signal in sorted(set(zip(offsets.tolist(), signal_offsets.tolist(), strict=True))):
            here = (offsets == offset) & (signal_offsets == signal)
            for target, signal_cta in zip(targets[here].T, signals[here].T, strict=True):
                barrier = self._machine.mbarriers.used_by_copies(site, signal, lanes[here], signal_cta)
                checker.agents.land(site, lanes[here], target, offset, nbytes, barrier, signal_cta)
                barriers[signal] = barrier
        return barriers

    def _check_read(
        self,
        site: int,
        lanes: Indices,
        barriers: "dict[int, MbarrierChecks]",
        signals: Indices,
        signal_offsets: Indices,
        extent: tuple[int, int],
        rows_of: Callable[[int], tma.Rows | None],
    ) -> None:
        """Have the checks note what copies read of global memory, between its first and its last address.

        The mbarrier tells when it was read. Of a multicast any of them does, and who overwrites it is not checked.
        """
        checker, columns = self._machine.checker, None
        assert checker is not None
        if signals.shape[1] == 1:
            columns = np.zeros(lanes.size, np.int64)
            for offset, barrier in barriers.items():
                here = signal_offsets == offset
                columns[here] = barrier.columns(signals[here, 0])
        checker.global_copies.read(site, lanes, columns, *extent, rows_of)

    def _land(
        self,
        site: int,
        tensor_map: TensorMap,
        boxes: Indices,
        targets: Indices,
        offsets: Indices,
        signals: Indices,
        signal_offsets: Indices,
        part: Indices,
    ) -> None:
        """Move some of the boxes (boxes, rank) to the CTAs of targets (boxes, places), and signal."""
        access = self._machine.access
        places = targets[part] * access.topology.shared_stride + offsets[part, None]
        tma.load_tiles(
            access.memory.bytes, GLOBAL_BASE, tensor_map, boxes[part], access.shared.bytes, places, offsets[part]
        )
        for signal in np.unique(signal_offsets[part]):
            ctas = signals[part][signal_offsets[part] == signal].reshape(-1)
            self._machine.mbarriers.complete(site, int(signal), ctas, tensor_map.tile_bytes)

    def store_tensor(
        self,
        site: int,
        group: Group,
        source: Array,
        handle: Array,
        coordinates: Sequence[Array],
        reduction: str | None,
        active: Any,
    ) -> None:
        """A tile of shared memory to a box of a tensor, or reduced into it, in the bulk group of each thread."""
        access, operands = self._machine.access, self._operands
        stores = []
        for issue in operands.issues(site, group, [source], [handle, *coordinates], None, active):
            [(cta, offset)], (address, *box) = issue.places, issue.values
            tensor_map = operands.tensor_map(site, address)
            if min(box) < 0:
                raise OutOfBounds(
                    f"{self._machine.describe(site)} stores a box at {tuple(box)}: an H200 stops with an "
                    "illegal instruction where a store begins before its tensor; only loads may"
                )
            written = tensor_map.as_stored if reduction is None else tensor_map
            operands.check_tiles(site, written, np.array([box]), np.array([offset]))
            place = cta * access.topology.shared_stride + offset
            what = access.memory.bytes, GLOBAL_BASE, tensor_map, box, access.shared.bytes, place, offset
            if reduction is None:
                write = partial(tma.store_tile, *what)
            else:
                self._require_reduction(site, reduction, tensor_map)
                write = partial(tma.reduce_tile, *what, reduction)
            chunks = tma.tile_chunks(tensor_map, offset)
            origin = operands.shared_range(site, cta, offset, tensor_map.shared_bytes)
            repeatable = None if reduction is not None else (*issue.places, *issue.values)
            stores.append(_Store(issue.lane, chunks, origin, tma.rows_in_bounds(written, box), write, repeatable))
        self._issue_stores(site, stores)

    def _require_reduction(self, site: int, operation: str, tensor_map: TensorMap) -> None:
        try:
            require_bulk_reduction("tensor", operation, tensor_map.element_type)
        except ValueError as error:
            raise EmulatorError(f"{self._machine.describe(site)}: {error}") from error

    def load(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: Array,
        barrier: Array,
        of_shared: bool,
        mask: Array | None,
        reduction: tuple[str, str] | None,
        active: Any,
    ) -> None:
        """A plain range, from global memory or from the own shared memory, to shared memory of the cluster.

        reduction: operation and type, where the range is reduced into what is there.
        """
        operands, places = self._operands, [to, barrier, source] if of_shared else [to, barrier]
        operations: list[Callable[[], None]] = []
        for issue in operands.issues(site, group, places, [size, source], mask, active):
            if reduction is not None:
                operands.require_cluster(site)
            (cta, offset), (_, signal), *of = issue.places
            length, address = issue.values
            if of_shared:
                data = operands.shared_range(site, *of[0], length)
            else:
                data = operands.global_range(site, address, length)
            ranges = [operands.shared_range(site, there, offset, length) for there in issue.destinations(cta)]
            if self._machine.checker is not None:
                lanes, targets = np.array([issue.lane]), np.array([issue.destinations(cta)])
                signals = np.array([[issue.signal_cta(target) for target in issue.destinations(cta)]])
                barriers = self._check_landings(
                    site, lanes, targets, np.array([offset]), length, signals, np.array([signal])
                )
                if of_shared:
                    chunks = np.arange(of[0][1] // 16, (of[0][1] + length) // 16)
                    self._machine.checker.agents.read_by_copy(site, issue.lane, chunks, barriers[signal], signals[0, 0])
                else:
                    self._check_read(
                        site, lanes, barriers, signals, np.array([signal]),
                        (address, address + length - 1), partial(_one_row, address, length),
                    )  # fmt: skip
            for target, destination in zip(ranges, issue.destinations(cta), strict=True):
                operations.append(
                    partial(self._land_range, site, target, data, reduction, issue.signal_cta(destination), signal)
                )
            read = 0 if of_shared else whole_sectors(np.array(address), np.array(length))
            self._machine.counters[site].load_by_tma(length, read, len(ranges))
        if operations:
            self._machine.asynchrony.defer(operations)

    def _land_range(
        self, site: int, target: Bytes, data: Bytes, reduction: tuple[str, str] | None, signal_cta: int, signal: int
    ) -> None:
        _copy(target, data, reduction)
        self._machine.mbarriers.complete(site, signal, np.array([signal_cta]), len(data))

    def store(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: Array,
        reduction: tuple[str, str] | None,
        active: Any,
    ) -> None:
        """A plain range of shared memory to global memory, or reduced into it, in the bulk group of each thread."""
        stores = []
        for issue in self._operands.issues(site, group, [source], [size, to], None, active):
            [(cta, offset)], (length, address) = issue.places, issue.values
            origin = self._operands.shared_range(site, cta, offset, length)
            target = self._operands.global_range(site, address, length)
            chunks = np.arange(offset // 16, (offset + length) // 16)
            rows, write = _one_row(address, length, 0), partial(_copy, target, origin, reduction)
            repeatable = None if reduction is not None else (*issue.places, *issue.values)
            stores.append(_Store(issue.lane, chunks, origin, rows, write, repeatable))
        self._issue_stores(site, stores)

    def _issue_stores(self, site: int, stores: "list[_Store]") -> None:
        if not stores:
            return
        remembered: list[bytes] = []
        repeats = self._repeats(stores)

        def perform(some: Indices | None) -> None:
            for index in range(len(stores)) if some is None else some:
                store = stores[index]
                if remembered and (found := store.source.tobytes()) != remembered[index]:
                    raise AsyncHazard(
                        f"{self._machine.describe(site)}: its source in shared memory was overwritten before "
                        "cp.async.bulk.wait_group.read: wait before the buffer is used again",
                        lane=np.array([store.lane]),
                        address=CHUNK.itemsize * int(store.chunks.min()) + first_difference(found, remembered[index]),
                    )
                store.write()
                if store.rows is not None and not repeats[index]:
                    self._machine.counters[site].tma_stored_bytes += whole_sectors(*store.rows)

        owners = np.array([store.lane for store in stores])
        if (checker := self._machine.checker) is not None:
            agents, threads = checker.agents, self._machine.topology.thread
            reads = [agents.read_by_bulk(site, store.lane, store.chunks) for store in stores]
            numbers = threads[owners].tolist()
            writes = [
                checker.tick()
                if again
                else checker.global_copies.write(site, store.lane, store.rows, ("bulk write", number))
                for store, number, again in zip(stores, numbers, repeats, strict=True)
            ]

            def retire(agent: str, times: list[int], some: Indices) -> None:
                for index in some.tolist():
                    agents.retire(agent, numbers[index], owners[index : index + 1], times[index])

            self.groups.track(owners, partial(retire, "bulk", reads))
            self.groups.track(owners, partial(retire, "bulk write", writes), writes=True)
        self.groups.issue(owners, perform, lambda: remembered.extend(store.source.tobytes() for store in stores))

    def _repeats(self, stores: "list[_Store]") -> list[bool]:
        """Which stores of an instruction an earlier lane of the same warp makes too.

        By the letter each of 32 lanes stores, all of them the same to one place without order. CUTLASS's epilogue of
        sm_90 does so, and ptxas makes of it one store for the lanes that agree: of UTMASTG and UBLKCP it emits a loop
        over the operands that differ, if any may. So it is one store here, of one value by lanes in step. A reduction
        is made by each lane, by the letter as in ptxas's loop over the lanes around UTMAREDG and UBLKRED.
        """
        threads, seen, repeats = self._machine.topology.thread, set(), []
        for store in stores:
            key = int(threads[store.lane]) // WARP, store.repeatable
            repeats.append(store.repeatable is not None and key in seen)
            seen.add(key)
        return repeats


@dataclass(frozen=True, slots=True)
class _Store:
    """A bulk store: the issuing lane, the shared memory that it reads, and what writes that to global memory.

    chunks: of 16 bytes, of the CTA's shared memory. rows: of global memory. repeatable: what it stores and where, None
    for a reduction, which is another thing each time.
    """

    lane: int
    chunks: Indices
    source: Bytes
    rows: tma.Rows | None
    write: Callable[[], object]
    repeatable: Hashable


def _copy(target: Bytes, source: Bytes, reduction: tuple[str, str] | None) -> None:
    """Copy or reduce a range."""
    if reduction is None:
        target[...] = source
    else:
        reduce_into(target, source, *reduction)


def _one_row(address: int, nbytes: int, _: int) -> tma.Rows:
    return tma.Rows(np.array([address]), nbytes)


def _rows_of(tensor_map: TensorMap, boxes: Indices, index: int) -> tma.Rows | None:
    return tma.rows_in_bounds(tensor_map, boxes[index].tolist())
