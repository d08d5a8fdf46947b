"""The translation units of generated cases with an out of fp8."""

from support.epilogue_variants import LEAKY, SWIGLU
from support.variant import SMALL, SQUARE, Variant
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.wgmma.config import WgmmaConfig

SCALED = {"recipe": "row", "out_scaled": True}
NARROW_K = WgmmaConfig(128, 72, 3, epilogue="direct", overlap=False)
BYTES = {"tile_k": 128, "epilogue": "direct", "overlap": False}
SQUARE_K = WgmmaConfig(128, 128, 3, tile_k=128, epilogue="direct", overlap=True, wait_depth=0)
WIDE = WgmmaConfig(64, 208, 2, **BYTES)
SPLIT = WgmmaConfig(64, 64, 2, split_k=2, swap_ab=True, **BYTES)
NARROW = (
    Variant("mma", SMALL, "bf16", "k16", "k16", 2, "fp8_e5m2", bias="bf16", activation="gelu"),
    Variant("mma", MmaConfig(64, 64, 64), "fp8_e4m3", "k16", "k16", 1, "fp8_e4m3", **SCALED),
    Variant("simt", SQUARE, "fp32", "k4", "k4", 2, "fp8_e4m3", out_scaled=True, **LEAKY),
    Variant("gemv", GemvConfig(4, 16, 2, 2, 2, 2), "bf16", "k16", "k16", 2, "fp8_e4m3", out_scaled=True),
    Variant("copy", CopyConfig(16, 64), "fp32", "k4", "k4", 1, "fp8_e5m2", c="bf16"),
    Variant("wgmma", NARROW_K, "bf16", "k16", "mn16", 16, "fp8_e4m3", c="bf16", n_multiple=16),
    Variant("wgmma", SQUARE_K, "fp8_e4m3", "k16", "k16", 16, "fp8_e4m3", n_multiple=16, **SCALED),
    Variant("wgmma", WIDE, "fp8_e5m2", "k16", "k16", 16, "fp8_e5m2", bias="fp32", n_multiple=16),
    Variant("wgmma", SPLIT, "fp8_e4m3", "k16", "k16", 1, "fp8_e4m3", fast_accumulation=True, **SCALED),
    Variant(
        "wgmma", WgmmaConfig(256, 128, 2, **BYTES), "fp8_e4m3", "k16", "k16", 16, "fp8_e4m3", n_multiple=32,
        gate="stacked", **SCALED, **SWIGLU,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 2, **BYTES), "fp8_e4m3", "k16", "k16", 2, "fp8_e5m2", n_multiple=4,
        gate="interleaved", **SCALED, **SWIGLU,
    ),
)  # fmt: skip
"""Stores of 1, 2 and 16 bytes, with scales of the results and without."""
