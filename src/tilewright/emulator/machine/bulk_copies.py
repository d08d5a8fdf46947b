"""Bulk copies and reductions (TMA): boxes of tensors and plain ranges between global and shared memory."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.emulator.errors import AsyncHazard, EmulatorError, OutOfBounds
from tilewright.emulator.lanes import WARP, Active, Array, Group, Indices, Mask, lane_values, lanes_of
from tilewright.emulator.machine.asynchrony import CommitGroups
from tilewright.emulator.machine.bulk_operands import BulkOperands, Issue
from tilewright.emulator.machine.operation import GlobalRegion, Operation, SharedRegion, Signal
from tilewright.emulator.machine.waiting.mbarriers import Mbarriers
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE, Bytes, first_difference
from tilewright.emulator.semantics.boxes import (
    bytes_read,
    chunks_in_bounds,
    extents,
    load_tiles,
    rows_in_bounds,
    store_tile,
)
from tilewright.emulator.semantics.reductions import reduce_into, require_bulk_reduction
from tilewright.emulator.semantics.sectors import whole_sectors
from tilewright.emulator.semantics.swizzle import CHUNK
from tilewright.emulator.semantics.tensor_map import AnyMap
from tilewright.emulator.semantics.tiles import Rows, tile_chunks


class BulkCopies:
    """The cp.async.bulk and cp.reduce.async.bulk of a wave, of ranges and of tensors."""

    def __init__(self, wave: Wave, mbarriers: Mbarriers) -> None:
        self._wave, self._mbarriers, self._operands = wave, mbarriers, BulkOperands(wave)
        self.groups = CommitGroups("bulk", wave.asynchrony, wave.topology.lanes, wave.tell)

    def load_tensor(
        self,
        site: int,
        group: Group,
        to: Array,
        handle: Array,
        coordinates: Sequence[Array],
        barrier: Array,
        mask: Array | None,
        active: Active,
    ) -> None:
        """Copy a box of a tensor to shared memory; signals mbarriers at the same place in each destination CTA.

        coordinates: in im2col mode with the offsets after them.
        """
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        access = self._wave.access
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
            targets = self._operands.destinations(site, cta[some], None if mask is None else ranks)
            signals = signal_cta[some, None] if mask is None else targets
            tensor_map = self._operands.tensor_map(site, address, lanes.indices[some])
            self._operands.check_tiles(site, tensor_map, boxes[some], offset[some])
            loaded, read = tensor_map.tile_bytes * some.size, bytes_read(tensor_map, boxes[some])
            self._wave.tell.moved(site, loaded, read, 0, targets.shape[1])
            ends = Signal(signals, signal[some])
            self._require_mbarriers(site, ends)
            if self._wave.tell.hear("issued"):
                reads = _boxes(tensor_map, boxes[some])
                writes = SharedRegion(targets, offset[some], tensor_map.shared_bytes)
                self._wave.tell.issued(Operation(site, "bulk", lanes.indices[some], ends, reads, writes))
            land = partial(self._land, site, tensor_map, boxes[some], targets, offset[some], ends)
            together = self._wave.asynchrony.policy != "random"
            parts = [np.arange(some.size)] if together else list(np.arange(some.size)[:, None])
            operations += [partial(land, part) for part in parts]
        self._wave.asynchrony.defer(operations)

    def _require_mbarriers(self, site: int, ends: Signal) -> None:
        """Raise where an mbarrier that a load will signal is not there."""
        for signal in np.unique(ends.offsets).tolist():
            self._mbarriers.require_valid(site, signal, ends.ctas[ends.offsets == signal].reshape(-1))

    def _land(
        self,
        site: int,
        tensor_map: AnyMap,
        boxes: Indices,
        targets: Indices,
        offsets: Indices,
        ends: Signal,
        part: Indices,
    ) -> None:
        """Move some of the boxes (boxes, rank) to the CTAs of targets (boxes, places), and signal."""
        access = self._wave.access
        places = targets[part] * access.topology.shared_stride + offsets[part, None]
        load_tiles(
            access.memory.bytes, GLOBAL_BASE, tensor_map, boxes[part], access.shared.bytes, places, offsets[part]
        )
        for signal in np.unique(ends.offsets[part]):
            ctas = ends.ctas[part][ends.offsets[part] == signal].reshape(-1)
            self._mbarriers.complete(site, int(signal), ctas, tensor_map.tile_bytes)

    def store_tensor(
        self,
        site: int,
        group: Group,
        source: Array,
        handle: Array,
        coordinates: Sequence[Array],
        reduction: str | None,
        active: Active,
    ) -> None:
        """Copy a tile of shared memory to a box of a tensor, or reduce it into the box, in each thread's bulk group."""
        access, operands = self._wave.access, self._operands
        stores = []
        for issue in operands.issues(site, group, [source], [handle, *coordinates], None, active):
            [(cta, offset)], (address, *box) = issue.places, issue.values
            tensor_map = operands.tensor_map(site, address, np.array([issue.lane]))
            if min(box) < 0:
                raise OutOfBounds(
                    f"{self._wave.words.describe(site)} stores a box at {tuple(box)}: an H200 stops with an "
                    "illegal instruction where a store begins before its tensor; only loads may"
                )
            written = tensor_map.as_stored
            operands.check_tiles(site, written, np.array([box]), np.array([offset]))
            place = cta * access.topology.shared_stride + offset
            if reduction is not None:
                self._require_reduction(site, reduction, tensor_map)
            memories = access.memory.bytes, GLOBAL_BASE, tensor_map, box, access.shared.bytes
            write = partial(store_tile, *memories, place, offset, reduction)
            chunks = tile_chunks(tensor_map, offset)
            origin = operands.shared_range(site, cta, offset, tensor_map.shared_bytes)
            rows, taken = rows_in_bounds(written, box), chunks_in_bounds(written, box)
            stores.append(_Store(issue, chunks, origin, rows, write, reduction is None, taken))
        self._issue_stores(site, stores)

    def _require_reduction(self, site: int, operation: str, tensor_map: AnyMap) -> None:
        try:
            require_bulk_reduction("tensor", operation, tensor_map.element_type)
        except ValueError as error:
            raise EmulatorError(f"{self._wave.words.describe(site)}: {error}") from error

    def load(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: Array,
        barrier: Array,
        mask: Array | None,
        active: Active,
    ) -> None:
        """Copy a plain range of global memory to shared memory of the cluster."""
        operations: list[Callable[[], None]] = []
        for issue in self._operands.issues(site, group, [to, barrier], [size, source], mask, active):
            length, address = issue.values
            data = self._operands.global_range(site, address, length)
            reads = GlobalRegion(partial(_one_row, address, length), (address, address + length - 1))
            loads = self._range_loads(site, issue, data, reads)
            read = whole_sectors(np.array(address), np.array(length))
            self._wave.tell.moved(site, length, read, 0, len(loads))
            operations += loads
        self._wave.asynchrony.defer(operations)

    def prefetch(self, site: int, group: Group, source: Array, size: Array, active: Active) -> None:
        """Bring a plain range of global memory to L2, which no kernel can tell: it must be aligned all the same."""
        for issue in self._operands.issues(site, group, [], [source, size], None, active):
            self._operands.check_alignment(site, *issue.values)

    def send(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: Array,
        barrier: Array,
        reduction: tuple[str, str] | None,
        active: Active,
    ) -> None:
        """Copy a plain range of the CTA's shared memory to shared memory of the cluster.

        reduction: operation and type, if the range is reduced into its destination.
        """
        operations: list[Callable[[], None]] = []
        for issue in self._operands.issues(site, group, [to, barrier, source], [size], None, active):
            if reduction is not None:
                self._operands.require_cluster(site)
            (length,), (cta, offset) = issue.values, issue.places[2]
            data = self._operands.shared_range(site, cta, offset, length)
            reads = SharedRegion(np.array([[cta]]), np.array([offset]), length)
            operations += self._range_loads(site, issue, data, reads, reduction)
            self._wave.tell.moved(site, length, 0, 0, 1)
        self._wave.asynchrony.defer(operations)

    def _range_loads(
        self,
        site: int,
        issue: Issue,
        data: Bytes,
        reads: SharedRegion | GlobalRegion,
        reduction: tuple[str, str] | None = None,
    ) -> list[Callable[[], None]]:
        """Begin a load of a plain range, and return what is left to do for each CTA that it goes to."""
        (cta, offset), (signal_cta, signal) = issue.places[:2]
        [targets] = self._operands.destinations(site, np.array([cta]), issue.mask).tolist()
        signals = [signal_cta] if issue.mask is None else targets
        ranges = [self._operands.shared_range(site, target, offset, len(data)) for target in targets]
        ends = Signal(np.array([signals], np.int64), np.array([signal]))
        writes = SharedRegion(np.array([targets], np.int64), np.array([offset]), len(data))
        self._require_mbarriers(site, ends)
        self._wave.tell.issued(Operation(site, "bulk", np.array([issue.lane]), ends, reads, writes))
        return [
            partial(self._land_range, site, target, data, reduction, signal_cta, signal)
            for target, signal_cta in zip(ranges, signals, strict=True)
        ]

    def _land_range(
        self, site: int, target: Bytes, data: Bytes, reduction: tuple[str, str] | None, signal_cta: int, signal: int
    ) -> None:
        _copy(target, data, reduction)
        self._mbarriers.complete(site, signal, np.array([signal_cta]), len(data))

    def store(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: Array,
        reduction: tuple[str, str] | None,
        active: Active,
    ) -> None:
        """Copy or reduce a plain range of shared memory to global memory, in the bulk group of each thread."""
        stores = []
        for issue in self._operands.issues(site, group, [source], [size, to], None, active):
            [(cta, offset)], (length, address) = issue.places, issue.values
            origin = self._operands.shared_range(site, cta, offset, length)
            target = self._operands.global_range(site, address, length)
            chunks = np.arange(offset // CHUNK.itemsize, (offset + length) // CHUNK.itemsize)
            rows, write = _one_row(address, length, 0), partial(_copy, target, origin, reduction)
            stores.append(_Store(issue, chunks, origin, rows, write, reduction is None))
        self._issue_stores(site, stores)

    def _issue_stores(self, site: int, stores: "list[_Store]") -> None:
        if not stores:
            return
        remembered: list[bytes] = []
        rows = self._rows_once(stores)

        def perform(some: Indices | None) -> None:
            for index in range(len(stores)) if some is None else some:
                store = stores[index]
                if remembered and (found := store.source.tobytes()) != remembered[index]:
                    raise AsyncHazard(
                        f"{self._wave.words.describe(site)}: its source in shared memory was overwritten before "
                        "cp.async.bulk.wait_group.read: wait before the buffer is used again",
                        lane=np.array([store.issue.lane]),
                        address=CHUNK.itemsize * int(store.chunks.min()) + first_difference(found, remembered[index]),
                    )
                store.write()
                if (written := rows[index]) is not None:
                    self._wave.tell.moved(site, 0, 0, whole_sectors(*written), 1)

        owners = np.array([store.issue.lane for store in stores])
        ctas, offsets = np.array([store.issue.places[0] for store in stores]).T
        reads = SharedRegion(
            ctas[:, None], offsets, 0, lambda part: stores[part].chunks, taken=lambda part: stores[part].taken
        )
        writes = GlobalRegion(rows.__getitem__)
        self._wave.tell.issued(Operation(site, "bulk", owners, self.groups.queue(owners), reads, writes))
        self.groups.issue(owners, perform, lambda: remembered.extend(store.source.tobytes() for store in stores))

    def _rows_once(self, stores: "list[_Store]") -> list[Rows | None]:
        """The global memory that each store writes; nothing where an earlier lane of the same warp stores the same.

        By the letter of the manual, each of 32 lanes stores, all of them the same data to one place without order.
        CUTLASS's epilogue of sm_90 does so, and ptxas turns it into one store for the lanes that agree: for UTMASTG and
        UBLKCP it emits a loop over the operands that differ, if any may. So it is one store here, of one value by lanes
        in step. Each lane makes its own reduction, by the letter and in ptxas's loop over the lanes around UTMAREDG and
        UBLKRED.
        """
        threads, seen, rows = self._wave.topology.thread, set[Hashable](), list[Rows | None]()
        for store in stores:
            key = int(threads[store.issue.lane]) // WARP, *store.issue.places, *store.issue.values
            rows.append(None if store.repeatable and key in seen else store.rows)
            seen.add(key)
        return rows


@dataclass(frozen=True, slots=True)
class _Store:
    """A bulk store of one lane: the shared memory that it reads, and the function that writes it to global memory.

    chunks: 16-byte chunks of the CTA's shared memory.
    rows: rows of global memory.
    repeatable: whether a second execution changes nothing; a reduction is not repeatable.
    taken: the chunks that it writes, None for all.
    """

    issue: Issue
    chunks: Indices
    source: Bytes
    rows: Rows | None
    write: Callable[[], object]
    repeatable: bool
    taken: Mask | None = None


def _copy(target: Bytes, source: Bytes, reduction: tuple[str, str] | None) -> None:
    """Copy or reduce a range."""
    if reduction is None:
        target[...] = source
    else:
        reduce_into(target, source, *reduction)


def _one_row(address: int, nbytes: int, _: int) -> Rows:
    return Rows(np.array([address]), nbytes)


def _boxes(tensor_map: AnyMap, boxes: Indices) -> GlobalRegion | None:
    """The global memory that loads of boxes (boxes, rank) read; None if all lie outside the tensor."""
    lows, highs, inside = extents(tensor_map, boxes)
    if not inside.any():
        return None
    bounds = int(lows[inside].min()), int(highs[inside].max())
    return GlobalRegion(lambda part: rows_in_bounds(tensor_map, boxes[part].tolist()), bounds)
