"""The translation units of generated cases with elements of 1 byte."""

from support.epilogue_variants import LEAKY, LINEAR, SWIGLU
from support.variant import NO_OVERLAP, Variant
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.wgmma.config import WgmmaConfig


def _on_wgmma(config, dtype, out_bytes, out_dtype, **options):
    """What `wgmma` takes: both operands K-major, and whole boxes of TMA where rows of out are aligned for it."""
    options = {"n_multiple": 8 if out_bytes == 16 else 1} | options
    return Variant("wgmma", config, dtype, "k16", "k16", out_bytes, out_dtype, **options)


def _staged(tile_m, tile_n, stages, tile_k=128, **options):
    return WgmmaConfig(tile_m, tile_n, stages, tile_k=tile_k, **options)


def _direct(tile_m, tile_n, stages, tile_k=128, **options):
    return _staged(tile_m, tile_n, stages, tile_k, epilogue="direct", overlap=False, **options)


E4M3, E5M2 = "fp8_e4m3", "fp8_e5m2"
OF_BYTES, OF_TALL = MmaConfig(64, 64, 64), MmaConfig(128, 64, 64)
OF_EIGHT_WARPS = MmaConfig(128, 128, 64, 4, 2, 4)
OF_ROWS, OF_TENSOR = {"recipe": "row"}, {"recipe": "tensor"}
OF_TILES, OF_COLUMNS = {"recipe": "1x128_128x128"}, {"recipe": "1x128_1x128"}
STACKED = {"n_multiple": 2, "gate": "stacked", **SWIGLU}
INTERLEAVED = {"n_multiple": 2, "gate": "interleaved", **SWIGLU}
BOTH = {"epilogue": "acc", "outputs": ("amax", "column_sums")}

