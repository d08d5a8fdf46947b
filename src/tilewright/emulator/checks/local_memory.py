"""The checks of local memory: a thread must not load what it has not written."""

import numpy as np

from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import Indices
from tilewright.emulator.ptx.syntax import Entry


class LocalChecks:
    """The local memories of a wave's lanes, one after the other.

    written: (bytes of all lanes,), which bytes have been written. The arguments and results of calls count as written,
    since a function may leave out an unused member.
    """

    def __init__(self, ground: Ground, entry: Entry) -> None:
        self._ground, self._nbytes = ground, entry.local_bytes  # bytes of one thread
        written = np.zeros((ground.topology.lanes, entry.local_bytes), np.bool_)
        for variable in (entry.local[name] for name in entry.arguments):
            written[:, variable.offset : variable.offset + variable.size] = True
        self._written = written.reshape(-1)

    def access(self, kind: str, site: int, lanes: Indices, where: Indices, width: int) -> None:
        """Check a ld or st of lanes at flat offsets. A load of partly written bytes copies a structure's padding."""
        places = where[:, None] + np.arange(width)
        if kind != "ld":
            self._written[places] = True
            return
        missing = ~self._written[places].any(axis=1)
        if not missing.any():
            return
        first, ground = int(missing.argmax()), self._ground
        address = int(where[first]) % self._nbytes
        message = (
            f"{ground.words.describe(site)} reads local address {address:#x}, which "
            f"{ground.name_of_lane(int(lanes[first]))} has not written"
        )
        group = ground.topology.group(lanes[first : first + 1])
        ground.report("uninitialized-local", message, (site,), group, address)
