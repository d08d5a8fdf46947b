"""Our Configs in the words of CUTLASS."""

import pytest

from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp8_e4m3, fp8_e5m2, fp16, fp32, int8, results
from tilewright.errors import ArgumentValueError
from tilewright.hardware import A100, H200
from tilewright.kernels.cutlass import counterpart
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.registry import kernel_named
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig


def found(name, config, dtype, layout="nt", gpu=H200):
    return counterpart(kernel_named(name, "kernel"), config, Product(512, 512, 512, dtype, dtype, layout).problem, gpu)


def values(of):
    return {parameter.name: parameter.value for parameter in of.parameters}


def test_a_kernel_of_hopper():
    config = WgmmaConfig(tile_m=128, tile_n=192, stages=3, cluster_m=2, group_m=4, epilogue="direct")
    beside = found("wgmma", config, bf16)
    known = values(beside)
    assert known["TileShape_MNK"] == "Shape<_128, _192, _64>"
    assert known["ClusterShape_MNK"] == "Shape<_2, _1, _1>"
    assert known["StageCount"] == "StageCount<3>"
    assert known["KernelSchedule"] == "KernelTmaWarpSpecializedCooperative"
    assert known["EpilogueSchedule"] == "NoSmemWarpSpecialized"
    assert known["ElementB, LayoutB"] == "cutlass::bfloat16_t, cutlass::layout::ColumnMajor"
    assert known["scheduler.max_swizzle_size"] == "4"
    assert beside.unknown == ("overlap", "wait_depth", "prefetch")


def test_one_consumer_does_not_cooperate_and_a_split_streams():
    known = values(found("wgmma", WgmmaConfig(tile_m=64, tile_n=64, split_k=2, overlap=False), bf16))
    assert known["KernelSchedule"] == "KernelTmaWarpSpecialized"
    assert known["EpilogueSchedule"] == "TmaWarpSpecialized"
    assert (known["TileScheduler"], known["scheduler.splits"]) == ("StreamKScheduler", "2")


def test_a_swapped_product_has_its_operands_swapped():
    known = values(found("wgmma", WgmmaConfig(swap_ab=True, epilogue="direct"), bf16, "nn"))
    assert known["ElementA, LayoutA"].endswith("ColumnMajor")  # b.T
    assert known["ElementC, LayoutC"].endswith("ColumnMajor")


def test_warps_and_instructions():
    known = values(found("mma", MmaConfig(), fp16, "nn", A100))
    assert known["ThreadblockShape"] == "GemmShape<128, 128, 32>"
    assert known["WarpShape"] == "GemmShape<64, 64, 32>"
    assert known["InstructionShape"] == "GemmShape<16, 8, 16>"
    assert known["Stages"] == "4"
    assert known["ArchTag"] == "cutlass::arch::Sm80"
    assert known["AlignmentA, AlignmentB"] == "8, 8"
    simt = found("simt", SimtConfig(), fp32)
    assert values(simt)["OperatorClass"] == "cutlass::arch::OpClassSimt"
    assert simt.unknown == ("thread_m", "thread_n")


def test_kernels_and_configs_without_a_counterpart():
    kernel = kernel_named("wgmma_basic", "kernel")
    problem = Product(512, 512, 512, bf16, bf16).problem
    with pytest.raises(ArgumentValueError, match="use wgmma, mma or simt"):
        counterpart(kernel, kernel.best(problem, H200), problem, H200)
    with pytest.raises(ConfigError, match="tile_m"):
        found("wgmma", WgmmaConfig(tile_m=100), bf16)


@pytest.mark.parametrize(
    ("name", "dtype", "said"),
    [
        (
            "wgmma",
            fp8_e4m3,
            {"ElementA, LayoutA": "cutlass::float_e4m3_t, ", "ElementC, LayoutC": "cutlass::bfloat16_t, "},
        ),
        ("wgmma", int8, {"ElementC, LayoutC": "int32_t, ", "ElementAccumulator": "int32_t"}),
        ("mma", fp8_e5m2, {"ArchTag": "cutlass::arch::Sm89", "InstructionShape": "GemmShape<16, 8, 32>"}),
        ("mma", int8, {"ArchTag": "cutlass::arch::Sm80", "ElementB, LayoutB": "int8_t, "}),
    ],
)
def test_products_of_bytes(name, dtype, said):
    kernel = kernel_named(name, "kernel")
    problem = Product(512, 512, 512, dtype, results(dtype, dtype, scaled=False)[0], "nt").problem
    known = values(counterpart(kernel, kernel.best(problem, H200), problem, H200))
    assert all(known[each].startswith(value) for each, value in said.items())
    assert known["ElementAccumulator"] == ("int32_t" if dtype is int8 else "float")
