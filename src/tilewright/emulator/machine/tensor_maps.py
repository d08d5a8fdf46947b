"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a kernel changes, and copies to where TMA reads them.

Source: PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy".
"""

import numpy as np

from tilewright.emulator.errors import EmulatorError
from tilewright.emulator.lanes import WARP, Active, Array, Group, Indices, lane_values, lanes_of
from tilewright.emulator.machine.tensor_cores import require_whole
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import FlatMemory
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES, USED_BYTES
from tilewright.emulator.semantics.tensor_map_fields import with_field

ALIGNMENT = 64
"""The alignment of a tensor map in bytes, as cuTensorMapEncodeTiled asks for it."""


class TensorMaps:
    """The tensor maps of a wave, in shared or global memory."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def replace(
        self,
        site: int,
        group: Group,
        space: str,
        address: Array,
        field: str,
        ordinal: int,
        value: Array,
        active: Active,
    ) -> None:
        """Replace a field of each active lane's map: a weak read and write of the whole map.

        field, ordinal: as PTX names it, and which dimension it is of.
        """
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        address, values = (lane_values(each, group.size, chosen) for each in (address, value))
        for named, memory, where, some in self._wave.access.parts(site, lanes, space, address, ALIGNMENT, None):
            self._require_room(site, lanes, named, address, some)
            self._wave.tell.accessed(site, "atom", named, lanes, where, USED_BYTES, some)
            numbers = values if some is None else values[some]
            for place, number in zip(where.tolist(), numbers.tolist(), strict=True):
                self._write(site, memory, place, self._with_field(site, memory, place, field, ordinal, number))

    def copy(self, site: int, group: Group, to: Array, source: Array) -> None:
        """cp_fenceproxy: each warp copies a map from shared to global memory."""
        require_whole(self._wave, site, group, group.warps, "warps")
        firsts = group.take(group.thread % WARP == 0)
        chosen = np.flatnonzero(group.thread % WARP == 0)
        access, tell = self._wave.access, self._wave.tell
        to, source = (lane_values(each, group.size, chosen) for each in (to, source))
        found, written = (
            self._located(site, firsts, space, address) for space, address in (("shared", source), ("global", to))
        )
        tell.accessed(site, "ld", "shared", firsts, found[1], USED_BYTES, None)
        if access.unwritten is not None:
            access.unwritten = None
            tell.used_without_value(site, firsts, site)
        tell.accessed(site, "st", "global", firsts, written[1], TENSOR_MAP_BYTES, None)
        for place, target in zip(found[1].tolist(), written[1].tolist(), strict=True):
            data = found[0].bytes[place : place + TENSOR_MAP_BYTES].tobytes()
            self._write(site, written[0], target, data)

    def acquire(self, site: int, group: Group, address: Array, active: Active) -> None:
        """fence.proxy.tensormap::generic.acquire: memory is always coherent here, so only the checks need to know."""
        lanes = group.active(active)
        if lanes.size and self._wave.tell.hear("tensor_map_acquired"):
            chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
            self._wave.tell.tensor_map_acquired(site, lanes, lane_values(address, group.size, chosen))

    def _located(self, site: int, lanes: Group, space: str, address: Array) -> tuple[FlatMemory, Indices]:
        memory, where = self._wave.access.locate(site, lanes, space, address, ALIGNMENT)
        self._require_room(site, lanes, space, address, None)
        return memory, np.broadcast_to(where, (lanes.size,))

    def _require_room(self, site: int, lanes: Group, space: str, address: Array, chosen: Indices | None) -> None:
        """Raise if the second half of a map lies outside its memory."""
        address = address if chosen is None else address[chosen]
        rest = address + address.dtype.type(TENSOR_MAP_BYTES - ALIGNMENT)
        if space in ("shared", "cluster", "local"):
            rest = rest.astype(np.uint32)
        self._wave.access.locate(site, lanes, space, rest, ALIGNMENT, chosen)

    def _with_field(self, site: int, memory: FlatMemory, place: int, field: str, ordinal: int, value: int) -> bytes:
        data = memory.bytes[place : place + TENSOR_MAP_BYTES].tobytes()
        try:
            return with_field(data, field, ordinal, value)
        except ValueError as error:
            raise EmulatorError(f"{self._wave.words.describe(site)}: {error}") from error

    def _write(self, site: int, memory: FlatMemory, place: int, data: bytes) -> None:
        memory.bytes[place : place + TENSOR_MAP_BYTES] = np.frombuffer(data, np.uint8)
