"""What measured launches say of the choice among near ways to cut a product, and the arithmetic of `cost` does not see.

A sum of small decision trees gives each of the NEAREST quickest ways the share by which launches took longer than
predicted, beside the others of the same product. So it changes the order of ways, and no prediction of a time. The
trees were fitted to launches of random products and of layers on an H200 and an H100 (RECORDS), by
tools/fit_correction.py, which also says what they gain where they were not fitted to: docs/choosing.md has the table.
Each tree asks the same DEPTH questions of every way, "is this feature above this threshold?", and their answers number
its leaves: Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features" (2018), calls them oblivious.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import H200, Hardware
from tilewright.model.cost import Array, Fixed, Found, Tiles

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

TREES = {nbytes: Path(__file__).with_name(f"correction_{nbytes}.json") for nbytes in (1, 2)}
"""Where the trees are, by the bytes of an element."""

NEAREST = 32
"""How many of the quickest ways are corrected: the others were hardly ever the best that was measured."""

UNIT = 1e-3
"""Of leaves, which are whole numbers: natural logarithms of a share."""

FEATURES = (
    "busy", "dram", "energy", "fixed", "waves", "places", "filled", "l2", "steps", "tiles_m", "tiles_n", "covered_m",
    "covered_n", "m", "n", "line_k", "batch", "misaligned", "promoted", "tile_m", "tile_n", "tile_k", "cluster_m",
    "cluster_n", "split_k", "sharers", "swapped", "by_turns", "padded_m", "padded_n",
)  # fmt: skip
"""What trees ask about, in the order of `Correction.features`."""
_OF_PRODUCT = slice(FEATURES.index("m"), FEATURES.index("tile_m"))
"""Those that all ways have alike; those behind them are of a tiling."""


class Trees(NamedTuple):
    """The trees, a column of each array for each: the features asked about, the thresholds, and leaves of logarithms.

    bits: what the answer to each question adds to the number of a leaf. first: the places of leaves 0, tree after tree.
    """

    features: "NDArray[np.intp]"
    thresholds: Array
    leaves: Array
    bits: "NDArray[np.float32]"
    first: "NDArray[np.intp]"

    @classmethod
    def of(cls, asked: "NDArray[np.intp]", thresholds: Array, leaves: Array) -> "Trees":
        """Those with a row of `asked`, of `thresholds` and of `leaves` for each."""
        depth = asked.shape[1]
        bits = (2.0 ** np.arange(depth)).astype(np.float32)
        return cls(asked.T.copy(), thresholds.T.copy(), leaves, bits, np.arange(len(asked))[:, None] * 2**depth)

    def logarithms(self, asked: Array) -> Array:
        """The sum of all trees for each column of features."""
        depth, count = self.features.shape
        # An index is never out of range; to have it clipped is quicker than to have it checked.
        answers = asked.take(self.features, axis=0, mode="clip") > self.thresholds[..., None]
        # Numbers of 32 bits are multiplied by BLAS, and whole numbers and bits are not.
        numbers = (self.bits @ answers.reshape(depth, -1).astype(np.float32)).reshape(count, -1)
        total: Array = self.leaves.take(numbers.astype(np.intp) + self.first, mode="clip").sum(axis=0)
        return total


@cache
def trees(nbytes: int) -> Trees:
    """Those that come with the package for elements of so many bytes."""
    stored = json.loads(TREES[nbytes].read_text(encoding="utf-8"))
    order = np.array([FEATURES.index(name) for name in stored["features"]], np.intp)
    return Trees.of(
        order[np.array(stored["asked"], np.intp)],
        np.array(stored["thresholds"], np.float64),
        np.array(stored["leaves"], np.float64) * UNIT,
    )


def is_known(dtype: DType, gpu: Hardware) -> bool:
    """Whether the records have such elements, on GPUs with as many SMs that multiply as quickly."""
    return dtype.nbytes in TREES and gpu.sm_count == H200.sm_count and gpu.rates == H200.rates


def is_limited_by_power(found: Found) -> bool:
    """Whether the quickest way takes its time for power.

    Launches of the records ran in turns and shared one clock, so the more power of a Config cost the others time.
    """
    quickest = found.us.argmin()
    return bool(found.energy[quickest] >= np.hypot(found.busy[quickest], found.dram[quickest]))


class Correction:
    """How the order of ways to cut products of elements of `dtype` is corrected on a GPU."""

    def __init__(self, tiles: Tiles, dtype: DType, gpu: Hardware):
        self._nbytes, self._line = dtype.nbytes, 128 // dtype.nbytes  # elements along k
        self._promoted = 0 if tiles.promotion is None else 1 + tiles.promotion.scaled
        self._share = tiles.cluster_m * tiles.cluster_n * tiles.split_k / gpu.sm_count
        self._of_tiles = np.array([
            tiles.tile_m, tiles.tile_n, tiles.tile_k / self._line, tiles.cluster_m, tiles.cluster_n, tiles.split_k,
            tiles.sharers, tiles.swapped, tiles.by_turns, tiles.rows_m / tiles.tile_m, tiles.rows_n / tiles.tile_n,
        ])  # fmt: skip

    def is_for(self, found: Found) -> bool:
        """Whether products are corrected: not where power limits elements of 2 bytes.

        Of 1 byte, the quickest in turns were also the quickest at the power limit (docs/performance-log.md).
        """
        return self._nbytes == 1 or not is_limited_by_power(found)

    def corrected(self, fixed: Fixed, found: Found, m: int) -> Array:
        """The predicted times of m rows, those of the nearest ways corrected if the product is.

        The least of all times stays as it is, so that a kernel is compared with others as before.
        """
        if not self.is_for(found):
            return found.us
        ways = found.us.argsort(kind="stable")[:NEAREST]
        ways = ways[np.isfinite(found.us[ways])]
        us = found.us.copy()
        nearest = us[ways] * np.exp(trees(self._nbytes).logarithms(self.features(fixed, found, m, ways)))
        us[ways] = nearest * (us[ways[0]] / nearest.min())
        return us

    def features(self, fixed: Fixed, found: Found, m: int, ways: "NDArray[np.intp]") -> Array:
        """A column of FEATURES for each of these ways to cut the products of m rows.

        busy, dram, energy, fixed: shares of the predicted time, of what limits and of what surrounds the main loop.
        places: the share of SMs that have a CTA. filled: that of the waves' places. l2: L2's time over that of a step.
        steps: us of a wave's. covered: what tiles cover of an extent, and more. line_k: k in lines of 128 bytes.
        misaligned: how many times the lines of aligned rows L2 reads. promoted: 1 if CUDA cores add, 2 if they scale.
        padded: what is brought for a tile, and more.
        """
        prepared, tiles = fixed.prepared, fixed.prepared.tiles
        us, waves, step, at_once = found.us[ways], found.waves[ways], found.step[ways], found.at_once[ways]
        tiles_m, tiles_n = found.tiles_m[ways], fixed.tiles_n[ways] / fixed.batch_count
        along_m, along_n = prepared.along[:, ways]
        asked = np.empty((len(FEATURES), len(ways)))
        asked[:_OF_PRODUCT.start] = (
            found.busy[ways] / us, found.dram[ways] / us, found.energy[ways] / us, prepared.fixed[ways] / us,
            waves, at_once * self._share[ways], found.clusters[ways] / (waves * tiles.clusters_at_once[ways]),
            at_once * fixed.l2_work[ways] / step, step * fixed.steps[ways],
            tiles_m, tiles_n, tiles_m * along_m / m, tiles_n * along_n / fixed.n,
        )  # fmt: skip
        of_product = m, fixed.n, fixed.k / self._line, fixed.batch_count, fixed.lines, self._promoted
        asked[_OF_PRODUCT] = np.array(of_product)[:, None]
        asked[_OF_PRODUCT.stop :] = self._of_tiles[:, ways]
        return asked
