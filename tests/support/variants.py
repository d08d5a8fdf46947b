"""The translation units that generated cases run on: what is compiled in, chosen so that features meet in pairs.

Everything else about a case (shapes, strides within the class, alignment, batches, broadcasting, scalars, data) is
decided at run time and free.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma_config import WgmmaConfig


@dataclass(frozen=True)
class Variant:
    """One translation unit of one kernel.

    `a` and `b` say which dimension is the contiguous one, "k" or "mn", and how many bytes are aligned along it,
    exactly: "k16". Where that is one element, any strides do. `out_bytes` is the same for rows of out, at least. `c`
    and `bias` are the dtypes of these operands, None without them; with `addend_pairs` two neighbors along a row of
    theirs can be read at once. n is a multiple of `n_multiple`. `epilogue` is an expression; each of `operands` is a
    name, a dtype and a form: "row" (n,), "column" (m, 1), "scalar" () or "full", of any strides. With a `gate`, the
    result has half of n's columns.
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

    @cached_property
    def name(self):
        """What test reports call it."""
        parts = (self.kernel, self.dtype, self.a, self.b, f"{self.out_dtype}.{self.out_bytes}")
        extras = (
            self.c and f"c.{self.c}",
            self.bias and f"bias.{self.bias}",
            self.activation,
            self.gate,
            self.epilogue,
        )
        values = (str(getattr(self.config, field.name)) for field in fields(self.config)[:2])  # of most the tile
        return "-".join([*parts, *filter(None, extras), "x".join(values)]).rstrip("-")

    @property
    def sumless(self):
        """Whether only empty sums are taken."""
        return self.kernel == "copy"

    @property
    def by_tma(self):
        """Whether operands come by TMA, which takes neither zero nor negative strides, nor an empty sum."""
        return self.kernel == "wgmma"

    @property
    def k_block(self):
        """Elements of k that a CTA brings at a time; of `gemv`, all CTAs of a tile."""
        config = self.config
        if self.kernel == "gemv":
            return 32 * config.k_parts * config.warps * config.in_flight * config.split_k
        return getattr(config, "tile_k", 64)

    @property
    def k_before_last(self):
        """Elements of k ahead of the first k-block of the last CTA, where several split k and each needs one."""
        return 0 if self.kernel == "gemv" else (getattr(self.config, "split_k", 1) - 1) * self.k_block

    @property
    def most_k(self):
        """The most elements of k beyond these."""
        return 2 * self.k_block + 40 if self.kernel == "gemv" else 200


SMALL = MmaConfig(tile_m=64, tile_n=64)

MMA = (
    Variant("mma", SMALL, "bf16", "k16", "k16", 4, "bf16"),
    Variant("mma", MmaConfig(), "fp16", "k16", "mn16", 8, "fp32", bias="fp32", activation="gelu"),
    Variant("mma", MmaConfig(64, 64, 64, 3), "bf16", "mn16", "mn16", 4, "bf16", "bf16", "bf16", activation="relu"),
    Variant("mma", SMALL, "fp16", "mn2", "mn2", 2, "fp16", c="fp32", bias="fp16", activation="silu"),
    Variant("mma", SMALL, "bf16", "k2", "k2", 2, "bf16", bias="bf16"),
    Variant("mma", SMALL, "bf16", "k8", "mn4", 4, "bf16", c="bf16", activation="gelu_tanh"),
    Variant("mma", MmaConfig(64, 64, 32, 5), "fp16", "k4", "k8", 4, "fp32", activation="relu"),
    Variant("mma", MmaConfig(128, 256, 32, 3, 2, 4), "bf16", "mn8", "k16", 4, "bf16", bias="fp32"),
    Variant("mma", MmaConfig(32, 64, 32, 4, 1, 2, 1), "fp16", "mn4", "mn8", 4, "bf16", activation="silu"),
    Variant("mma", MmaConfig(64, 128, 64, 3), "bf16", "mn2", "k4", 4, "bf16", c="fp32"),
    Variant("mma", SMALL, "fp16", "k2", "mn2", 2, "fp16", c="fp16", activation="gelu"),
    Variant("mma", SMALL, "bf16", "mn2", "k2", 8, "fp32", "fp32", "bf16", activation="gelu_tanh"),
    Variant("mma", MmaConfig(128, 64, 32, 4), "fp16", "k16", "k16", 4, "fp16", "fp16", "fp32"),
)

