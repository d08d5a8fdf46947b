"""Registers without a value: the lanes and bits that lack one, as generated code records them (program/suspects.py)."""

from collections.abc import Sequence

import numpy as np

from tilewright.emulator.lanes import Active, Array, Group
from tilewright.emulator.machine.access import of_parts
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.semantics.scalars import Values
from tilewright.emulator.semantics.unset_bits import whole


class Poison:
    """The suspects of a wave, by their numbers: registers that may be used without a value.

    doubtful: whether a suspect lacks a value in some lane; always false if no observer wants to hear of such uses.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        suspects, without_value = len(wave.program.suspects), wave.program.without_value
        self._tell, self._heard = wave.tell, wave.tell.hear("used_without_value")
        self._dtypes = wave.program.suspect_dtypes
        self._unset: dict[int, Array] = {}  # by the suspects that have ever lacked a value
        self.doubtful = [self._heard and number < without_value for number in range(suspects)]
        for number in np.flatnonzero(self.doubtful).tolist():
            self._unset[number] = whole(np.ones(wave.topology.lanes, np.bool_), self._dtypes[number])
        self._lost: list[int | None] = [None] * suspects  # the shuffle or load that left it without a value, if any

    def unset_in(self, group: Group, number: int) -> Values:
        """The bits of a register without a value in the lanes of a group."""
        return self._unset[number][group.lanes] if number in self._unset else self._dtypes[number].type(0)

    def require(self, site: int, group: Group, number: int, bits: int, active: Active) -> None:
        """Report the active lanes of a group that use a register whose low bits lack a value."""
        dtype = self._dtypes[number]
        missing = self._unset[number][group.lanes] & dtype.type((1 << bits) - 1) != 0
        if active is not None:
            missing = missing & active
        if missing.any():
            self._tell.used_without_value(site, group.take(missing), self._lost[number])

    def accumulate(self, site: int, group: Group, numbers: Sequence[int], keep: Values, active: Active) -> None:
        """Give registers values in the active lanes of a group; `keep`: lanes whose old values are part of them."""
        for number in numbers:  # usually only the first product of a tile finds one without a value
            if self.doubtful[number] and self._unset[number][group.lanes].any():
                self.require(
                    site, group, number, 8 * self._dtypes[number].itemsize, keep if active is None else keep & active
                )
                self.leave(group, number, (), None, active)

    def load(self, site: int, group: Group, numbers: Sequence[int | None], active: Active) -> None:
        """Mark the registers of a load whose values come from memory that nothing has written.

        numbers: the suspects among the registers, in the order of memory; None for others.
        """
        missing = self._wave.access.missing
        assert missing is not None
        self._wave.access.missing = None
        for number, unset in zip(numbers, of_parts(missing, len(numbers)).T, strict=True):
            if number is not None and unset.any():
                self._write(group, number, whole(unset, self._dtypes[number]), active, site)

    def lose(self, site: int, group: Group, number: int, unset: Values) -> None:
        """Mark the bits of a register that a shuffle leaves without a value in a group."""
        self._write(group, number, unset, None, site)

    def leave(self, group: Group, number: int, origins: Sequence[int], unset: Values | None, active: Active) -> None:
        """Make a register from others in the active lanes of a group; `unset`: its bits without a value, if any."""
        lost = next((self._lost[origin] for origin in origins if self.doubtful[origin]), None)
        self._write(group, number, self._dtypes[number].type(0) if unset is None else unset, active, lost)

    def _write(self, group: Group, number: int, unset: Values, active: Active, lost: int | None) -> None:
        if not self._heard:
            return
        if number not in self._unset:
            if not np.any(unset):
                return
            self._unset[number] = np.zeros(self._wave.topology.lanes, self._dtypes[number])
        register = self._unset[number]
        register[group.lanes] = unset if active is None else np.where(active, unset, register[group.lanes])
        self.doubtful[number] = bool(register.any())
        if np.any(unset):
            self._lost[number] = lost
