"""Ways to cut a product into tiles, as `cost` sees them."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"


class Promotion(NamedTuple):
    """How the products of a step leave the tensor cores.

    instructions: of CUDA cores by which an element joins its sum. in_step: whether warpgroups add at the same time, so
    that tensor cores wait for all of them.
    """

    instructions: float
    in_step: bool


class Tiles(NamedTuple):
    """Ways to cut a product, an array of each number: tiles, k-blocks, clusters, and parts of k.

    sharers: warpgroups that make a tile together. rows_m, rows_n: what is brought of A and of B for a tile, in rows of
    64 of k; MN-major operands come in panels. swapped: whether the tiles cut the transposed product, so that tile_m
    lies along n. scattered: whether elements of out are stored one by one. by_turns: whether two consumers take tiles
    by turns. by_tma: whether out is stored by TMA. promotion: None where tensor cores add up. finish: instructions
    between a sum and what is stored of it. out_bytes: of out for a sum, half of an element's with a gate, or 0 if
    storing takes no time of its own.
    """

    tile_m: Array
    tile_n: Array
    tile_k: Array
    cluster_m: Array
    cluster_n: Array
    split_k: Array
    sharers: Array
    clusters_at_once: Array
    rows_m: Array
    rows_n: Array
    swapped: "NDArray[np.bool_]"
    scattered: "NDArray[np.bool_]"
    by_turns: "NDArray[np.bool_]"
    by_tma: "NDArray[np.bool_]"
    promotion: Promotion | None = None
    finish: "Array | float" = 0.0
    out_bytes: float = 0.0

    @property
    def ragged(self) -> "NDArray[np.bool_]":
        """Whether the ends of a tile's rows of out halve sectors of 32 bytes, if rows of out begin at sectors."""
        columns: Array = np.where(self.swapped, self.tile_m, self.tile_n)
        return columns * self.out_bytes % 32 > 0
