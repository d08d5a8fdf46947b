"""The translation units of generated cases with elements of 1 byte."""

from support.epilogue_variants import LEAKY, LINEAR, SWIGLU
from support.variant import Variant
from tilewright.kernels.mma import MmaConfig

OF_BYTES = MmaConfig(64, 64, 64)
LOW_PRECISION = (
    Variant("mma", OF_BYTES, "int8", "k16", "k16", 8, "int32"),
    Variant("mma", MmaConfig(64, 128, 128, 3), "int8", "mn1", "k4", 4, "int32"),
    Variant("mma", MmaConfig(128, 64, 64), "int8", "k8", "mn1", 4, "bf16", bias="fp32", activation="relu"),
    Variant("mma", OF_BYTES, "int8", "k1", "k16", 4, "fp16", c="fp16"),
    Variant("mma", MmaConfig(128, 128, 64, 4, 2, 4), "int8", "k16", "k1", 8, "fp32", recipe="row"),
    Variant("mma", OF_BYTES, "int8", "mn1", "mn1", 4, "bf16", recipe="tensor", **LINEAR),
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
"""Elements of 1 byte, with scales and without."""
