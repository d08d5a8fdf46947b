"""The check of a grid that may start before the grids that it depends on have ended (programmatic dependent launch)."""

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import Group, Indices


class GridDependency:
    """The knowledge that the earlier grids have ended, which the clocks carry from griddepcontrol.wait to others."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._column = ground.clocks.agent("earlier grids") if ground.state.dependent else None

    def awaited(self, group: Group) -> None:
        """Record that lanes execute griddepcontrol.wait."""
        if self._column is not None:
            self._ground.clocks.facts[KNOWN, group.indices, self._column] = self._ground.tick()

    def access(self, site: int, lanes: Indices) -> None:
        """Report lanes that access global memory and do not know that the earlier grids have ended."""
        if self._column is None:
            return
        early = self._ground.clocks.overwritable(lanes, self._column) == 0
        if early.any():
            describe, group = self._ground.words.describe, self._ground.topology.group(lanes[early])
            message = f"{describe(site)} accesses global memory, which an earlier grid may still read and write"
            self._ground.report("grid-dependency", message, (site,), group, None)
