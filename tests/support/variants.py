"""The translation units that generated cases run on: what is compiled in, chosen so that features meet in pairs.

Everything else about a case (shapes, strides within the class, alignment, batches, broadcasting, scalars, data) is
decided at run time and free.
"""

from dataclasses import replace

from support.epilogue_variants import EXPRESSIONS, GATES, OUTPUTS
from support.low_precision_variants import LOW_PRECISION
from support.narrow_variants import NARROW
from support.variant import NO_OVERLAP, SMALL, SQUARE, Variant
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig

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

SPLIT_K = (
    Variant(
        "wgmma", WgmmaConfig(256, 144, 2, split_k=2, prefetch=2, **NO_OVERLAP), "bf16", "k16", "k16", 16, "bf16",
        bias="bf16", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 80, 3, split_k=2, epilogue="direct", overlap=False), "fp16", "mn16", "mn16", 16,
        "fp16", c="fp16", bias="fp32", n_multiple=8, addend_pairs=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 64, 3, split_k=8, epilogue="direct", overlap=False, swap_ab=True, prefetch=1), "bf16",
        "k16", "mn16", 2, "bf16", bias="fp32",
    ),
    Variant(
        "wgmma", WgmmaConfig(192, 48, 2, cluster_m=2, tile_k=128, split_k=3, epilogue="direct", **NO_OVERLAP),
        "fp16", "k16", "k16", 4, "fp32", c="fp16",
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 32, 3, cluster_m=2, cluster_n=2, split_k=2, **NO_OVERLAP), "bf16", "mn16", "k16", 16,
        "bf16", activation="relu", n_multiple=8,
    ),
)  # fmt: skip
"""CTAs that each sum a part of k."""

PING_PONG = (
    Variant(
        "wgmma", WgmmaConfig(192, 40, 3, overlap=False, ping_pong=True), "bf16", "k16", "k16", 16, "bf16",
        bias="bf16", activation="gelu", n_multiple=8, bias_alike=True,
    ),
    Variant(
        "wgmma", WgmmaConfig(192, 64, 3, cluster_m=2, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
        "fp16", "mn16", "k16", 4, "fp32", c="fp16",
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 48, 2, cluster_n=2, epilogue="direct", overlap=False, swap_ab=True, ping_pong=True),
        "bf16", "k16", "mn16", 16, "bf16", n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 64, 4, tile_k=128, epilogue="direct", overlap=False, ping_pong=True), "fp8_e4m3",
        "k16", "k16", 8, "bf16", recipe="row",
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 64, 4, cluster_m=2, tile_k=128, overlap=False, wait_depth=1, ping_pong=True),
        "fp8_e4m3", "k16", "k16", 16, "bf16", n_multiple=8, recipe="row", fast_accumulation=True,
    ),
)  # fmt: skip
"""Two consumers that take tiles by turns."""

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
        "wgmma", WgmmaConfig(256, 16, 4, cluster_m=2, cluster_n=2, epilogue="direct", swap_ab=True, **NO_OVERLAP),
        "bf16", "mn16", "k16", 16, "fp16", bias="fp16", activation="gelu_tanh", n_multiple=8,
    ),
)  # fmt: skip
"""Transposed products, whose tile_m counts columns of out."""

WGMMA = (
    Variant("wgmma", WgmmaConfig(128, 64, 4), "bf16", "k16", "k16", 16, "bf16", n_multiple=8),
    Variant(
        "wgmma", WgmmaConfig(256, 128, 2), "bf16", "k16", "mn16", 16, "bf16",
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
        "wgmma", WgmmaConfig(128, 104, 4, cluster_n=2), "bf16", "mn16", "mn16", 16, "fp16",
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
    Variant("wgmma", WgmmaConfig(128, 24, 4, **NO_OVERLAP), "fp16", "k16", "k16", 16, "fp16", n_multiple=8),
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
        "wgmma", WgmmaConfig(256, 72, 2, tile_k=128, prefetch=64), "bf16", "mn16", "mn16", 16, "fp16",
        bias="fp32", n_multiple=8,
    ),
    *SPLIT_K,
    *PING_PONG,
    *SWAPPED,
)  # fmt: skip

