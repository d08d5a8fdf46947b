"""The quickest of many ways to cut a product, by the one model: what choices of Configs ask for again and again."""

from functools import lru_cache

from tilewright.dtypes import DType
from tilewright.hardware import Hardware, Unit
from tilewright.model.cost import Array, Fixed, Found, Tiles, fixed, found_of, prepare
from tilewright.model.prediction import costs_of, seconds_at_least
from tilewright.model.ranking.correction import Correction, is_known
from tilewright.problem import Problem


class Ranking:
    """Ways to cut products on one GPU; a product is what `model.cost.times` takes."""

    def __init__(self, tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware):
        self._prepared = prepare(tiles, unit, dtype, gpu, costs_of(unit, dtype, gpu))
        corrects = unit == "wgmma" and is_known(dtype, gpu)
        self._correction = Correction(tiles, dtype, gpu) if corrects else None

    @lru_cache(maxsize=256)  # noqa: B019 (rankings are few and kept)
    def fixed(self, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Fixed:
        """What of the times holds for every m, kept."""
        return fixed(self._prepared, n, k, batch_count, row_bytes)

    def times(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Array:
        """The predicted time of each way in us, of the quickest ones as `correction` has it."""
        found = self._found(m, n, k, batch_count, row_bytes)
        if self._correction is None:
            return found.us
        return self._correction.corrected(self.fixed(n, k, batch_count, row_bytes), found, m)

    @lru_cache(maxsize=2)  # noqa: B019 (large, and asked for twice in a row where kernels contend)
    def _found(self, m: int, *others: int) -> Found:
        return found_of(self.fixed(*others), m)

    @lru_cache(maxsize=4096)  # noqa: B019 (rankings are few and kept)
    def best(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> int:
        """The index of the quickest way, the first of equals."""
        return int(self.times(m, n, k, batch_count, row_bytes).argmin())

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
        return seconds_at_least(us, problem, self._prepared, gpu, index)

    def seconds(self, index: int, problem: Problem, gpu: Hardware, *product: int) -> float:
        """The time of one way, corrected."""
        return seconds_at_least(float(self.times(*product)[index]), problem, self._prepared, gpu, index)
