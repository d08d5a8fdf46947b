"""What measured launches say of the choice among near ways to cut a product, and the arithmetic of `cost` does not see.

A sum of small decision trees gives each of the NEAREST quickest ways the share by which launches took longer than
predicted, beside the others of the same product. So it changes the order of ways, and no prediction of a time. The
trees were fitted to launches of random products and of layers on an H200 and an H100 (RECORDS), by
tools/fit_correction.py, which also says what they gain where they were not fitted to: docs/choosing.md has the table.
A server waits for the answers at many m, so those about n, k and the batch, and about tilings, are found once.
"""

import json
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import H200, Hardware
from tilewright.model.cost import Fixed, Found
from tilewright.model.ranking.trees import Trees
from tilewright.model.tiling.tiles import Array, Tiles

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

    from tilewright.model.ranking.trees import Numbers

TREES = {name: Path(__file__).with_name(f"correction_{name}.json") for name in ("1", "2", "short")}
"""Where the trees are: by the bytes of an element, and those for products of 2 bytes that `is_short` names."""

NEAREST = 32
"""How many of the quickest ways are corrected: the others were hardly ever the best that was measured."""

FEATURES = (
    "busy", "dram", "energy", "fixed", "waves", "places", "filled", "l2", "steps", "tiles_m", "tiles_n", "covered_m",
    "covered_n", "m", "n", "line_k", "batch", "misaligned", "promoted", "tile_m", "tile_n", "tile_k", "cluster_m",
    "cluster_n", "split_k", "sharers", "swapped", "by_turns", "padded_m", "padded_n", "ragged",
    "out_bytes",
)  # fmt: skip
"""What trees ask about, in the order of `OfProducts.features`."""
_OF_ROWS = range(FEATURES.index("n"))
_OF_PRODUCT = range(_OF_ROWS.stop, FEATURES.index("tile_m"))
_OF_TILING = range(_OF_PRODUCT.stop, len(FEATURES))
GROUPS = _OF_ROWS, _OF_PRODUCT, _OF_TILING
"""Those that may change with the number of rows; those of n, k and the batch; and those of a tiling."""


@cache
def trees(name: str) -> Trees:
    """Those of TREES."""
    return Trees.stored(json.loads(TREES[name].read_text(encoding="utf-8")), FEATURES, GROUPS)


def is_known(dtype: DType, gpu: Hardware) -> bool:
    """Whether the records have such elements, on GPUs with as many SMs that multiply as quickly."""
    return str(dtype.nbytes) in TREES and gpu.sm_count == H200.sm_count and gpu.rates == H200.rates


def is_limited_by_power(found: Found) -> bool:
    """Whether the quickest way takes its time for power.

    Launches of the records ran in turns and shared one clock, so the more power of a Config cost the others time.
    """
    quickest = found.us.argmin()
    return bool(found.energy[quickest] >= found.loop[quickest])


class Correction:
    """How the order of ways to cut products of elements of `dtype` is corrected on a GPU; short: as in `costs_of`."""

    def __init__(self, tiles: Tiles, dtype: DType, gpu: Hardware, short: bool = False):
        self._name = "short" if short else str(dtype.nbytes)
        self.nbytes, self.line = dtype.nbytes, 128 // dtype.nbytes  # elements along k
        self.promoted = 0 if tiles.promotion is None else 1 + tiles.promotion.in_step
        self.share = tiles.cluster_m * tiles.cluster_n * tiles.split_k / gpu.sm_count
        self.of_tilings = np.array([
            tiles.tile_m, tiles.tile_n, tiles.tile_k / self.line, tiles.cluster_m, tiles.cluster_n, tiles.split_k,
            tiles.sharers, tiles.swapped, tiles.by_turns, tiles.rows_m / tiles.tile_m, tiles.rows_n / tiles.tile_n,
            tiles.ragged, np.full_like(tiles.tile_m, tiles.out_bytes),
        ])  # fmt: skip

    def is_for(self, found: Found) -> bool:
        """Whether products are corrected: not where power limits elements of 2 bytes.

        Of 1 byte, the quickest in turns were also the quickest at the power limit (docs/performance-log.md).
        """
        return self.nbytes == 1 or not is_limited_by_power(found)

    @cached_property
    def trees(self) -> Trees:
        """Those for such products."""
        return trees(self._name)

    @cached_property
    def numbers(self) -> "Numbers":
        """What tilings add to the numbers of leaves."""
        return self.trees.numbers(self.of_tilings, _OF_TILING)


