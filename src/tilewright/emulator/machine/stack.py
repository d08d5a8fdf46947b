"""alloca, stacksave and stackrestore: local memory that threads ask for while they run. Source: PTX ISA, "Stack"."""

import numpy as np

from tilewright.emulator.errors import OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, lanes_of
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.ptx.variables import STACK_BYTES


class Stack:
    """The stacks of a wave's lanes: from the end of their local memory down to their variables.

    PTX leaves the direction open; a GPU's stack grows downwards.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave, entry = wave, wave.program.entry
        self._end = np.full(wave.topology.lanes, entry.local_bytes)

    def allocate(self, site: int, group: Group, size: Array, align: int, active: Active) -> Array:
        """alloca: the local addresses of `size` fresh bytes for each active lane."""
        end, least = self._end[group.lanes], self._wave.program.entry.stack_start
        nbytes = lanes_of(size, group.size).astype(np.uint64).clip(0, 1 << 32).astype(np.int64)
        start = (end - nbytes) // align * align
        chosen = np.ones(group.size, np.bool_) if active is None else lanes_of(active, group.size)
        beyond = np.flatnonzero(chosen & (start < least))
        if beyond.size:
            first = beyond[0]
            raise OutOfBounds(
                f"{self._wave.words.describe(site)} asks for {int(nbytes[first])} bytes of the stack, and "
                f"{int(end[first]) - least} of {STACK_BYTES} are left: allocate less",
                lane=group.indices[first : first + 1],
            )
        self._end[group.lanes] = np.where(chosen, start, end)
        return np.asarray(start.astype(np.uint64))

    def save(self, group: Group) -> Array:
        """stacksave: where each lane's stack ends."""
        return np.asarray(self._end[group.lanes].astype(np.uint64))

    def restore(self, site: int, group: Group, saved: Array, active: Active) -> None:
        """stackrestore: what lanes have allocated since they saved is free again."""
        chosen = np.ones(group.size, np.bool_) if active is None else lanes_of(active, group.size)
        wanted, end = lanes_of(saved, group.size).astype(np.uint64), self._end[group.lanes]
        wrong = chosen & ((wanted < end.astype(np.uint64)) | (wanted > np.uint64(self._wave.access.local_bytes)))
        if wrong.any():
            first = int(wrong.argmax())
            raise OutOfBounds(
                f"{self._wave.words.describe(site)} restores {int(wanted[first]):#x}, which stacksave has not given",
                lane=group.indices[first : first + 1],
            )
        self._end[group.lanes] = np.where(chosen, wanted.astype(np.int64), end)