WIDE = SimtConfig(32, 128, 32, 32, 32, 8, 4)
SIMT = (
    Variant("simt", SimtConfig(32, 128, 16, 32, 64), "fp32", "k16", "k16", 16, "fp32"),
    Variant("simt", SimtConfig(), "fp32", "k16", "mn16", 16, "fp32", bias="fp32", activation="gelu"),
    Variant("simt", SQUARE, "fp32", "mn16", "mn16", 8, "fp32", c="fp32", bias="fp32", activation="relu"),
    Variant("simt", SQUARE, "fp32", "mn4", "mn4", 4, "fp32", c="fp32", activation="silu"),
    Variant("simt", SimtConfig(64, 64, 16, 32, 64, split_k=5), "fp32", "k4", "k4", 4, "fp32", bias="fp16"),
    Variant("simt", SQUARE, "fp32", "k16", "mn4", 16, "fp32", c="bf16", activation="gelu_tanh"),
    Variant("simt", SQUARE, "fp32", "mn4", "k16", 4, "bf16", activation="relu"),
    Variant("simt", SimtConfig(256, 128, 16, 64, 64, 16, 8), "fp32", "mn16", "k4", 8, "fp32", bias="bf16"),
    Variant("simt", replace(SQUARE, split_k=3), "fp32", "k16", "k16", 8, "fp16", c="fp16", activation="silu"),
    Variant("simt", replace(WIDE, split_k=8), "fp32", "k4", "mn4", 16, "fp32", c="fp32", activation="gelu"),
    Variant("simt", SimtConfig(32, 64, 16, 16, 64, 8, 4, 1), "fp32", "k16", "k16", 8, "fp32", bias="fp32"),
    Variant("simt", SQUARE, "fp32", "k4", "mn16", 2, "bf16", c="bf16", bias="fp32", activation="gelu_tanh"),
    Variant("simt", SimtConfig(128, 64, 8, 64, 32, 16, 4, 8, 6), "fp32", "mn4", "k4", 16, "fp32"),
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
    Variant("gemv", GemvConfig(16, 64, 1, 2, 1, 2), "fp16", "k16", "mn4", 4, "fp32", c="fp32", n_multiple=2),
    Variant("gemv", GemvConfig(8, 64, 1, 1, 1), "bf16", "mn2", "mn2", 2, "bf16", bias="bf16", activation="relu"),
    Variant("gemv", GemvConfig(16, 64, 1, 1, 1), "fp16", "mn2", "mn2", 2, "fp16", c="fp16", bias="fp32"),
    Variant("gemv", GemvConfig(16, 128, 1, 2, 1, 8), "bf16", "k8", "mn8", 4, "bf16", "bf16", n_multiple=4),
    Variant("gemv", GemvConfig(4, 16, 2, 2, 1, swap_ab=True), "bf16", "k16", "k16", 4, "bf16", c="bf16"),
    Variant("gemv", GemvConfig(8, 16, 1, 1, 2), "bf16", "k0", "k0", 2, "fp32"),
    Variant("gemv", GemvConfig(8, 16, 2, 1, 2), "fp16", "k2", "k16", 2, "fp16", c="fp16"),
    Variant("gemv", GemvConfig(8, 64, 1, 2, 1, 2, swap_ab=True), "fp16", "mn2", "k8", 2, "fp16", bias="fp32"),
    Variant("gemv", GemvConfig(1, 4, 8, 2, 2), "fp32", "k16", "k16", 8, "fp32"),
    Variant("gemv", GemvConfig(3, 8, 4, 1, 1, 2, prefetch=3), "fp32", "k16", "k4", 4, "bf16", c="fp32"),
    Variant("gemv", GemvConfig(16, 16, 2, 3, 1, 4), "fp32", "k8", "k16", 4, "fp32", bias="fp32", activation="gelu"),
    Variant("gemv", GemvConfig(8, 16, 1, 2, 1, swap_ab=True), "fp32", "k4", "k8", 4, "fp32", activation="silu"),
    Variant("gemv", GemvConfig(2, 32, 1, 2, 2, prefetch=2), "fp32", "k16", "mn16", 8, "fp32", n_multiple=4),
    Variant("gemv", GemvConfig(16, 32, 1, 1, 1, 2), "fp32", "mn4", "mn4", 4, "fp32", c="fp32", bias="fp32"),
    Variant("gemv", GemvConfig(5, 64, 1, 2, 1), "fp32", "mn16", "mn8", 4, "fp16", n_multiple=2, activation="relu"),
    Variant("gemv", GemvConfig(8, 16, 2, 1, 2), "fp32", "k0", "k0", 4, "fp32"),
)  # fmt: skip

VARIANTS = (*SIMT, *MMA, *LOW_PRECISION, *NARROW, *WGMMA, *GEMV, *COPY, *EXPRESSIONS, *GATES, *OUTPUTS)