class OfProducts:
    """The Correction of products that differ in m alone."""

    def __init__(self, correction: Correction, fixed: Fixed):
        self._correction = correction
        prepared, tiles_n = fixed.prepared, fixed.tiles_n / fixed.batch_count
        self._of_ways = np.array([
            prepared.fixed, correction.share, prepared.tiles.clusters_at_once, fixed.l2_work, fixed.steps,
            prepared.along[0], tiles_n, tiles_n * prepared.along[1] / fixed.n,
        ])  # fmt: skip
        of_product = fixed.n, fixed.k / correction.line, fixed.batch_count, fixed.lines, correction.promoted
        self._of_product = np.array(of_product)[:, None]

    @cached_property
    def _first(self) -> "NDArray[np.intp]":
        """The places of leaves, as far as n, k and the batch number them."""
        trees = self._correction.trees
        return trees.first + trees.numbers(self._of_product, _OF_PRODUCT)

    def nearest(self, found: Found, m: int) -> "tuple[NDArray[np.intp], Array]":
        """The nearest ways to cut the products of m rows, and the order of their times, as launches have it."""
        ways, correction = _nearest(found.us), self._correction
        numbers = correction.trees.numbers(self._of_rows(found, m, ways), _OF_ROWS)
        numbers += correction.numbers.take(ways, axis=0)
        return ways, found.us[ways] * np.exp(correction.trees.logarithms(self._first + numbers))

    def features(self, found: Found, m: int, ways: "NDArray[np.intp]") -> Array:
        """A column of FEATURES for each of these ways to cut the products of m rows.

        busy, dram, energy, fixed: shares of the predicted time, of what limits and of what surrounds the main loop.
        places: the share of SMs that have a CTA. filled: that of the waves' places. l2: L2's time over that of a step.
        steps: us of a wave's. covered: what tiles cover of an extent, and more. line_k: k in lines of 128 bytes.
        misaligned: how many times the lines of aligned rows L2 reads. promoted: 1 if CUDA cores add, 2 if they scale.
        padded: what is brought for a tile, and more. ragged, out_bytes: as in Tiles.
        """
        of_product = self._of_product.repeat(len(ways), axis=1)
        return np.concatenate([self._of_rows(found, m, ways), of_product, self._correction.of_tilings[:, ways]])

    def _of_rows(self, found: Found, m: int, ways: "NDArray[np.intp]") -> Array:
        """Those that may change with m."""
        fixed, share, most_at_once, l2_work, steps, along_m, tiles_n, covered_n = self._of_ways.take(ways, axis=1)
        tiles_m, clusters, at_once, waves, step, busy, dram, energy, _, us = [part[ways] for part in found]
        asked = np.empty((len(_OF_ROWS), len(ways)))
        asked[:-1] = (
            busy / us, dram / us, energy / us, fixed / us, waves, at_once * share, clusters / (waves * most_at_once),
            at_once * l2_work / step, step * steps, tiles_m, tiles_n, tiles_m * along_m / m, covered_n,
        )  # fmt: skip
        asked[-1] = m
        return asked


def _nearest(us: Array) -> "NDArray[np.intp]":
    """The NEAREST quickest of these times that are finite, the first of equals."""
    if len(us) > NEAREST:  # to find them is quicker than to put all in order
        longest = np.partition(us, NEAREST - 1)[NEAREST - 1]
        (ways,) = (us <= longest).nonzero()
        if len(ways) == NEAREST and longest < np.inf:
            return ways  # type: ignore[no-any-return]
    ways = us.argsort(kind="stable")[:NEAREST]
    return ways[np.isfinite(us[ways])]