NO_OVERLAP = {"overlap": False, "wait_depth": 1}

SPLIT_K = (
    Variant(
        "wgmma", WgmmaConfig(128, 64, 2, split_k=2, prefetch=2, **NO_OVERLAP), "bf16", "k16", "k16", 16, "bf16",
        bias="bf16", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 32, 2, split_k=4, epilogue="direct", overlap=False), "fp16", "mn16", "k16", 4, "fp32",
        c="fp16", activation="gelu",
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 80, 3, split_k=2, epilogue="direct", overlap=False), "fp16", "mn16", "mn16", 16,
        "fp16", c="fp16", bias="fp32", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(192, 64, 2, split_k=4, overlap=False, tile_k=128), "bf16", "k16", "mn16", 16, "bf16",
        c="bf16", activation="silu", n_multiple=8, addend_pairs=True,
    ),
)  # fmt: skip
"""CTAs that each sum a part of k."""

SWAPPED = (
    Variant(
        "wgmma", WgmmaConfig(64, 64, 3, epilogue="direct", swap_ab=True), "bf16", "k16", "k16", 16, "bf16",
        bias="bf16", activation="gelu", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 24, 2, cluster_m=2, epilogue="direct", tile_k=128, swap_ab=True),
        "fp16", "mn16", "k16", 16, "fp16", c="fp16", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 32, 3, cluster_n=4, epilogue="direct", overlap=False, swap_ab=True),
        "bf16", "mn16", "mn16", 4, "fp32", c="fp32", bias="bf16", activation="silu",
    ),
    Variant(
        "wgmma", WgmmaConfig(192, 40, 3, epilogue="direct", swap_ab=True, prefetch=3), "bf16", "k16", "mn16", 2, "bf16",
        c="bf16", bias="fp32", activation="relu",
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 80, 2, split_k=2, epilogue="direct", overlap=False, swap_ab=True),
        "fp16", "k16", "mn16", 4, "bf16", c="bf16", n_multiple=2,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 16, 4, cluster_m=2, cluster_n=2, epilogue="direct", swap_ab=True, **NO_OVERLAP),
        "bf16", "mn16", "k16", 16, "fp16", bias="fp16", activation="gelu_tanh", n_multiple=8,
    ),
)  # fmt: skip
"""Transposed products, whose tile_m counts columns of out."""

WGMMA = (
    Variant("wgmma", WgmmaConfig(128, 64, 4), "bf16", "k16", "k16", 16, "bf16", n_multiple=8),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3), "bf16", "k16", "mn16", 16, "bf16",
        bias="bf16", activation="gelu", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 64, 3), "fp16", "mn16", "mn16", 16, "fp16",
        c="fp16", bias="fp16", activation="relu", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 2, wait_depth=1), "fp16", "mn16", "k16", 16, "bf16",
        c="fp32", activation="silu", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 256, 4, cluster_m=2), "bf16", "k16", "k16", 16, "bf16",
        bias="fp32", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 112, 4, cluster_n=2), "bf16", "mn16", "mn16", 16, "fp16",
        activation="gelu_tanh", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 48, 3, cluster_m=2, cluster_n=2, group_m=1), "fp16", "k16", "mn16", 16, "fp16",
        c="fp16", bias="fp32", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3, epilogue="direct", overlap=False), "bf16", "k16", "k16", 8, "fp32",
        c="bf16", n_multiple=2, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 104, 3, epilogue="direct", **NO_OVERLAP), "bf16", "mn16", "k16", 2, "bf16",
        c="bf16", bias="bf16", activation="gelu",
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 64, 3, cluster_m=2, epilogue="direct"), "fp16", "k16", "mn16", 4, "fp16",
        activation="relu", n_multiple=2,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 48, 3, wait_depth=1, epilogue="direct"), "fp16", "mn16", "k16", 16, "fp16",
        c="fp16", bias="fp16", activation="gelu", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 32, 4, cluster_m=2, epilogue="direct", overlap=False), "bf16", "mn16", "mn16", 4,
        "fp32", c="fp32", bias="bf16", activation="silu",
    ),
    Variant("wgmma", WgmmaConfig(128, 64, 4, **NO_OVERLAP), "fp16", "k16", "k16", 16, "fp16", n_multiple=8),
    Variant(
        "wgmma", WgmmaConfig(192, 96, 2, cluster_n=2, prefetch=4), "fp16", "mn16", "k16", 16, "fp16",
        c="fp16", activation="relu", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 256, 3, cluster_n=4), "bf16", "k16", "k16", 16, "bf16",
        bias="bf16", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 104, 3, cluster_m=4, epilogue="direct"), "bf16", "k16", "mn16", 4, "bf16",
        c="bf16", activation="silu", n_multiple=2, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 24, 2, cluster_n=4, epilogue="direct", tile_k=256, prefetch=1),
        "fp16", "mn16", "mn16", 2, "bf16", activation="gelu_tanh",
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 64, 2, overlap=False, tile_k=128, prefetch=64), "bf16", "mn16", "mn16", 16, "fp16",
        bias="fp32", n_multiple=8,
    ),
    *SPLIT_K,
    *SWAPPED,
)  # fmt: skip

