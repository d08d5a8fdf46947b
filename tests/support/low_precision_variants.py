"""The translation units of generated cases with elements of 1 byte."""

from typing import Any

from support.epilogue_variants import LEAKY, LINEAR, SWIGLU
from support.variant import NO_OVERLAP, Variant
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.wgmma_config import WgmmaConfig

OF_BYTES = MmaConfig(64, 64, 64)
OF_MMA = (
    Variant("mma", OF_BYTES, "int8", "k16", "k16", 8, "int32"),
    Variant("mma", MmaConfig(64, 128, 128, 3), "int8", "mn1", "k4", 4, "int32"),
    Variant("mma", MmaConfig(128, 64, 64), "int8", "k8", "mn1", 4, "bf16", bias="fp32", activation="relu"),
    Variant("mma", OF_BYTES, "int8", "k1", "k16", 4, "fp16", c="fp16"),
    Variant("mma", MmaConfig(128, 128, 64, 4, 2, 4), "int8", "k16", "k1", 8, "fp32", recipe="row"),
    Variant("mma", OF_BYTES, "int8", "mn1", "mn1", 4, "bf16", recipe="tensor", **LINEAR),
    Variant("mma", OF_BYTES, "int8", "k16", "k8", 4, "fp32", recipe="row", zero=True),
    Variant(
        "mma",
        OF_BYTES,
        "int8",
        "mn1",
        "k16",
        4,
        "bf16",
        recipe="tensor",
        zero=True,
        n_multiple=2,
        gate="interleaved",
        outputs=("column_sums",),
        **SWIGLU,
    ),
    Variant("mma", OF_BYTES, "fp8_e4m3", "k16", "k16", 4, "bf16"),
    Variant("mma", OF_BYTES, "fp8_e4m3", "k4", "mn1", 4, "bf16", recipe="row"),
    Variant("mma", MmaConfig(64, 64, 128, 5), "fp8_e5m2", "mn1", "k8", 8, "fp32", c="fp32", activation="gelu"),
    Variant("mma", MmaConfig(32, 64, 64, 4, 1, 2), "fp8_e4m3", "k1", "k16", 4, "fp16", b_dtype="fp8_e5m2"),
    Variant("mma", OF_BYTES, "fp8_e5m2", "k16", "k1", 8, "fp32", b_dtype="fp8_e4m3", recipe="row", **LEAKY),
    Variant(
        "mma",
        MmaConfig(128, 64, 64),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "bf16",
        recipe="row",
        n_multiple=2,
        gate="interleaved",
        **SWIGLU,
    ),
    Variant("mma", OF_BYTES, "fp8_e5m2", "mn1", "mn1", 8, "fp32", recipe="row", n_multiple=2, gate="stacked", **SWIGLU),
    Variant(
        "mma", OF_BYTES, "int8", "k16", "k8", 4, "bf16", recipe="row", epilogue="acc", outputs=("amax", "column_sums")
    ),
)
DIRECT = {"epilogue": "direct", "overlap": False}
OF_WGMMA = (
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3, tile_k=128), "int8", "k16", "k16", 16, "bf16", recipe="row", n_multiple=8
    ),
    Variant("wgmma", WgmmaConfig(128, 64, 3, tile_k=128, **DIRECT), "int8", "k16", "k16", 8, "int32"),
    Variant("wgmma", WgmmaConfig(64, 96, 2, tile_k=256, split_k=2, **DIRECT), "int8", "k16", "k16", 4, "int32"),
    Variant(
        "wgmma",
        WgmmaConfig(192, 48, 3, tile_k=128, cluster_m=2, **DIRECT),
        "int8",
        "k16",
        "k16",
        4,
        "fp32",
        bias="fp32",
    ),
    Variant(
        "wgmma",
        WgmmaConfig(64, 24, 4, tile_k=128, split_k=3, swap_ab=True, **DIRECT),
        "int8",
        "k16",
        "k16",
        2,
        "bf16",
        recipe="row",
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3, tile_k=128), "fp8_e4m3", "k16", "k16", 16, "bf16", recipe="row", n_multiple=8
    ),
    Variant("wgmma", WgmmaConfig(256, 64, 3, tile_k=128), "fp8_e4m3", "k16", "k16", 16, "bf16", n_multiple=8),
    Variant(
        "wgmma",
        WgmmaConfig(128, 80, 3, tile_k=256, **NO_OVERLAP),
        "fp8_e4m3",
        "k16",
        "k16",
        16,
        "bf16",
        recipe="tensor",
        fast_accumulation=True,
        n_multiple=8,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 104, 2, tile_k=128, cluster_n=2, epilogue="direct"),
        "fp8_e5m2",
        "k16",
        "k16",
        2,
        "fp16",
        recipe="row",
        b_dtype="fp8_e4m3",
    ),
    Variant(
        "wgmma",
        WgmmaConfig(64, 40, 3, tile_k=128, swap_ab=True, prefetch=2, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "fp32",
        b_dtype="fp8_e5m2",
        recipe="row",
        **LEAKY,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 32, 2, tile_k=128, split_k=4, **DIRECT),
        "fp8_e5m2",
        "k16",
        "k16",
        4,
        "fp32",
        recipe="row",
        fast_accumulation=True,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(256, 128, 2, tile_k=128),
        "fp8_e4m3",
        "k16",
        "k16",
        16,
        "bf16",
        recipe="row",
        n_multiple=16,
        gate="stacked",
        **SWIGLU,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(192, 64, 2, tile_k=128, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "bf16",
        recipe="row",
        epilogue="acc",
        outputs=("amax", "column_sums"),
    ),
)