OF_MMA = (
    Variant("mma", OF_BYTES, "int8", "k16", "k16", 8, "int32"),
    Variant("mma", MmaConfig(64, 128, 128, 3), "int8", "mn1", "k4", 4, "int32"),
    Variant("mma", OF_TALL, "int8", "k8", "mn1", 4, "bf16", bias="fp32", activation="relu"),
    Variant("mma", OF_BYTES, "int8", "k1", "k16", 4, "fp16", c="fp16"),
    Variant("mma", OF_EIGHT_WARPS, "int8", "k16", "k1", 8, "fp32", **OF_ROWS),
    Variant("mma", OF_BYTES, "int8", "mn1", "mn1", 4, "bf16", **OF_TENSOR, **LINEAR),
    Variant("mma", OF_BYTES, "int8", "k16", "k8", 4, "fp32", **OF_ROWS, zero=True),
    Variant(
        "mma", OF_BYTES, "int8", "mn1", "k16", 4, "bf16", **OF_TENSOR, zero=True, **INTERLEAVED,
        outputs=("column_sums",),
    ),
    Variant("mma", OF_BYTES, E4M3, "k16", "k16", 4, "bf16"),
    Variant("mma", OF_BYTES, E4M3, "k4", "mn1", 4, "bf16", **OF_ROWS),
    Variant("mma", MmaConfig(64, 64, 128, 5), E5M2, "mn1", "k8", 8, "fp32", c="fp32", activation="gelu"),
    Variant("mma", MmaConfig(32, 64, 64, 4, 1, 2), E4M3, "k1", "k16", 4, "fp16", b_dtype=E5M2),
    Variant("mma", OF_BYTES, E5M2, "k16", "k1", 8, "fp32", b_dtype=E4M3, **OF_ROWS, **LEAKY),
    Variant("mma", OF_TALL, E4M3, "k16", "k16", 4, "bf16", **OF_ROWS, **INTERLEAVED),
    Variant("mma", OF_BYTES, E5M2, "mn1", "mn1", 8, "fp32", **OF_ROWS, **STACKED),
    Variant("mma", OF_BYTES, "int8", "k16", "k8", 4, "bf16", **OF_ROWS, **BOTH),
)  # fmt: skip
OF_WGMMA = (
    _on_wgmma(_staged(128, 128, 3), "int8", 16, "bf16", **OF_ROWS),
    _on_wgmma(_direct(128, 64, 3), "int8", 8, "int32"),
    _on_wgmma(_direct(64, 96, 2, 256, split_k=2), "int8", 4, "int32"),
    _on_wgmma(_direct(192, 48, 3, cluster_m=2), "int8", 4, "fp32", bias="fp32"),
    _on_wgmma(_direct(64, 24, 4, split_k=3, swap_ab=True), "int8", 2, "bf16", **OF_ROWS),
    _on_wgmma(_staged(128, 128, 3), E4M3, 16, "bf16", **OF_ROWS),
    _on_wgmma(_staged(256, 64, 3), E4M3, 16, "bf16"),
    _on_wgmma(_staged(128, 80, 3, 256, **NO_OVERLAP), E4M3, 16, "bf16", **OF_TENSOR, fast_accumulation=True),
    _on_wgmma(_staged(128, 104, 2, cluster_n=2, epilogue="direct"), E5M2, 2, "fp16", **OF_ROWS, b_dtype=E4M3),
    _on_wgmma(_direct(64, 40, 3, swap_ab=True, prefetch=2), E4M3, 4, "fp32", b_dtype=E5M2, **OF_ROWS, **LEAKY),
    _on_wgmma(_direct(128, 32, 2, split_k=4), E5M2, 4, "fp32", **OF_ROWS, fast_accumulation=True),
    _on_wgmma(_staged(256, 128, 2), E4M3, 16, "bf16", **OF_ROWS, **STACKED | {"n_multiple": 16}),
    _on_wgmma(_direct(192, 64, 2), E4M3, 4, "bf16", **OF_ROWS, **BOTH),
)
SHIFTED = {"recipe": "row", "zero": True}
OF_ZERO_POINTS = (
    _on_wgmma(_staged(128, 128, 3), "int8", 16, "bf16", **SHIFTED),
    _on_wgmma(_direct(192, 48, 2), "int8", 4, "fp32", **SHIFTED),
    _on_wgmma(_direct(64, 96, 2, 256, split_k=2), "int8", 4, "fp16", **SHIFTED | {"n_multiple": 2}),
    _on_wgmma(_direct(64, 24, 4, swap_ab=True), "int8", 4, "fp32", **SHIFTED, **LEAKY),
    _on_wgmma(_direct(128, 64, 2), "int8", 4, "bf16", **SHIFTED, **INTERLEAVED, outputs=("column_sums",)),
    _on_wgmma(_direct(256, 64, 2, cluster_m=2), "int8", 4, "fp16", **SHIFTED, **STACKED, outputs=("amax",)),
)
OF_BLOCKS = (
    Variant("mma", OF_BYTES, E4M3, "k16", "k16", 8, "fp32", **OF_TILES),
    Variant("mma", MmaConfig(64, 64, 128, 3), E4M3, "mn1", "k4", 4, "bf16", b_dtype=E5M2, **OF_COLUMNS),
    Variant("mma", OF_EIGHT_WARPS, E5M2, "k8", "mn1", 4, "bf16", **OF_TILES, **STACKED),
    _on_wgmma(_staged(128, 128, 3), E4M3, 16, "bf16", **OF_TILES),
    _on_wgmma(_direct(128, 160, 2), E4M3, 4, "fp32", b_dtype=E5M2, **OF_TILES),
    _on_wgmma(_staged(256, 96, 2), E4M3, 16, "bf16", **OF_TILES),
    _on_wgmma(_direct(64, 48, 3, cluster_n=2, split_k=2), E4M3, 4, "fp32", **OF_TILES, **LEAKY),
    _on_wgmma(_direct(128, 64, 2, cluster_n=2), E4M3, 2, "bf16", **OF_TILES, **STACKED | {"n_multiple": 256}),
    _on_wgmma(_staged(128, 128, 3), E4M3, 16, "bf16", **OF_COLUMNS),
    _on_wgmma(_direct(256, 64, 2), E5M2, 4, "fp32", **OF_COLUMNS),
    _on_wgmma(_direct(192, 48, 2, cluster_m=2), E4M3, 4, "bf16", **OF_COLUMNS, **STACKED),
    _on_wgmma(_direct(64, 32, 3, split_k=2), E4M3, 4, "fp32", **OF_COLUMNS, epilogue="acc", outputs=("amax",)),
    _on_wgmma(_staged(128, 160, 2), E4M3, 16, "bf16", **OF_COLUMNS),
    _on_wgmma(_direct(128, 96, 2, ping_pong=True), E4M3, 4, "fp32", **OF_TILES),
)

LOW_PRECISION = (*OF_MMA, *OF_WGMMA, *OF_ZERO_POINTS, *OF_BLOCKS)
"""Elements of 1 byte, with scales and without."""