SQUARE = SimtConfig(64, 64, 16, 32, 32, 8, 4)

SIMT = (
    Variant("simt", SQUARE, "fp32", "k16", "k16", 8, "fp32"),
    Variant("simt", SimtConfig(), "fp32", "k16", "mn16", 8, "fp32", bias="fp32", activation="gelu"),
    Variant("simt", SQUARE, "fp32", "mn16", "mn16", 8, "fp32", c="fp32", bias="fp32", activation="relu"),
    Variant("simt", SQUARE, "fp32", "mn4", "mn4", 4, "fp32", c="fp32", activation="silu"),
    Variant("simt", SQUARE, "fp32", "k4", "k4", 4, "fp32", bias="fp16"),
    Variant("simt", SQUARE, "fp32", "k16", "mn4", 8, "fp32", c="bf16", activation="gelu_tanh"),
    Variant("simt", SQUARE, "fp32", "mn4", "k16", 4, "bf16", activation="relu"),
    Variant("simt", SimtConfig(256, 128, 16, 64, 64, 16, 8), "fp32", "mn16", "k4", 8, "fp32", bias="bf16"),
    Variant("simt", SimtConfig(64, 64, 8, 32, 32, 8, 4), "fp32", "k16", "k16", 4, "fp16", c="fp16", activation="silu"),
    Variant("simt", SimtConfig(64, 64, 32, 32, 32, 8, 4), "fp32", "k4", "mn4", 4, "fp32", c="fp32", activation="gelu"),
    Variant("simt", SimtConfig(128, 64, 16, 32, 32, 8, 4, 1), "fp32", "mn16", "k16", 8, "fp32", bias="fp32"),
    Variant("simt", SQUARE, "fp32", "k4", "mn16", 2, "bf16", c="bf16", bias="fp32", activation="gelu_tanh"),
    Variant("simt", SimtConfig(32, 32, 8, 32, 32, 8, 4), "fp32", "mn4", "k4", 8, "fp32"),
)

COPY = (
    Variant("copy", CopyConfig(), "bf16", "k16", "k16", 4, "bf16", c="bf16", addend_pairs=True),
    Variant("copy", CopyConfig(64, 64), "fp16", "k2", "k2", 2, "fp16", c="fp16", bias="fp32", activation="gelu"),
    Variant("copy", CopyConfig(8, 64), "fp32", "k4", "k4", 8, "fp32", "fp16", "bf16", "relu", addend_pairs=True),
    Variant("copy", CopyConfig(16, 192), "bf16", "k2", "k2", 4, "fp32", bias="bf16", activation="silu"),
)
"""Products without a sum."""

