"""The quickest of many ways to cut a product, by the one model: what choices of Configs ask for again and again."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import Hardware, Unit
from tilewright.model.cost import Fixed, Found, fixed, found_of, is_short, prepare
from tilewright.model.prediction import costs_of, seconds_at_least
from tilewright.model.ranking.correction import Correction, OfProducts, is_known, is_limited_by_power
from tilewright.model.tiling.tiles import Array, Tiles
from tilewright.problem import Problem

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray


_APART = 1.015
"""How many times as long tiles of 256 rows take where power limits if they are in no cluster, are not transposed, and
leave from registers (results/settled_pairs_h200.json, settled_turns_h200.json)."""


class Ranking:
    """Ways to cut products on one GPU; a product is what `fixed` and `found_of` take.

    Products that `is_short` have Costs and a correction of their own. Those of 2-byte elements that power limits have
    none, and are put in order by how full waves are.
    """

    def __init__(self, tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware):
        kinds = (False, True) if unit == "wgmma" and dtype.nbytes == 2 else (False,)
        self._dtype, self._out_bytes = dtype, tiles.out_bytes
        self._corrects = unit == "wgmma" and is_known(dtype, gpu)
        apart = (tiles.cluster_m * tiles.cluster_n == 1) & (tiles.tile_m == 256) & ~(tiles.by_tma | tiles.swapped)
        self._longer = np.where(apart, _APART, 1.0)
        self._prepared = [prepare(tiles, unit, dtype, gpu, costs_of(unit, dtype, gpu, short)) for short in kinds]
        self._corrections = [Correction(tiles, dtype, gpu, short) for short in kinds if self._corrects]
        self.prepared = self._prepared[False]

    @lru_cache(maxsize=256)  # noqa: B019 (rankings are few and kept)
    def fixed(self, n: int, k: int, batch_count: int, row_bytes: int = 128, *, short: bool = False) -> Fixed:
        """What of the times holds for every m, kept; short: of products that `is_short`."""
        return fixed(self._prepared[short], n, k, batch_count, row_bytes)

    def times(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Array:
        """The predicted time of each way in us, of the quickest ones as `correction` has it.

        The least of all times stays as it is, so that a kernel is compared with others as before.
        """
        us = self._found(m, n, k, batch_count, row_bytes).us
        corrected = self._corrected(m, n, k, batch_count, row_bytes)
        if corrected is None:
            return us
        ways, nearest = corrected
        us = us.copy()
        us[ways] = nearest * (us[ways].min() / nearest.min())
        return us

    def corrects(self, m: int, *others: int) -> bool:
        """Whether measured launches correct a product."""
        return self._corrects and self._corrections[self._is_short(m, *others)].is_for(self._found(m, *others))

    def _is_short(self, m: int, n: int, k: int, *_: int) -> bool:
        return is_short(self._dtype, self._out_bytes, m, n, k, self.prepared.finish[1])

    def _corrected(self, m: int, *others: int) -> "tuple[NDArray[np.intp], Array] | None":
        """Ways with their corrected times, the nearest or all, if the product is corrected."""
        found, short = self._found(m, *others), self._is_short(m, *others)
        if self._corrects and self._corrections[short].is_for(found):
            return self._of_products(short, *others).nearest(found, m)
        if self._dtype.nbytes == 2 and is_limited_by_power(found):
            us = self._at_power_limit(self.fixed(*others, short=short), found)
            return np.arange(us.size), us
        return None

    def _at_power_limit(self, fixed: Fixed, found: Found) -> Array:
        """The times where power limits: longer, the less of their waves is filled, and _APART.

        Voltage follows the clock, and power both: what draws less for some time has a higher clock. So the time is the
        geometric mean of the time at the limit and of that time over the share of places that are filled.
        """
        limited = found.energy + (found.waves - 1) * fixed.limited
        filled = found.clusters / (found.waves * fixed.prepared.tiles.clusters_at_once)
        longer = limited * self._longer / np.sqrt(filled)
        return found.us + np.maximum(found.loop, longer) - np.maximum(found.loop, limited)

    @lru_cache(maxsize=256)  # noqa: B019 (rankings are few and kept)
    def _of_products(self, short: bool, *others: int) -> OfProducts:
        """The correction for every m, kept."""
        return OfProducts(self._corrections[short], self.fixed(*others, short=short))

    @lru_cache(maxsize=2)  # noqa: B019 (large, and asked for twice in a row where kernels contend)
    def _found(self, m: int, *others: int) -> Found:
        return found_of(self.fixed(*others, short=self._is_short(m, *others)), m)

    @lru_cache(maxsize=4096)  # noqa: B019 (rankings are few and kept)
    def best(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> int:
        """The index of the quickest way, the first of equals."""
        corrected = self._corrected(m, n, k, batch_count, row_bytes)
        if corrected is None:
            return int(self._found(m, n, k, batch_count, row_bytes).us.argmin())
        ways, nearest = corrected
        return int(ways[nearest.argmin()])

    @lru_cache(maxsize=4096)  # noqa: B019
    def _least(self, m: int, *others: int) -> tuple[int, float]:
        """The index of the quickest way by arithmetic alone, and its time in us."""
        us = self._found(m, *others).us
        index = int(us.argmin())
        return index, float(us[index])

    def best_seconds(self, problem: Problem, gpu: Hardware, *product: int) -> float:
        """What `predict` says at least for a problem, which the ranking takes for `product`; no correction changes it.

        So a kernel is compared with others by arithmetic alone.
        """
        index, us = self._least(*product)
        return seconds_at_least(us, problem, self.prepared, gpu, index)

    def seconds(self, index: int, problem: Problem, gpu: Hardware, *product: int) -> float:
        """The time of one way, corrected; what DRAM takes at least makes all longer alike, and changes no order."""
        times, best = self.times(*product), self.best(*product)
        least = seconds_at_least(float(times[best]), problem, self.prepared, gpu, best)
        return least + float(times[index] - times[best]) / 1e6
