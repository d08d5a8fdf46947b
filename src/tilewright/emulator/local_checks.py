"""The checks of local memory: what a thread has not written it must not load."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.lanes import Indices
from tilewright.emulator.ptx import Entry

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class LocalChecks:
    """Of the lanes of one machine, whose local memories lie one behind the other.

    written: (bytes of all lanes,), which of them hold something. The arguments and results of calls count as written:
    a function may leave out a member that nobody uses.
    """

    def __init__(self, checker: "Checker", entry: Entry) -> None:
        self._checker, self._nbytes = checker, entry.local_bytes  # of one thread
        written = np.zeros((checker.topology.lanes, entry.local_bytes), np.bool_)
        for variable in (entry.local[name] for name in entry.arguments):
            written[:, variable.offset : variable.offset + variable.size] = True
        self._written = written.reshape(-1)

    def access(self, kind: str, site: int, lanes: Indices, where: Indices, width: int) -> None:
        """A ld or st of lanes at flat offsets. A load that finds a part of its bytes copies a structure's padding."""
        places = where[:, None] + np.arange(width)
        if kind != "ld":
            self._written[places] = True
            return
        missing = ~self._written[places].any(axis=1)
        if not missing.any():
            return
        first, checker = int(missing.argmax()), self._checker
        address = int(where[first]) % self._nbytes
        message = (
            f"{checker.machine.describe(site)} reads local address {address:#x}, which "
            f"{checker.name_of_lane(int(lanes[first]))} has not written"
        )
        group = checker.topology.group(lanes[first : first + 1])
        checker.report("uninitialised-local", (), message, (site,), group, address)
