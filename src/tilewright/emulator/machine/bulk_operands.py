"""The checked operands of bulk copies: places in shared memory, ranges of global memory, tensor maps and boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.errors import EmulatorError, Misaligned, OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, Indices, lane_values, lanes_of
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE, Bytes
from tilewright.emulator.semantics.boxes import extents
from tilewright.emulator.semantics.im2col import fault_of
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES, AnyMap, Im2colMap, decode_tensor_map
from tilewright.emulator.semantics.tiles import TILE_ALIGNMENT
from tilewright.emulator.semantics.tma import BOX_ALIGNMENT

_ALIGNMENT = 16
"""The alignment of a plain copy's size and addresses, in bytes."""


class BulkOperands:
    """The operands of a wave's bulk copies."""

    def __init__(self, wave: Wave) -> None:
        self._wave, self._words = wave, wave.words

    def issues(
        self,
        site: int,
        group: Group,
        shared: Sequence[Array],
        values: Sequence[Array],
        mask: Array | None,
        active: Active,
    ) -> "list[Issue]":
        """The copy that each active lane asks for: places in shared memory, and plain values."""
        lanes = group.active(active)
        if not lanes.size:
            return []
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        access = self._wave.access
        places = []
        for address in shared:
            cta, offset = access.cta_and_offset(site, lanes, "cluster", lane_values(address, group.size, chosen))
            places.append(list(zip(cta.tolist(), offset.tolist(), strict=True)))
        plain = [lane_values(value, group.size, chosen).tolist() for value in values]
        masks = [None] * lanes.size if mask is None else lane_values(mask, group.size, chosen).tolist()
        return [
            Issue(lane, [of[index] for of in places], [of[index] for of in plain], masks[index])
            for index, lane in enumerate(lanes.indices.tolist())
        ]

    def destinations(self, site: int, ctas: Indices, mask: int | None) -> Indices:
        """The CTA slots, (copies, places), that get the data of copies to some CTAs.

        mask: the ranks of a multicast, in the clusters of these CTAs; None for no multicast.
        """
        if mask is None:
            return ctas[:, None]
        size, ranks = self._wave.topology.cluster_size, np.flatnonzero(mask >> np.arange(16) & 1)
        if ranks.size and ranks[-1] >= size:
            raise OutOfBounds(
                f"{self._words.describe(site)} has the multicast mask {mask:#x}, which names CTA rank {ranks[-1]} in a "
                f"cluster of {size}: set bits below {size} only"
            )
        return ctas[:, None] // size * size + ranks

    def tensor_map(self, site: int, address: int, lanes: Indices) -> AnyMap:
        """The tensor map at an address, which lanes use."""
        if address < 1 << 32:  # an address of the parameter space, used as it is
            address += int(self._wave.launch.parameters_address)
        try:
            data = self._wave.access.memory.slice(address, TENSOR_MAP_BYTES)
        except ValueError as error:
            raise OutOfBounds(f"{self._words.describe(site)} takes a tensor map from bad memory: {error}") from error
        try:
            tensor_map = decode_tensor_map(data.tobytes())
        except ValueError as error:
            what = f"the tensor map at {address:#x} has been overwritten, or never was one: {error}"
            raise EmulatorError(f"{self._words.describe(site)}: {what}", address=address) from error
        if tensor_map is None:
            what = f"there is no tensor map at {address:#x}"
            raise EmulatorError(f"{self._words.describe(site)}: {what}", address=address)
        if isinstance(tensor_map, Im2colMap) != _is_im2col(self._words.modifiers(site)):
            mode = "im2col" if isinstance(tensor_map, Im2colMap) else "tiled"
            what = f"the tensor map at {address:#x} is of {mode} mode, and the instruction is of the other"
            raise EmulatorError(f"{self._words.describe(site)}: {what}", address=address)
        self._wave.tell.tensor_map_used(site, lanes, address)
        return tensor_map

    def check_tiles(self, site: int, tensor_map: AnyMap, boxes: Indices, offsets: Indices) -> None:
        """Raise for a tile outside shared memory or misaligned, or a box outside its allocation."""
        for offset in np.unique(offsets).tolist():
            if offset % TILE_ALIGNMENT:
                raise Misaligned(
                    f"{self._words.describe(site)} has its tile at {self._words.shared(offset)}, which is not a "
                    f"multiple of {TILE_ALIGNMENT}"
                )
            self.check_range(site, offset, tensor_map.shared_bytes)
        modifiers, rank = self._words.modifiers(site), len(tensor_map.shape)
        taken = next(int(modifier[0]) for modifier in modifiers if modifier[0].isdigit())
        if taken != rank:
            raise EmulatorError(
                f"{self._words.describe(site)} takes {taken} coordinates and its tensor map has {rank} dimensions"
            )
        if isinstance(tensor_map, Im2colMap):
            for column in np.unique(boxes, axis=0).tolist():
                if fault := fault_of(tensor_map, column, stores="bulk_group" in modifiers):
                    raise EmulatorError(f"{self._words.describe(site)} at {tuple(column[:rank])}: {fault}")
        uneven = boxes[:, 0] * tensor_map.element_bytes % BOX_ALIGNMENT != 0
        if uneven.any():
            raise Misaligned(
                f"{self._words.describe(site)} has its box at {tuple(boxes[uneven.argmax()].tolist())}, "
                f"{int(boxes[uneven.argmax(), 0]) * tensor_map.element_bytes} bytes into a row, no multiple of "
                f"{BOX_ALIGNMENT}: an H200 stops with an illegal instruction"
            )
        first, last, inside = extents(tensor_map, boxes)
        memory = self._wave.access.memory
        if not inside.any() or memory.encloses(int(first[inside].min()), int(last[inside].max())):
            return
        for box, low, high in zip(boxes[inside].tolist(), first[inside].tolist(), last[inside].tolist(), strict=True):
            if not memory.encloses(low, high):
                raise OutOfBounds(
                    f"{self._words.describe(site)} with coordinates {tuple(box)} touches global addresses {low:#x} "
                    f"to {high:#x}, which are not in one allocation: {memory.describe(high - GLOBAL_BASE)}"
                )

    def require_cluster(self, site: int) -> None:
        """Raise for a reduction to shared memory in a launch without clusters."""
        if self._wave.topology.cluster_size == 1:
            raise EmulatorError(
                f"{self._words.describe(site)} reduces to shared memory in a launch without clusters: an H200 stops "
                "with an illegal instruction; launch clusters of 2 or more"
            )

    def check_range(self, site: int, offset: int, size: int) -> None:
        """Raise for a range past the end of shared memory."""
        limit = self._wave.access.shared_limit
        if offset + size > limit:
            raise OutOfBounds(
                f"{self._words.describe(site)} moves {size} bytes at {self._words.shared(offset)}, past the end "
                f"of the CTA's shared memory at {limit:#x}"
            )

    def shared_range(self, site: int, cta: int, offset: int, size: int) -> Bytes:
        """A view of a CTA's shared memory."""
        self.check_alignment(site, offset, size)
        self.check_range(site, offset, size)
        start = cta * self._wave.topology.shared_stride + offset
        return self._wave.access.shared.bytes[start : start + size]

    def global_range(self, site: int, address: int, size: int) -> Bytes:
        """A view of global memory."""
        self.check_alignment(site, address, size)
        try:
            return self._wave.access.memory.slice(address, size)
        except ValueError as error:
            raise OutOfBounds(f"{self._words.describe(site)}: {error}") from error

    def check_alignment(self, site: int, address: int, size: int) -> None:
        """Raise unless a range begins and ends on a multiple of 16 bytes."""
        if address % _ALIGNMENT or size % _ALIGNMENT:
            raise Misaligned(
                f"{self._words.describe(site)} moves {size} bytes at {address:#x}: both must be multiples of "
                f"{_ALIGNMENT}"
            )


def _is_im2col(modifiers: Sequence[str]) -> bool:
    """Whether a copy or reduction moves columns of pixels, and not boxes."""
    return not {"im2col", "im2col_no_offs"}.isdisjoint(modifiers)


@dataclass(frozen=True, slots=True)
class Issue:
    """A bulk copy of one thread: (CTA slot, shared offset) pairs, other operands, and the mask of a multicast."""

    lane: int
    places: list[tuple[int, int]]
    values: list[int]
    mask: int | None