GEMV = (
    Variant("gemv", GemvConfig(1, 8, 8, 2, 1), "bf16", "k16", "k16", 4, "bf16"),
    Variant(
        "gemv", GemvConfig(2, 16, 4, 1, 2, prefetch=3), "fp16", "k16", "k16", 8, "fp32", bias="fp32", activation="gelu",
    ),
    Variant("gemv", GemvConfig(4, 16, 2, 2, 2, 2), "bf16", "k8", "k16", 4, "bf16", c="bf16", activation="silu"),
    Variant(
        "gemv", GemvConfig(8, 24, 2, 4, 1, 4), "fp16", "k16", "k8", 2, "fp16", "fp32", "fp16", "relu",
    ),
    Variant("gemv", GemvConfig(16, 32, 2, 3, 1), "bf16", "k4", "k4", 4, "fp32", bias="bf16", activation="gelu_tanh"),
    Variant("gemv", GemvConfig(1, 2, 8, 1, 1), "fp16", "k2", "k2", 2, "bf16", c="fp16"),
    Variant("gemv", GemvConfig(8, 32, 1, 2, 2), "bf16", "mn16", "k16", 4, "bf16"),
    Variant("gemv", GemvConfig(4, 8, 4, 1, 3, 8), "fp16", "k16", "k16", 4, "fp16", activation="silu"),
    Variant("gemv", GemvConfig(8, 64, 1, 4, 1, prefetch=2), "bf16", "k16", "mn16", 4, "bf16", n_multiple=8),
    Variant("gemv", GemvConfig(16, 64, 1, 2, 2, 2), "fp16", "k16", "mn4", 4, "fp32", c="fp32", n_multiple=2),
    Variant("gemv", GemvConfig(8, 128, 1, 1, 1), "bf16", "mn2", "mn2", 2, "bf16", bias="bf16", activation="relu"),
    Variant("gemv", GemvConfig(16, 64, 1, 1, 2), "fp16", "mn2", "mn2", 2, "fp16", c="fp16", bias="fp32"),
    Variant("gemv", GemvConfig(16, 128, 1, 2, 1, 8), "bf16", "k8", "mn8", 4, "bf16", "bf16", n_multiple=4),
    Variant("gemv", GemvConfig(4, 16, 2, 2, 1, swap_ab=True), "bf16", "k16", "k16", 4, "bf16", c="bf16"),
    Variant("gemv", GemvConfig(8, 64, 1, 2, 1, 2, swap_ab=True), "fp16", "mn2", "k8", 2, "fp16", bias="fp32"),
)  # fmt: skip

LEAKY = {
    "epilogue": "where(acc > low, acc, acc * 0.125) / (1 + abs(other))",
    "operands": (("low", "bf16", "scalar"), ("other", "fp32", "full")),
}
GATED = {
    "epilogue": "silu(acc * scale) * gate - tanh(gate)",
    "operands": (("scale", "fp32", "column"), ("gate", "fp16", "full")),
}
LINEAR = {
    "epilogue": "gelu(acc + bias) * scale",
    "operands": (("bias", "bf16", "row"), ("scale", "fp32", "column")),
}
CURVES = {
    "epilogue": "exp(-abs(acc)) + erf(acc) * sigmoid(row) + sqrt(log(2 + abs(acc))) * max(row, min(acc, 0), column)",
    "operands": (("row", "fp32", "row"), ("column", "bf16", "column")),
}

