"""Asynchronous copies: cp.async of each thread, and bulk copies (TMA) of tensors and of plain ranges."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator import tma
from tilewright.emulator.arithmetic import lanes_of
from tilewright.emulator.asynchrony import CommitGroups
from tilewright.emulator.errors import AsyncHazard, EmulatorError, Misaligned, OutOfBounds
from tilewright.emulator.lanes import Array, Group, Indices
from tilewright.emulator.memory import GLOBAL_BASE

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

TENSOR_MAP_BYTES = 128
_MAGIC = 0x70_616D_726F_736E  # "nsormap" of an encoded tensor map
_LAYOUT = struct.Struct("<QQBBH5Q4Q5H")
_WIDE = {4: np.uint32, 8: np.uint64, 16: np.complex128}


def encode_tensor_map(tensor_map: tma.TensorMap) -> bytes:
    """The 128 bytes that a kernel gets as its __grid_constant__ tensor map."""
    rank = len(tensor_map.shape)
    pad = (0,) * (5 - rank)
    packed = _LAYOUT.pack(
        _MAGIC, tensor_map.address, rank, tensor_map.element_bytes, tensor_map.swizzle,
        *tensor_map.shape, *pad, *tensor_map.strides, *pad, *tensor_map.box, *pad,
    )  # fmt: skip
    return packed.ljust(TENSOR_MAP_BYTES, b"\0")


@lru_cache(maxsize=1024)
def decode_tensor_map(data: bytes) -> tma.TensorMap | None:
    """The inverse of encode_tensor_map; None for other bytes."""
    magic, address, rank, element_bytes, swizzle, *numbers = _LAYOUT.unpack_from(data)
    if magic != _MAGIC:
        return None
    shape, strides, box = numbers[:rank], numbers[5 : 4 + rank], numbers[9 : 9 + rank]
    return tma.TensorMap(address, element_bytes, tuple(shape), tuple(strides), tuple(box), swizzle)


class Copies:
    """cp.async: 4, 8 or 16 bytes per thread from global to shared memory."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self.groups = CommitGroups(machine.asynchrony, machine.topology.lanes)

    def copy(
        self, site: int, group: Group, to: Array, source: Array, size: int, taken: Array | None, active: Any
    ) -> None:
        """Issue one cp.async; `taken` bytes come from the source and the rest of `size` are zeros."""
        access = self._machine.access
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        lanes = group if chosen is None else group.take(lanes_of(active, group.size))
        if not lanes.size:
            return
        to, source = (_lane_values(value, group.size, chosen) for value in (to, source))
        _, destination = access.locate(site, lanes, "shared", to, size)
        amount = None if taken is None else np.minimum(_lane_values(taken, group.size, chosen), np.uint32(size))
        origin = self._origin(site, lanes, source, size, amount)
        if access.counter is not None:
            access.counter.access("ld", "global", size, lanes, origin, None)

        def perform(some: Indices | None) -> None:
            where, of = (destination, origin) if some is None else (destination[some], origin[some])
            [data] = access.memory.gather(of, _WIDE[size], 1)
            if amount is not None:
                rows = data.view(np.uint8).reshape(-1, size)
                rows[np.arange(size) >= (amount if some is None else amount[some])[:, None]] = 0
            access.shared.scatter(where, [data])

        self.groups.issue(lanes.indices, perform)

    def _origin(self, site: int, lanes: Group, source: Array, size: int, amount: Array | None) -> Indices:
        """Checked offsets in global memory; lanes that take nothing get 0."""
        access = self._machine.access
        if amount is None or (amount == size).all():
            return access.locate(site, lanes, "global", source, size)[1]
        origin = np.zeros(lanes.size, np.int64)
        for some in np.unique(amount[amount > 0]):
            here = amount == some
            access.locate(site, lanes, "global", source[here], int(some))
            origin[here] = (source[here] - np.uint64(GLOBAL_BASE)).view(np.int64)
        if (origin % size).any():
            raise Misaligned(f"{self._machine.describe(site)} copies from an address that is no multiple of {size}")
        return origin

    def arrive_when_done(self, site: int, group: Group, space: str, address: Array, noinc: bool, active: Any) -> None:
        """cp.async.mbarrier.arrive: an arrival once all earlier cp.async of the thread are done."""
        machine = self._machine
        lanes = group if active is None else group.take(lanes_of(active, group.size))
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        cta, offsets = machine.access.cta_and_offset(site, lanes, space, _lane_values(address, group.size, chosen))
        operations: list[Callable[[], None]] = []
        for offset in np.unique(offsets):
            here = offsets == offset
            machine.mbarriers.arrive_later(site, int(offset), cta[here], not noinc)

            def finish(
                offset: int = int(offset), owners: Indices = lanes.indices[here], cta: Indices = cta[here]
            ) -> None:
                self.groups.complete(owners)
                machine.mbarriers.arrive_at(site, offset, cta)

            operations.append(finish)
        machine.asynchrony.defer(operations)


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
        operations: list[Callable[[], None]] = []
        for issue in self._issues(site, group, [to, barrier], [handle, *coordinates], mask, active):
            (cta, offset), (_, signal) = issue.places
            tensor_map = self._tensor_map(site, issue.values[0])
            box = issue.values[1:]
            self._check_tile(site, tensor_map, box, offset)
            for destination in issue.destinations(cta):
                operations.append(
                    partial(
                        self._land, site, tensor_map, box, destination, offset, issue.signal_cta(destination), signal
                    )
                )
            self._machine.counters.tma_loaded_bytes += tensor_map.tile_bytes * len(issue.destinations(cta))
        if operations:
            self._machine.asynchrony.defer(operations)

    def _land(
        self,
        site: int,
        tensor_map: tma.TensorMap,
        box: Sequence[int],
        cta: int,
        offset: int,
        signal_cta: int,
        signal: int,
    ) -> None:
        access = self._machine.access
        place = cta * access.topology.shared_stride + offset
        size = tma.load_tile(access.memory.bytes, GLOBAL_BASE, tensor_map, box, access.shared.bytes, place, offset)
        self._machine.mbarriers.complete(site, signal, signal_cta, size)

    def store_tensor(
        self, site: int, group: Group, source: Array, handle: Array, coordinates: Sequence[Array], active: Any
    ) -> None:
        """A tile of shared memory to a box of a tensor, in the bulk group of each issuing thread."""
        access = self._machine.access
        stores = []
        for issue in self._issues(site, group, [source], [handle, *coordinates], None, active):
            [(cta, offset)] = issue.places
            tensor_map = self._tensor_map(site, issue.values[0])
            self._check_tile(site, tensor_map, issue.values[1:], offset)
            place = cta * access.topology.shared_stride + offset
            write = partial(
                tma.store_tile, access.memory.bytes, GLOBAL_BASE, tensor_map, issue.values[1:],
                access.shared.bytes, place, offset,
            )  # fmt: skip
            stores.append(_Store(issue.lane, self._shared_range(site, cta, offset, tensor_map.tile_bytes), write))
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
            for destination in issue.destinations(cta):
                target = self._shared_range(site, destination, offset, length)
                operations.append(partial(self._land_range, site, target, data, issue.signal_cta(destination), signal))
            self._machine.counters.tma_loaded_bytes += length * len(issue.destinations(cta))
        if operations:
            self._machine.asynchrony.defer(operations)

    def _land_range(self, site: int, target: Any, data: Any, signal_cta: int, signal: int) -> None:
        target[...] = data
        self._machine.mbarriers.complete(site, signal, signal_cta, len(data))

    def store(self, site: int, group: Group, to: Array, source: Array, size: Array, active: Any) -> None:
        """A plain range of shared memory to global memory, in the bulk group of each issuing thread."""
        stores = []
        for issue in self._issues(site, group, [source], [size, to], None, active):
            [(cta, offset)] = issue.places
            length, address = issue.values
            origin = self._shared_range(site, cta, offset, length)
            stores.append(_Store(issue.lane, origin, partial(np.copyto, self._global_range(site, address, length), origin)))
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
                store.write()

        self._machine.counters.tma_stored_bytes += sum(store.source.size for store in stores)
        owners = np.array([store.lane for store in stores])
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
        lanes = group if active is None else group.take(lanes_of(active, group.size))
        if not lanes.size:
            return []
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        access = self._machine.access
        places = []
        for address in shared:
            cta, offset = access.cta_and_offset(site, lanes, "cluster", _lane_values(address, group.size, chosen))
            places.append(list(zip(cta.tolist(), offset.tolist(), strict=True)))
        plain = [_lane_values(value, group.size, chosen).tolist() for value in values]
        masks = [None] * lanes.size if mask is None else _lane_values(mask, group.size, chosen).tolist()
        return [
            _Issue(lane, [of[index] for of in places], [of[index] for of in plain], masks[index],
                   access.topology.cluster_size)
            for index, lane in enumerate(lanes.indices.tolist())
        ]  # fmt: skip

    def _tensor_map(self, site: int, address: int) -> tma.TensorMap:
        try:
            data = self._machine.access.memory.slice(address, TENSOR_MAP_BYTES)
        except ValueError as error:
            raise OutOfBounds(f"{self._machine.describe(site)} takes a tensor map from bad memory: {error}") from error
        tensor_map = decode_tensor_map(data.tobytes())
        if tensor_map is None:
            raise EmulatorError(f"{self._machine.describe(site)}: there is no tensor map at {address:#x}")
        return tensor_map

    def _check_tile(self, site: int, tensor_map: tma.TensorMap, box: Sequence[int], offset: int) -> None:
        """Raise for a tile outside shared memory or misaligned, or a box outside its allocation."""
        if offset % tma.TILE_ALIGNMENT:
            raise Misaligned(
                f"{self._machine.describe(site)} has its tile at shared address {offset:#x}, which is not a "
                f"multiple of {tma.TILE_ALIGNMENT}"
            )
        self._check_range(site, offset, tensor_map.tile_bytes)
        touched = tma.extent(tensor_map, box)
        if touched is None:
            return
        memory = self._machine.access.memory
        first, last = (memory.containing(address - GLOBAL_BASE) for address in touched)
        if first is None or first is not last:
            raise OutOfBounds(
                f"{self._machine.describe(site)} with coordinates {tuple(box)} touches global addresses "
                f"{touched[0]:#x} to {touched[1]:#x}, which are not in one allocation: "
                f"{memory.describe(touched[1] - GLOBAL_BASE)}"
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
    """A bulk store: the issuing lane, the shared memory that it reads, and what writes that to global memory."""

    lane: int
    source: npt.NDArray[np.uint8]
    write: Callable[[], object]


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


def _lane_values(value: Array, size: int, chosen: Indices | None) -> Array:
    lanes = lanes_of(value, size)
    return lanes if chosen is None else lanes[chosen]
