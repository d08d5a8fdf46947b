"""The instructions that access all places of a multimem address.

Source: PTX ISA, "multimem.ld_reduce, multimem.st, multimem.red".
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.errors import OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, Mask, lanes_of
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.semantics.reductions import combine, float_halves, halves_of_float


class Multimem:
    """The multimem instructions of a wave. Each access of a place is an access of global memory."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def load_reduce(
        self,
        site: int,
        group: Group,
        address: Array,
        dtype: npt.DTypeLike,
        count: int,
        form: tuple[str, str],
        in_float: bool,
        active: Active,
    ) -> list[Array]:
        """multimem.ld_reduce: `count` elements of each lane, reduced over all places in the order they were bound.

        form: operation and type. in_float: whether halves are summed as f32 and rounded once, at the end.
        """
        found: list[list[Array]] = []
        width = np.dtype(dtype).itemsize * count

        def load(where: Array, lanes: Mask) -> None:
            found.append(self._wave.access.load(site, group, "global", where, dtype, count, lanes))

        results: list[Array] = [np.zeros(group.size, dtype) for _ in range(count)]
        for lanes in self._each_place(site, group, address, width, active, load):
            for index, result in enumerate(results):
                values = [each[index] for each in found]
                result[lanes] = (_summed(values, form[1]) if in_float else _combined(values, form))[lanes]
            found.clear()
        return results

    def store(self, site: int, group: Group, address: Array, values: list[Array], active: Active) -> None:
        """multimem.st."""
        width = values[0].dtype.itemsize * len(values)

        def store(where: Array, lanes: Mask) -> None:
            self._wave.access.store(site, group, "global", where, values, lanes)

        for _ in self._each_place(site, group, address, width, active, store):
            pass

    def reduce(
        self, site: int, group: Group, address: Array, form: tuple[str, str], values: Sequence[Array], active: Active
    ) -> None:
        """multimem.red: an atomic reduction of each element."""
        width = values[0].dtype.itemsize * len(values)

        def reduce(where: Array, lanes: Mask) -> None:
            self._wave.access.atomic(site, group, "global", where, form, values, None, lanes)

        for _ in self._each_place(site, group, address, width, active, reduce):
            pass

    def _each_place(
        self,
        site: int,
        group: Group,
        address: Array,
        width: int,
        active: Active,
        act: Callable[[Array, Mask], None],
    ) -> Iterator[Mask]:
        """Act on each place of each range of multimem addresses; then yield the lanes that are in the range."""
        address = lanes_of(address, group.size)
        left = np.ones(group.size, np.bool_) if active is None else lanes_of(active, group.size).copy()
        for multicast in self._wave.launch.multicasts:
            offset = address.astype(np.int64) - multicast.address
            here = left & (offset >= 0) & (offset + width <= multicast.nbytes)
            if here.any():
                for place in multicast.places:
                    act(np.where(here, offset + place, 0).astype(np.uint64), here)
                yield here
                left = left & ~here
        if left.any():
            lane = int(np.flatnonzero(left)[0])
            raise OutOfBounds(
                f"{self._wave.words.describe(site)} accesses {width} bytes at {int(address[lane]):#x}, which is no "
                "multimem address: bind one by Device.multicasts",
                address=int(address[lane]),
                lane=group.indices[lane : lane + 1],
            )


def _combined(values: list[Array], form: tuple[str, str]) -> Array:
    total = values[0]
    for value in values[1:]:
        total = combine(form, total, value, None)
    return total


def _summed(values: list[Array], kind: str) -> Array:
    """The sum of halves, or of pairs of them, in f32."""
    total = float_halves(values[0], kind)
    for value in values[1:]:
        total = total + float_halves(value, kind)
    return np.asarray(halves_of_float(total, kind))