EXPRESSIONS = (
    Variant("simt", SQUARE, "fp32", "k16", "mn16", 8, "fp32", **LINEAR),
    Variant("simt", SimtConfig(), "fp32", "mn4", "k4", 4, "bf16", **LEAKY),
    Variant("simt", SQUARE, "fp32", "k4", "mn16", 8, "fp32", **CURVES),
    Variant("mma", SMALL, "bf16", "k16", "k16", 4, "bf16", **LINEAR),
    Variant("mma", MmaConfig(), "fp16", "k2", "mn2", 2, "fp16", **GATED),
    Variant("mma", SMALL, "bf16", "mn16", "mn4", 8, "fp32", **CURVES),
    Variant("wgmma", WgmmaConfig(128, 64, 4), "bf16", "k16", "k16", 16, "bf16", n_multiple=8, **LINEAR),
    Variant("wgmma", WgmmaConfig(128, 128, 3, cluster_m=2), "fp16", "mn16", "mn16", 16, "fp16", n_multiple=8, **GATED),
    Variant(
        "wgmma", WgmmaConfig(128, 48, 3, epilogue="direct", **NO_OVERLAP), "bf16", "k16", "mn16", 8, "fp32",
        n_multiple=2, **CURVES,
    ),
    Variant("wgmma", WgmmaConfig(64, 80, 3, epilogue="direct"), "bf16", "mn16", "k16", 2, "bf16", **LEAKY),
    Variant(
        "wgmma", WgmmaConfig(64, 64, 3, epilogue="direct", swap_ab=True), "bf16", "k16", "k16", 16, "bf16",
        n_multiple=8, **LINEAR,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 32, 2, split_k=4, epilogue="direct", overlap=False), "fp16", "mn16", "k16", 4, "fp32",
        **GATED,
    ),
    Variant("gemv", GemvConfig(2, 8, 4, 2, 1), "bf16", "k16", "k16", 4, "bf16", **LINEAR),
    Variant("gemv", GemvConfig(8, 64, 1, 2, 1, 2), "fp16", "k16", "mn2", 4, "fp32", **GATED),
    Variant("gemv", GemvConfig(4, 16, 2, 1, 1, swap_ab=True), "bf16", "k2", "k4", 2, "bf16", **CURVES),
    Variant("copy", CopyConfig(), "bf16", "k16", "k16", 4, "bf16", **LINEAR),
    Variant("copy", CopyConfig(64, 64), "fp16", "k2", "k2", 4, "fp32", **LEAKY),
)  # fmt: skip
"""Epilogues of users' own."""

SWIGLU = {
    "epilogue": "silu(x + bias) * y",
    "operands": (("bias", "fp32", "row"),),
}
SCALED = {
    "epilogue": "gelu_tanh(x * scale) * (y * scale) + residual",
    "operands": (("scale", "fp32", "column"), ("residual", "bf16", "full")),
}

GATES = (
    Variant("simt", SQUARE, "fp32", "k16", "mn16", 8, "fp32", n_multiple=2, gate="interleaved", **SWIGLU),
    Variant("simt", SQUARE, "fp32", "k4", "k4", 4, "bf16", n_multiple=2, gate="stacked", **SCALED),
    Variant("mma", SMALL, "bf16", "k16", "k16", 4, "bf16", n_multiple=2, gate="stacked", **SWIGLU),
    Variant("mma", MmaConfig(), "fp16", "mn2", "mn2", 2, "fp16", n_multiple=2, gate="interleaved", **SCALED),
    Variant("mma", SMALL, "bf16", "k2", "k2", 8, "fp32", n_multiple=2, gate="stacked", **SCALED),
    Variant(
        "gemv", GemvConfig(4, 16, 2, 2, 1, 2), "bf16", "k16", "k16", 4, "bf16", n_multiple=2, gate="stacked", **SWIGLU,
    ),
    Variant("gemv", GemvConfig(1, 8, 8, 1, 1), "fp16", "k16", "k8", 2, "fp16", n_multiple=2, gate="stacked", **SCALED),
    Variant(
        "gemv", GemvConfig(8, 64, 1, 2, 1), "bf16", "k2", "mn4", 4, "fp32", n_multiple=2, gate="interleaved", **SWIGLU,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3), "bf16", "k16", "k16", 16, "bf16", n_multiple=16, gate="stacked", **SWIGLU
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3, cluster_m=2), "fp16", "mn16", "mn16", 16, "fp16", n_multiple=16,
        gate="interleaved", **SCALED,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 80, 3, cluster_n=2, epilogue="direct"), "bf16", "mn16", "k16", 16, "bf16",
        n_multiple=16, gate="interleaved", **SCALED,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 48, 3, cluster_m=2, epilogue="direct", overlap=False, prefetch=2), "fp16", "k16",
        "k16", 4, "fp32", n_multiple=2, gate="stacked", **SWIGLU,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 96, 3, epilogue="direct"), "bf16", "k16", "k16", 2, "bf16", n_multiple=2,
        gate="stacked", **SCALED,
    ),
)  # fmt: skip
"""Epilogues that make one column of two."""

VARIANTS = (*SIMT, *MMA, *WGMMA, *GEMV, *COPY, *EXPRESSIONS, *GATES)
