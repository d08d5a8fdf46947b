"""st.async and red.async: values that threads send to shared memory of their cluster, with a signal to an mbarrier.

Both belong to the generic proxy. Source: PTX ISA, "st.async", "red.async".
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tilewright.emulator.errors import MisdirectedStore
from tilewright.emulator.lanes import Active, Array, Group, Indices, lane_values, lanes_of
from tilewright.emulator.machine.access import modify
from tilewright.emulator.machine.operation import Operation, SharedRegion, Signal
from tilewright.emulator.machine.waiting.mbarriers import Mbarriers
from tilewright.emulator.machine.wave import Wave


class RemoteStores:
    """Stores and reductions that complete after their threads have gone on."""

    def __init__(self, wave: Wave, mbarriers: Mbarriers) -> None:
        self._wave, self._mbarriers = wave, mbarriers

    def send(
        self,
        site: int,
        group: Group,
        space: str,
        address: Array,
        values: Sequence[Array],
        form: tuple[str, str] | None,
        barrier: Array,
        active: Active,
    ) -> None:
        """Issue one store of consecutive values per active lane, or one reduction.

        form: operation and PTX type of a reduction, None for a store.
        barrier: the addresses of the mbarriers that count the bytes.
        """
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        to, signal_at, *sent = (lane_values(value, group.size, chosen) for value in (address, barrier, *values))
        width = sent[0].dtype.itemsize * len(sent)
        access = self._wave.access
        cta, offsets = access.cta_and_offset(site, lanes, space, to, width)
        signal_cta, signals = access.cta_and_offset(site, lanes, space, signal_at)
        self._require_place(site, lanes, cta, signal_cta, form is not None)
        where = cta * access.topology.shared_stride + offsets
        operations: list[Callable[[], None]] = []
        for signal in np.unique(signals).tolist():
            here = signals == signal
            self._mbarriers.require_valid(site, signal, cta[here])
            operations.append(partial(self._land, site, where[here], [value[here] for value in sent], form, signal))
        written, ends = SharedRegion(cta[:, None], offsets, width), Signal(cta[:, None], signals)
        self._wave.tell.issued(Operation(site, "send", lanes.indices, ends, writes=written))
        self._wave.asynchrony.defer(operations)

    def _require_place(self, site: int, lanes: Group, cta: Indices, signal_cta: Indices, reduces: bool) -> None:
        what = self._wave.words.describe(site)
        if (cta != signal_cta).any():
            raise MisdirectedStore(f"{what} writes to one CTA and signals an mbarrier of another: both must be of one")
        if self._wave.topology.cluster_size == 1:
            raise MisdirectedStore(f"{what} needs a cluster of more than one CTA")
        if reduces and (cta == lanes.cta).any():
            raise MisdirectedStore(f"{what} reduces in shared memory of its own CTA: it must be another's")

    def _land(self, site: int, where: Indices, values: list[Array], form: tuple[str, str] | None, signal: int) -> None:
        access = self._wave.access
        if form is None:
            access.shared.scatter(where, values)
        else:
            modify(access.shared, where, form, values[0])
        size = values[0].dtype.itemsize * len(values)
        self._mbarriers.complete(site, signal, where // access.topology.shared_stride, size)
