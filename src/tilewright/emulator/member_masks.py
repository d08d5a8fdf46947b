"""The checks of member masks: who executes a warp collective, whom its mask names, and what bar.warp.sync orders."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arithmetic import Values, lanes_of
from tilewright.emulator.collectives import members_of
from tilewright.emulator.lanes import FULL_WARP, WARP, Array, Group, Indices, Mask

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class MemberMaskChecks:
    """Of the lanes of one machine."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker

    def take_part(self, site: int, group: Group, mask: Values) -> None:
        """The lanes of a group execute a collective together."""
        if group.warps.complete and (mask == FULL_WARP).all():
            return
        masks = lanes_of(mask, group.size)
        outside = group.indices[masks >> (group.thread % WARP).astype(np.uint32) & 1 == 0]
        self._report(site, outside, "is executed by a thread that its member mask leaves out")
        if (masks != masks[0]).any():
            differs = group.indices[_named_by_another_mask(group, masks)]
            self._report(site, differs, "is executed with another member mask than by a thread that names this one")

    def barrier(self, group: Group, mask: Values) -> None:
        """bar.warp.sync: each thread knows what the others of its mask know."""
        tiles, clocks, now = group.warps, self._checker.clocks, self._checker.tick()
        lanes = tiles.spread(group.indices).swapaxes(1, 2).reshape(-1, WARP)
        masks = tiles.spread(np.broadcast_to(mask, (group.size,))).swapaxes(1, 2).reshape(-1, WARP)
        if tiles.present is None and (masks == FULL_WARP).all():
            clocks.meet(lanes, now)
            return
        members = members_of(tiles, mask).swapaxes(1, 2).reshape(-1, WARP)
        for row, here, of_lanes in zip(lanes, members, masks, strict=True):
            for named in np.unique(of_lanes[here]):
                clocks.meet(row[here & (of_lanes == named)][None], now)

    def _report(self, site: int, lanes: Indices, fault: str) -> None:
        if lanes.size:
            message = f"{self._checker.machine.describe(site)} {fault}"
            self._checker.report("member-mask", (fault,), message, (site,), self._checker.topology.group(lanes), None)


def _named_by_another_mask(group: Group, masks: Array) -> Mask:
    """Which lanes are in a mask, that another lane of their warp has, and have another mask themselves."""
    tiles = group.warps
    of_tile, lanes = tiles.spread(masks), np.arange(WARP, dtype=np.uint32)[:, None]
    here = np.ones(tiles.shape, np.bool_) if tiles.present is None else tiles.present
    names = (of_tile[:, :, None] >> lanes & 1 != 0) & here[:, :, None]
    named: Mask = (names & (of_tile[:, :, None] != of_tile[:, None])).any(axis=1)
    return np.asarray(tiles.collect(named))