def _shifted(config: WgmmaConfig, out_bytes: int, out_dtype: str, **others: Any) -> Variant:
    """A product on `wgmma` whose rows of a have zero points."""
    return Variant("wgmma", config, "int8", "k16", "k16", out_bytes, out_dtype, recipe="row", zero=True, **others)


OF_ZERO_POINTS = (
    _shifted(WgmmaConfig(128, 128, 3, tile_k=128), 16, "bf16", n_multiple=8),
    _shifted(WgmmaConfig(192, 48, 2, tile_k=128, **DIRECT), 4, "fp32"),
    _shifted(WgmmaConfig(64, 96, 2, tile_k=256, split_k=2, **DIRECT), 4, "fp16", n_multiple=2),
    _shifted(WgmmaConfig(64, 24, 4, tile_k=128, swap_ab=True, **DIRECT), 4, "fp32", **LEAKY),
    _shifted(
        WgmmaConfig(128, 64, 2, tile_k=128, **DIRECT), 4, "bf16",
        n_multiple=2, gate="interleaved", outputs=("column_sums",), **SWIGLU,
    ),
    _shifted(
        WgmmaConfig(256, 64, 2, tile_k=128, cluster_m=2, **DIRECT), 4, "fp16",
        n_multiple=2, gate="stacked", outputs=("amax",), **SWIGLU,
    ),
)  # fmt: skip
BY_TILE, BY_COLUMN = "1x128_128x128", "1x128_1x128"
OF_BLOCKS = (
    Variant("mma", OF_BYTES, "fp8_e4m3", "k16", "k16", 8, "fp32", recipe=BY_TILE),
    Variant("mma", MmaConfig(64, 64, 128, 3), "fp8_e4m3", "mn1", "k4", 4, "bf16", b_dtype="fp8_e5m2", recipe=BY_COLUMN),
    Variant(
        "mma",
        MmaConfig(128, 128, 64, 4, 2, 4),
        "fp8_e5m2",
        "k8",
        "mn1",
        4,
        "bf16",
        recipe=BY_TILE,
        n_multiple=2,
        gate="stacked",
        **SWIGLU,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 128, 3, tile_k=128),
        "fp8_e4m3",
        "k16",
        "k16",
        16,
        "bf16",
        recipe=BY_TILE,
        n_multiple=8,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 160, 2, tile_k=128, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "fp32",
        b_dtype="fp8_e5m2",
        recipe=BY_TILE,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 96, 2, tile_k=128), "fp8_e4m3", "k16", "k16", 16, "bf16", recipe=BY_TILE, n_multiple=8
    ),
    Variant(
        "wgmma",
        WgmmaConfig(64, 48, 3, tile_k=128, split_k=2, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "fp32",
        recipe=BY_TILE,
        **LEAKY,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 64, 2, tile_k=128, cluster_n=2, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        2,
        "bf16",
        recipe=BY_TILE,
        n_multiple=256,
        gate="stacked",
        **SWIGLU,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 128, 3, tile_k=128),
        "fp8_e4m3",
        "k16",
        "k16",
        16,
        "bf16",
        recipe=BY_COLUMN,
        n_multiple=8,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 64, 2, tile_k=128, **DIRECT), "fp8_e5m2", "k16", "k16", 4, "fp32", recipe=BY_COLUMN
    ),
    Variant(
        "wgmma",
        WgmmaConfig(192, 48, 2, tile_k=128, cluster_m=2, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "bf16",
        recipe=BY_COLUMN,
        n_multiple=2,
        gate="stacked",
        **SWIGLU,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(64, 32, 3, tile_k=128, split_k=2, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "fp32",
        recipe=BY_COLUMN,
        epilogue="acc",
        outputs=("amax",),
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 160, 2, tile_k=128),
        "fp8_e4m3",
        "k16",
        "k16",
        16,
        "bf16",
        recipe=BY_COLUMN,
        n_multiple=8,
    ),
    Variant(
        "wgmma",
        WgmmaConfig(128, 96, 2, tile_k=128, ping_pong=True, **DIRECT),
        "fp8_e4m3",
        "k16",
        "k16",
        4,
        "fp32",
        recipe=BY_TILE,
    ),
)

LOW_PRECISION = (*OF_MMA, *OF_WGMMA, *OF_ZERO_POINTS, *OF_BLOCKS)
"""Elements of 1 byte, with scales and without."""
