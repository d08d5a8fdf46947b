"""The quickest of many ways to cut a product, by the one model: what choices of Configs ask for again and again."""

from functools import lru_cache

from tilewright.dtypes import DType
from tilewright.hardware import Hardware, Unit
from tilewright.model.cost import Array, Fixed, Tiles, fixed, prepare, times_of
from tilewright.model.prediction import costs_of, seconds_at_least
from tilewright.problem import Problem


class Ranking:
    """Ways to cut products on one GPU; a product is what `model.cost.times` takes."""

    def __init__(self, tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware):
        self._prepared = prepare(tiles, unit, dtype, gpu, costs_of(unit, dtype, gpu))

    @lru_cache(maxsize=256)  # noqa: B019 (rankings are few and kept)
    def fixed(self, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Fixed:
        """What of the times holds for every m, kept."""
        return fixed(self._prepared, n, k, batch_count, row_bytes)

    def times(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Array:
        """The predicted time of each way in us."""
        return times_of(self.fixed(n, k, batch_count, row_bytes), m)

    @lru_cache(maxsize=4096)  # noqa: B019 (rankings are few and kept)
    def best(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> tuple[int, float]:
        """The index of the quickest way, the first of equals, and its time in us."""
        times = self.times(m, n, k, batch_count, row_bytes)
        index = int(times.argmin())
        return index, float(times[index])

    def best_seconds(self, problem: Problem, gpu: Hardware, *product: int) -> float:
        """What `predict` says of the quickest way for a problem, which the ranking takes for `product`."""
        index, us = self.best(*product)
        return seconds_at_least(us, problem, self._prepared, gpu, index)
