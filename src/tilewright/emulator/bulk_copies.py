"""Bulk copies (TMA): boxes of tensors and plain ranges between global and shared memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator import tma
from tilewright.emulator.arithmetic import lane_values, lanes_of
from tilewright.emulator.asynchrony import CommitGroups
from tilewright.emulator.errors import AsyncHazard, EmulatorError, Misaligned, OutOfBounds
from tilewright.emulator.lanes import Array, Group, Indices
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.tensor_map import TENSOR_MAP_BYTES, decode_tensor_map

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


class BulkCopies:
    """cp.async.bulk and cp.async.bulk.tensor."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
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
            tensor_map = self._tensor_map(site, address)
            self._check_tiles(site, tensor_map, boxes[some], offset[some])
            read = tma.bytes_in_bounds(tensor_map, boxes[some])
            self._machine.counters[site].load_by_tma(tensor_map.tile_bytes * some.size, read, targets.shape[1])
            if self._machine.checker is not None:
                self._check_landings(
                    site, lanes.indices[some], targets, offset[some], tensor_map.shared_bytes, signals, signal[some]
                )
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
    ) -> None:
        """Have the checks note copies to an offset of some CTAs, (lanes, places), each of which signals an mbarrier."""
        checker = self._machine.checker
        assert checker is not None
        for offset, signal in sorted(set(zip(offsets.tolist(), signal_offsets.tolist(), strict=True))):
            here = (offsets == offset) & (signal_offsets == signal)
            for target, signal_cta in zip(targets[here].T, signals[here].T, strict=True):
                barrier = self._machine.mbarriers.used_by_copies(site, signal, lanes[here], signal_cta)
                checker.agents.land(site, lanes[here], target, offset, nbytes, barrier, signal_cta)

    def _land(
        self,
        site: int,
        tensor_map: tma.TensorMap,
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
        self, site: int, group: Group, source: Array, handle: Array, coordinates: Sequence[Array], active: Any
    ) -> None:
        """A tile of shared memory to a box of a tensor, in the bulk group of each issuing thread."""
        access = self._machine.access
        stores = []
        for issue in self._issues(site, group, [source], [handle, *coordinates], None, active):
            [(cta, offset)] = issue.places
            tensor_map = self._tensor_map(site, issue.values[0])
            if min(issue.values[1:]) < 0:
                raise OutOfBounds(
                    f"{self._machine.describe(site)} stores a box at {tuple(issue.values[1:])}: an H200 stops with an "
                    "illegal instruction where a store begins before its tensor; only loads may"
                )
            self._check_tiles(site, tensor_map.as_stored, np.array([issue.values[1:]]), np.array([offset]))
            place = cta * access.topology.shared_stride + offset
            write = partial(
                tma.store_tile, access.memory.bytes, GLOBAL_BASE, tensor_map, issue.values[1:],
                access.shared.bytes, place, offset,
            )  # fmt: skip
            stores.append(
                _Store(
                    issue.lane,
                    tma.tile_chunks(tensor_map, offset),
                    self._shared_range(site, cta, offset, tensor_map.shared_bytes),
                    write,
                )
            )
        self._issue_stores(site, stores)

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
        active: Any,
    ) -> None:
        """A plain range, from global memory or from the own shared memory, to shared memory of the cluster."""
        places = [to, barrier, source] if of_shared else [to, barrier]
        operations: list[Callable[[], None]] = []
        for issue in self._issues(site, group, places, [size, source], mask, active):
            cta, offset = issue.places[0]
            signal = issue.places[1][1]
            length = issue.values[0]
            self._check_range(site, offset, length)
            if of_shared:
                data = self._shared_range(site, *issue.places[2], length)
            else:
                data = self._global_range(site, issue.values[1], length)
            if self._machine.checker is not None:
                targets = np.array([issue.destinations(cta)])
                signals = np.array([[issue.signal_cta(target) for target in issue.destinations(cta)]])
                self._check_landings(
                    site, np.array([issue.lane]), targets, np.array([offset]), length, signals, np.array([signal])
                )
            for destination in issue.destinations(cta):
                target = self._shared_range(site, destination, offset, length)
                operations.append(partial(self._land_range, site, target, data, issue.signal_cta(destination), signal))
            read = 0 if of_shared else length
            self._machine.counters[site].load_by_tma(length, read, len(issue.destinations(cta)))
        if operations:
            self._machine.asynchrony.defer(operations)

    def _land_range(self, site: int, target: Any, data: Any, signal_cta: int, signal: int) -> None:
        target[...] = data
        self._machine.mbarriers.complete(site, signal, np.array([signal_cta]), len(data))

    def store(self, site: int, group: Group, to: Array, source: Array, size: Array, active: Any) -> None:
        """A plain range of shared memory to global memory, in the bulk group of each issuing thread."""
        stores = []
        for issue in self._issues(site, group, [source], [size, to], None, active):
            [(cta, offset)] = issue.places
            length, address = issue.values
            origin = self._shared_range(site, cta, offset, length)
            write = partial(_copy, self._global_range(site, address, length), origin)
            chunks = np.arange(offset // 16, (offset + length) // 16)
            stores.append(_Store(issue.lane, chunks, origin, write))
        self._issue_stores(site, stores)

    def _issue_stores(self, site: int, stores: "list[_Store]") -> None:
        if not stores:
            return
        remembered: list[bytes] = []

        def perform(some: Indices | None) -> None:
            for index in range(len(stores)) if some is None else some:
                store = stores[index]
                if remembered and remembered[index] != store.source.tobytes():
                    raise AsyncHazard(
                        f"{self._machine.describe(site)}: its source in shared memory was overwritten before "
                        "cp.async.bulk.wait_group.read: wait before the buffer is used again"
                    )
                self._machine.counters[site].tma_stored_bytes += store.write()

        owners = np.array([store.lane for store in stores])
        if (checker := self._machine.checker) is not None:
            agents, threads = checker.agents, self._machine.topology.thread
            times = [agents.read_by_bulk(site, store.lane, store.chunks) for store in stores]

            def retire(some: Indices) -> None:
                for index in some.tolist():
                    lane = owners[index : index + 1]
                    agents.retire("bulk", int(threads[lane[0]]), lane, times[index])

            self.groups.track(owners, retire)
        self.groups.issue(owners, perform, lambda: remembered.extend(store.source.tobytes() for store in stores))

    def _issues(
        self,
        site: int,
        group: Group,
        shared: Sequence[Array],
        values: Sequence[Array],
        mask: Array | None,
        active: Any,
    ) -> "list[_Issue]":
        """What each active lane asks for: places in shared memory, and plain values."""
        lanes = group.active(active)
        if not lanes.size:
            return []
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        access = self._machine.access
        places = []
        for address in shared:
            cta, offset = access.cta_and_offset(site, lanes, "cluster", lane_values(address, group.size, chosen))
            places.append(list(zip(cta.tolist(), offset.tolist(), strict=True)))
        plain = [lane_values(value, group.size, chosen).tolist() for value in values]
        masks = [None] * lanes.size if mask is None else lane_values(mask, group.size, chosen).tolist()
        return [
            _Issue(lane, [of[index] for of in places], [of[index] for of in plain], masks[index],
                   access.topology.cluster_size)
            for index, lane in enumerate(lanes.indices.tolist())
        ]  # fmt: skip

    def _tensor_map(self, site: int, address: int) -> tma.TensorMap:
        if address < 1 << 32:  # of the parameter space, which the instruction takes as it is
            address += int(self._machine.parameters_address)
        try:
            data = self._machine.access.memory.slice(address, TENSOR_MAP_BYTES)
        except ValueError as error:
            raise OutOfBounds(f"{self._machine.describe(site)} takes a tensor map from bad memory: {error}") from error
        tensor_map = decode_tensor_map(data.tobytes())
        if tensor_map is None:
            raise EmulatorError(f"{self._machine.describe(site)}: there is no tensor map at {address:#x}")
        return tensor_map

    def _check_tiles(self, site: int, tensor_map: tma.TensorMap, boxes: Indices, offsets: Indices) -> None:
        """Raise for a tile outside shared memory or misaligned, or a box outside its allocation."""
        for offset in np.unique(offsets).tolist():
            if offset % tma.TILE_ALIGNMENT:
                raise Misaligned(
                    f"{self._machine.describe(site)} has its tile at shared address {offset:#x}, which is not a "
                    f"multiple of {tma.TILE_ALIGNMENT}"
                )
            self._check_range(site, offset, tensor_map.shared_bytes)
        if boxes.shape[1] != len(tensor_map.shape):
            raise EmulatorError(
                f"{self._machine.describe(site)} takes {boxes.shape[1]} coordinates and its tensor map has "
                f"{len(tensor_map.shape)} dimensions"
            )
        uneven = boxes[:, 0] * tensor_map.element_bytes % tma.BOX_ALIGNMENT != 0
        if uneven.any():
            raise Misaligned(
                f"{self._machine.describe(site)} has its box at {tuple(boxes[uneven.argmax()].tolist())}, "
                f"{int(boxes[uneven.argmax(), 0]) * tensor_map.element_bytes} bytes into a row, no multiple of "
                f"{tma.BOX_ALIGNMENT}: an H200 stops with an illegal instruction"
            )
        first, last, inside = tma.extents(tensor_map, boxes)
        memory = self._machine.access.memory
        if not inside.any() or memory.encloses(int(first[inside].min()), int(last[inside].max())):
            return
        for box, low, high in zip(boxes[inside].tolist(), first[inside].tolist(), last[inside].tolist(), strict=True):
            if not memory.encloses(low, high):
                raise OutOfBounds(
                    f"{self._machine.describe(site)} with coordinates {tuple(box)} touches global addresses {low:#x} "
                    f"to {high:#x}, which are not in one allocation: {memory.describe(high - GLOBAL_BASE)}"
                )

    def _check_range(self, site: int, offset: int, size: int) -> None:
        limit = self._machine.access.shared_limit
        if offset + size > limit:
            raise OutOfBounds(
                f"{self._machine.describe(site)} moves {size} bytes at shared address {offset:#x}, past the end "
                f"of the CTA's shared memory at {limit:#x}"
            )

    def _shared_range(self, site: int, cta: int, offset: int, size: int) -> Any:
        self._check_range(site, offset, size)
        start = cta * self._machine.topology.shared_stride + offset
        return self._machine.access.shared.bytes[start : start + size]

    def _global_range(self, site: int, address: int, size: int) -> Any:
        if address % 16 or size % 16:
            raise Misaligned(
                f"{self._machine.describe(site)} moves {size} bytes at {address:#x}: both must be multiples of 16"
            )
        try:
            return self._machine.access.memory.slice(address, size)
        except ValueError as error:
            raise OutOfBounds(f"{self._machine.describe(site)}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Store:
    """A bulk store: the issuing lane, the shared memory that it reads, and what writes that to global memory.

    chunks: of 16 bytes, of the CTA's shared memory. `write` returns how many bytes it wrote.
    """

    lane: int
    chunks: Indices
    source: npt.NDArray[np.uint8]
    write: Callable[[], int]


def _copy(target: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> int:
    target[...] = source
    return source.size


class _Issue:
    """A bulk copy of one thread. places: (CTA slot, shared offset) pairs; values: other operands."""

    def __init__(
        self, lane: int, places: list[tuple[int, int]], values: list[int], mask: int | None, cluster_size: int
    ) -> None:
        self.lane, self.places, self.values = lane, places, values
        self._mask, self._cluster_size = mask, cluster_size

    def destinations(self, cta: int) -> list[int]:
        """CTA slots that get the data: those of the multicast mask, in the cluster of `cta`, or `cta` itself."""
        if self._mask is None:
            return [cta]
        first = cta // self._cluster_size * self._cluster_size
        return [first + rank for rank in range(16) if self._mask >> rank & 1]

    def signal_cta(self, destination: int) -> int:
        """The CTA whose mbarrier hears of the arrival in `destination`."""
        return self.places[1][0] if self._mask is None else destination
