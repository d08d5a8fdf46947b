"""The translation units of generated cases whose epilogue is an expression."""

from dataclasses import replace

from support.variant import NO_OVERLAP, SMALL, SQUARE, Variant
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig

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
    Variant("simt", SQUARE, "fp32", "k16", "mn16", 16, "fp32", **LINEAR),
    Variant("simt", SimtConfig(), "fp32", "mn4", "k4", 8, "bf16", **LEAKY),
    Variant("simt", SQUARE, "fp32", "k4", "mn16", 16, "fp32", **CURVES),
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
    Variant("gemv", GemvConfig(7, 16, 4, 1, 1, 2), "fp32", "k16", "k16", 4, "bf16", **GATED),
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
    Variant("simt", replace(SQUARE, split_k=4), "fp32", "k4", "k4", 4, "bf16", n_multiple=2, gate="stacked", **SCALED),
    Variant("mma", SMALL, "bf16", "k16", "k16", 4, "bf16", n_multiple=2, gate="stacked", **SWIGLU),
    Variant("mma", MmaConfig(), "fp16", "mn2", "mn2", 2, "fp16", n_multiple=2, gate="interleaved", **SCALED),
    Variant("mma", SMALL, "bf16", "k2", "k2", 8, "fp32", n_multiple=2, gate="stacked", **SCALED),
    Variant(
        "gemv", GemvConfig(4, 16, 2, 2, 1, 2), "bf16", "k16", "k16", 4, "bf16", n_multiple=2, gate="stacked", **SWIGLU,
    ),
    Variant("gemv", GemvConfig(1, 8, 8, 1, 1), "fp16", "k16", "k8", 2, "fp16", n_multiple=2, gate="stacked", **SCALED),
    Variant("gemv", GemvConfig(4, 8, 2, 1, 2), "bf16", "k16", "k2", 2, "fp16", n_multiple=2, gate="stacked", **SWIGLU),
    Variant("gemv", GemvConfig(4, 8, 8, 1, 1), "fp32", "k16", "k4", 4, "fp32", n_multiple=2, gate="stacked", **SWIGLU),
    Variant("gemv", GemvConfig(6, 8, 2, 1, 2), "fp32", "k4", "k16", 4, "bf16", n_multiple=2, gate="stacked", **SCALED),
    Variant(
        "gemv", GemvConfig(8, 64, 1, 2, 1), "bf16", "k2", "mn4", 4, "fp32", n_multiple=2, gate="interleaved", **SWIGLU,
    ),
    Variant("simt", SQUARE, "fp32", "k16", "mn16", 8, "fp32", n_multiple=2, gate="stacked", **SWIGLU),
    Variant("mma", MmaConfig(), "bf16", "k16", "mn8", 4, "bf16", n_multiple=2, gate="stacked", **SCALED),
    Variant(
        "wgmma", WgmmaConfig(128, 144, 3), "bf16", "k16", "k16", 16, "bf16", n_multiple=16, gate="stacked", **SWIGLU
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 128, 3), "fp16", "k16", "mn16", 16, "fp16", n_multiple=16, gate="stacked", **SCALED
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 256, 2, cluster_n=2, epilogue="direct"), "bf16", "mn16", "mn16", 4, "bf16",
        n_multiple=16, gate="stacked", **SWIGLU,
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

OUTPUTS = (
    Variant("simt", SQUARE, "fp32", "k16", "mn16", 8, "fp32", outputs=("amax", "column_sums"), **LINEAR),
    Variant(
        "simt", SimtConfig(), "fp32", "k4", "k4", 4, "bf16", n_multiple=2, gate="stacked", outputs=("column_sums",),
        **SCALED,
    ),
    Variant("mma", SMALL, "bf16", "k16", "k16", 4, "bf16", outputs=("amax", "column_sums"), **LINEAR),
    Variant(
        "mma", MmaConfig(), "fp16", "k2", "mn2", 2, "fp16", n_multiple=2, gate="interleaved", outputs=("column_sums",),
        **SWIGLU,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 64, 4), "bf16", "k16", "k16", 16, "bf16", n_multiple=8,
        outputs=("acc", "amax", "column_sums"), **LINEAR,
    ),
    Variant(
        "wgmma", WgmmaConfig(128, 80, 3, cluster_n=2, epilogue="direct", **NO_OVERLAP), "fp16", "mn16", "k16", 4,
        "fp32", outputs=("column_sums",), **CURVES,
    ),
    Variant(
        "wgmma", WgmmaConfig(64, 32, 2, split_k=2, epilogue="direct", overlap=False), "fp16", "mn16", "mn16", 4,
        "fp16", outputs=("column_sums",), **GATED,
    ),
    Variant(
        "wgmma", WgmmaConfig(256, 128, 2, epilogue="direct"), "bf16", "k16", "mn16", 16, "bf16", n_multiple=16,
        gate="stacked", outputs=("amax", "column_sums"), **SWIGLU,
    ),
    Variant(
        "wgmma", WgmmaConfig(192, 96, 2, epilogue="direct", cluster_m=2), "bf16", "k16", "mn16", 4, "bf16",
        n_multiple=4, gate="interleaved", outputs=("column_sums",), **SCALED,
    ),
)  # fmt: skip
"""Epilogues that write more than out."""
