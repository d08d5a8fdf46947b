"""alloca, stacksave and stackrestore: local memory that threads ask for while they run. Source: PTX ISA, "Stack"."""

import numpy as np

from tilewright.emulator.errors import OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, lanes_of
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.ptx.variables import STACK_BYTES


class Stack:
    """The stacks of a wave's lanes: above their variables in local memory, growing upwards."""

    def __init__(self, wave: Wave) -> None:
        self._wave, entry = wave, wave.program.entry
        self._next = np.full(wave.topology.lanes, entry.stack_start)

    def allocate(self, site: int, group: Group, size: Array, align: int, active: Active) -> Array:
        """alloca: the local addresses of `size` fresh bytes for each active lane."""
        start = -(-self._next[group.lanes] // align) * align
        end = start + lanes_of(size, group.size).astype(np.uint64).clip(0, 1 << 32).astype(np.int64)
        chosen = np.ones(group.size, np.bool_) if active is None else lanes_of(active, group.size)
        beyond = np.flatnonzero(chosen & (end > self._wave.access.local_bytes))
        if beyond.size:
            first = beyond[0]
            raise OutOfBounds(
                f"{self._wave.words.describe(site)} asks for {int(end[first] - start[first])} bytes of the stack, and "
                f"{self._wave.access.local_bytes - int(start[first])} of {STACK_BYTES} are left: allocate less",
                lane=group.indices[first : first + 1],
            )
        self._next[group.lanes] = np.where(chosen, end, self._next[group.lanes])
        return np.asarray(start.astype(np.uint64))

    def save(self, group: Group) -> Array:
        """stacksave: where each lane's stack ends."""
        return np.asarray(self._next[group.lanes].astype(np.uint64))

    def restore(self, site: int, group: Group, saved: Array, active: Active) -> None:
        """stackrestore: what lanes have allocated since they saved is free again."""
        chosen = np.ones(group.size, np.bool_) if active is None else lanes_of(active, group.size)
        wanted, entry = lanes_of(saved, group.size).astype(np.uint64), self._wave.program.entry
        wrong = chosen & (
            (wanted > self._next[group.lanes].astype(np.uint64)) | (wanted < np.uint64(entry.stack_start))
        )
        if wrong.any():
            first = int(wrong.argmax())
            raise OutOfBounds(
                f"{self._wave.words.describe(site)} restores {int(wanted[first]):#x}, which stacksave has not given",
                lane=group.indices[first : first + 1],
            )
        self._next[group.lanes] = np.where(chosen, wanted.astype(np.int64), self._next[group.lanes])
