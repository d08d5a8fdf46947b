"""The quickest of many ways to cut a product, by the one model: what choices of Configs ask for again and again."""

from functools import lru_cache

from tilewright.dtypes import DType
from tilewright.hardware import Hardware, Unit
from tilewright.model.cost import Array, Fixed, Tiles, fixed, prepare, times_of


class Ranking:
    """Ways to cut products on one GPU; a product is what `model.cost.times` takes."""

    def __init__(self, tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware):
        self._prepared = prepare(tiles, unit, dtype, gpu)

    @lru_cache(maxsize=256)  # noqa: B019 (rankings are few and kept)
    def fixed(self, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Fixed:
        """What of the times holds for every m, kept."""
        return fixed(self._prepared, n, k, batch_count, row_bytes)

    def times(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> Array:
        """The predicted time of each way in us."""
        return times_of(self.fixed(n, k, batch_count, row_bytes), m)

    @lru_cache(maxsize=4096)  # noqa: B019 (rankings are few and kept)
    def best(self, m: int, n: int, k: int, batch_count: int, row_bytes: int = 128) -> int:
        """The index of the quickest way, the first of equals."""
        return int(self.times(m, n, k, batch_count, row_bytes).argmin())
