"""Registers without a value: the lanes that lack one, as generated code records them (program/suspects.py)."""

from collections.abc import Sequence

import numpy as np

from tilewright.emulator.lanes import Active, Group
from tilewright.emulator.machine.access import of_parts
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.semantics.scalars import Values


class Poison:
    """The suspects of a wave, by their numbers: registers that may be used without a value.

    doubtful: whether a suspect lacks a value in some lane; always false if no observer wants to hear of such uses.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        suspects, without_value = len(wave.program.suspects), wave.program.without_value
        self._tell, self._heard = wave.tell, wave.tell.hear("used_without_value")
        self._unset = np.zeros((suspects if self._heard else 0, wave.topology.lanes), np.bool_)
        self._unset[:without_value] = True
        self.doubtful = [self._heard and number < without_value for number in range(suspects)]
        self._lost: list[int | None] = [None] * suspects  # the shuffle or load that left it without a value, if any

    def unset_in(self, group: Group, number: int) -> Values:
        """The lanes in which a register has no value."""
        return self._unset[number, group.lanes] if self._heard else False

    def require(self, site: int, group: Group, number: int, active: Active) -> None:
        """Report the active lanes of a group that use a register without a value."""
        missing = self._unset[number, group.lanes]
        if active is not None:
            missing = missing & active
        if missing.any():
            self._tell.used_without_value(site, group.take(missing), self._lost[number])

    def accumulate(self, site: int, group: Group, numbers: Sequence[int], keep: Values, active: Active) -> None:
        """Give registers values in the active lanes of a group; `keep`: lanes whose old values are part of them."""
        doubtful = [number for number in numbers if self.doubtful[number]]  # in some lane, maybe of another group
        if not doubtful or not (missing := self._unset[doubtful][:, group.lanes]).any():
            return  # the usual case: all products of a tile but the first
        for number in np.asarray(doubtful)[missing.any(axis=1)].tolist():
            self.require(site, group, number, keep if active is None else keep & active)
            self.leave(group, (number,), (), False, active)

    def load(self, site: int, group: Group, numbers: Sequence[int | None], active: Active) -> None:
        """Mark the registers of a load whose values come from memory that nothing has written.

        numbers: the suspects among the registers, in the order of memory; None for others.
        """
        missing = self._wave.access.missing
        assert missing is not None
        self._wave.access.missing = None
        for number, unset in zip(numbers, of_parts(missing, len(numbers)).T, strict=True):
            if number is not None and unset.any():
                self._write(group, number, unset, active, site)

    def lose(self, site: int, group: Group, number: int, unset: Values) -> None:
        """Mark a register that a shuffle leaves without a value in some lanes of a group."""
        self._write(group, number, unset, None, site)

    def leave(
        self, group: Group, numbers: Sequence[int], origins: Sequence[int], unset: Values, active: Active
    ) -> None:
        """Make registers from others in the active lanes of a group; the results lack a value where `unset` holds."""
        lost = next((self._lost[origin] for origin in origins if self.doubtful[origin]), None)
        for number in numbers:
            self._write(group, number, unset, active, lost)

    def _write(self, group: Group, number: int, unset: Values, active: Active, lost: int | None) -> None:
        if not self._heard:
            return
        kept = self._unset[number, group.lanes]
        self._unset[number, group.lanes] = unset if active is None else np.where(active, unset, kept)
        self.doubtful[number] = bool(self._unset[number].any())
        if np.any(unset):
            self._lost[number] = lost
