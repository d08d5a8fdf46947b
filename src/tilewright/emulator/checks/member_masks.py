"""The checks of member masks: which lanes execute a warp collective, which its mask names, and bar.warp.sync."""

import numpy as np

from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import FULL_WARP, WARP, Array, Group, Mask, Tiles, lanes_of
from tilewright.emulator.semantics.collectives import BIT, members_of, parties
from tilewright.emulator.semantics.scalars import Values


class MemberMaskChecks:
    """The checks of the member masks of a wave's warp collectives."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def take_part(self, places: list[tuple[int, Group]], group: Group, mask: Values) -> None:
        """Check the lanes of a group that execute a collective together, each at the instruction of its place."""
        if group.warps.complete and (mask == FULL_WARP).all():
            return
        masks = lanes_of(mask, group.size)
        outside = masks >> (group.thread % WARP).astype(np.uint32) & 1 == 0
        self._report(places, group, outside, "is executed by a thread that its member mask leaves out")
        if group.warps.complete:  # otherwise each lane has waited for all lanes of its mask to come with the same mask
            differs = _named_by_another_mask(group.warps, masks)
            fault = "is executed with another member mask than by a thread that names this one"
            self._report(places, group, differs, fault)

    def barrier(self, group: Group, mask: Values) -> None:
        """bar.warp.sync: each thread learns what the others of its mask know."""
        tiles, clocks, now = group.warps, self._ground.clocks, self._ground.tick()
        if (mask == FULL_WARP).all() and clocks.meet_in_warps(group, now):
            return
        lanes = tiles.spread(group.indices).swapaxes(1, 2).reshape(-1, WARP)
        if tiles.complete and (mask == FULL_WARP).all():
            clocks.meet(lanes, now)
            return
        for _, party in parties(tiles, lanes_of(mask, group.size)):
            of_warp = (party & members_of(tiles, mask)).swapaxes(1, 2).reshape(-1, WARP)
            count = of_warp.sum(axis=1)
            for size in np.unique(count[count > 0]).tolist():
                clocks.meet(lanes[count == size][of_warp[count == size]].reshape(-1, size), now)

    def _report(self, places: list[tuple[int, Group]], group: Group, faulty: Mask, fault: str) -> None:
        """Report the faulty lanes of a group, separately for each place."""
        if not faulty.any():
            return
        lanes = group.indices[faulty]
        for site, here in places:
            if (found := np.intersect1d(here.indices, lanes)).size:
                message = f"{self._ground.words.describe(site)} {fault}"
                threads = self._ground.topology.group(found)
                self._ground.report("member-mask", message, (site,), threads, None, apart=(fault,))


def _named_by_another_mask(warps: Tiles, masks: Array) -> Mask:
    """The lanes that another lane's mask names although they have a different mask."""
    named = np.zeros(warps.shape, np.bool_)
    for mask, party in parties(warps, masks):
        named |= (mask & BIT != 0) & ~party
    return np.asarray(warps.collect(named))
