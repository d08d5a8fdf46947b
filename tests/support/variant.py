"""A translation unit that generated cases run on, and Configs that several have."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from tilewright.expression.tree import GIVEN, OUT_SCALE, SCALES, ZERO
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig


@dataclass(frozen=True)
class Variant:
    """One translation unit of one kernel.

    `a` and `b` say which dimension is the contiguous one, "k" or "mn", and how many bytes are aligned along it,
    exactly: "k16". Where that is one element, any strides do, unless the kernel's units are `of_neighbors`; of those,
    "k0" has no contiguous dimension, but shorter strides along k. `out_bytes` is the same for rows of out, at least.
    `c` and `bias` are the dtypes of these operands, None without them; with `addend_pairs` two neighbors along a row of
    theirs can be read at once. n is a multiple of `n_multiple`. `epilogue` is an expression; each of `operands` is a
    name, a dtype and a form: "row" (n,), "column" (m, 1), "scalar" () or "full", of any strides. With a `gate`, the
    result has half of n's columns. `outputs` are written besides it. b is of `b_dtype` if it is not of a's. `recipe`
    says what scales of a and b are for; with `zero`, rows of a have zero points; with `out_scaled`, results have a
    scale. With `fast_accumulation`, sums of fp8 stay in tensor cores. With `bias_alike`, all rows have one bias.
    """

    kernel: str
    config: Any
    dtype: str
    a: str
    b: str
    out_bytes: int
    out_dtype: str
    c: str | None = None
    bias: str | None = None
    activation: str | None = None
    n_multiple: int = 1
    addend_pairs: bool = False
    epilogue: str | None = None
    operands: tuple[tuple[str, str, str], ...] = ()
    gate: str | None = None
    outputs: tuple[str, ...] = ()
    b_dtype: str | None = None
    recipe: str | None = None
    zero: bool = False
    out_scaled: bool = False
    fast_accumulation: bool = False
    bias_alike: bool = False

    @cached_property
    def name(self):
        """What test reports call it."""
        parts = (self.kernel, self.dtype, self.a, self.b, f"{self.out_dtype}.{self.out_bytes}")
        extras = (
            self.c and f"c.{self.c}",
            self.bias and f"bias.{self.bias}",
            self.activation,
            self.gate,
            self.b_dtype,
            self.recipe,
            "zero" if self.zero else None,
            "scaled" if self.out_scaled else None,
            "fast" if self.fast_accumulation else None,
            "alike" if self.bias_alike else None,
            self.epilogue,
            *self.outputs,
        )
        values = (str(getattr(self.config, field.name)) for field in fields(self.config)[:2])  # of most the tile
        return "-".join([*parts, *filter(None, extras), "x".join(values)]).rstrip("-")

    @property
    def sumless(self):
        """Whether only empty sums are taken."""
        return self.kernel == "copy"

    @property
    def hidden(self):
        """The scales and zero points that a call has, by name, in their order."""
        there = dict.fromkeys(SCALES, self.recipe is not None) | {ZERO: self.zero, OUT_SCALE: self.out_scaled}
        return tuple(name for name in GIVEN if there[name])

    @property
    def may_add(self):
        """Whether a c of out's type may be given, although none is compiled in."""
        return self.out_dtype in ("bf16", "fp16", "fp32") and self.epilogue is None and not self.hidden

    @property
    def scales_blocks(self):
        """Whether scales change along k."""
        return self.recipe is not None and self.recipe.startswith("1x128")

    @property
    def by_tma(self):
        """Whether operands come by TMA, which takes neither zero nor negative strides, nor an empty sum."""
        return self.kernel == "wgmma"

    @property
    def of_neighbors(self):
        """Whether operands whose neighbors along a dimension are no neighbors in memory take another unit."""
        return self.kernel == "gemv"

    @property
    def k_block(self):
        """Elements of k that a CTA brings at a time; of `gemv`, all CTAs of a tile."""
        config = self.config
        if self.kernel == "gemv":
            step = (16 if self.dtype == "fp32" else 32) * config.k_parts
            return step * config.warps * config.in_flight * config.split_k
        return getattr(config, "tile_k", 64)

    @property
    def k_before_last(self):
        """Elements of k ahead of the first k-block of the last CTA, where several split k and each needs one."""
        return 0 if self.kernel == "gemv" else (getattr(self.config, "split_k", 1) - 1) * self.k_block

    @property
    def most_k(self):
        """The most elements of k beyond these."""
        return 2 * self.k_block + 40 if self.kernel == "gemv" or self.scales_blocks else 200


SMALL = MmaConfig(tile_m=64, tile_n=64)
SQUARE = SimtConfig(64, 64, 16, 32, 32, 8, 4)
NO_OVERLAP = {"overlap": False, "wait_depth": 1}
