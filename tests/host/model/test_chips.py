"""The chips against what their makers and others have published."""

import json

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.errors import ArgumentValueError
from tilewright.hardware import GPUS
from tilewright.model.chips import BYTES, CHIPS, GENERATIONS, SOURCES, chip_of

PUBLISHED: dict[str, dict[str, float]] = {
    "V100": {"fp16": 125, "fp32": 15.7, "fp64": 7.8},
    "A100": {"bf16": 312, "fp16": 312, "tf32": 156, "int8": 624, "int4": 1248, "fp64": 19.5, "fp32": 19.5},
    "RTX-4090": {"bf16": 165.2, "fp8": 330.3, "tf32": 82.6, "int8": 660.6, "int4": 1321.2, "fp32": 82.6, "fp64": 1.3},
    "H100-SXM": {"bf16": 989.4, "tf32": 494.7, "fp8": 1978.9, "int8": 1978.9, "fp64": 66.9, "fp32": 66.9},
    "H100-PCIe": {"bf16": 756, "tf32": 378, "fp8": 1513, "int8": 1513, "fp64": 51, "fp32": 51},
    "H200": {"bf16": 989.4, "tf32": 494.7, "fp8": 1978.9, "int8": 1978.9, "fp64": 66.9, "fp32": 66.9},
    "H800": {"bf16": 989.4, "fp8": 1978.9, "fp64": 1, "fp32": 66.9},
    "H20": {"bf16": 148, "tf32": 74, "fp8": 296, "int8": 296, "fp64": 1},
    "B200": {"bf16": 2250, "tf32": 1100, "fp8": 4500, "fp6": 4500, "fp4": 9000, "int8": 4500, "fp32": 75, "fp64": 37},
}
"""Dense TFLOP/s of data sheets, rounded as they are there."""

RIDGES = {"A100": 153, "H100-SXM": 295, "H100-PCIe": 371, "H800": 295, "H200": 206, "H20": 37}


@pytest.mark.parametrize("name", CHIPS)
def test_rates_are_those_of_the_data_sheets(name):
    chip = CHIPS[name]
    for operands, tflops in PUBLISHED[name].items():
        assert chip.flops(chip.rate(operands)) / 1e12 == pytest.approx(tflops, rel=0.025), operands


def test_other_units_have_rates_of_their_own():
    volta, ada, hopper = CHIPS["V100"], CHIPS["RTX-4090"], CHIPS["H100-SXM"]
    by_unit = {(rate.unit, rate.operands): hopper.flops(rate) / 1e12 for rate in hopper.rates}
    assert by_unit["CUDA cores", "fp64"] == pytest.approx(33.5, rel=0.01)
    assert by_unit["CUDA cores", "fp16"] == pytest.approx(133.8, rel=0.01)
    assert ada.flops(ada.rate("fp16", "fp16")) / 1e12 == pytest.approx(330.3, rel=0.01)
    assert ada.flops(ada.rate("fp16")) / 1e12 == pytest.approx(165.2, rel=0.01)
    with pytest.raises(ArgumentValueError, match="dtype='fp8' is not multiplied by V100: use fp16, fp32, fp64, int32"):
        volta.rate("fp8")


@pytest.mark.parametrize(("name", "ridge"), RIDGES.items())
def test_ridges_are_the_published_ones(name, ridge):
    chip = CHIPS[name]
    assert chip.flops(chip.rate("bf16")) / chip.gpu.memory_bandwidth == pytest.approx(ridge, rel=0.005)


def test_every_gpu_of_the_planner_is_a_chip_with_its_facts():
    assert set(GPUS) < set(CHIPS)
    for name, gpu in GPUS.items():
        assert CHIPS[name].gpu is gpu


def test_a_tensor_core_does_1024_operations_a_clock_on_hopper_and_256_on_an_h20():
    """The wgmma latency article."""
    for name, flops in (("H100-PCIe", 1024), ("H100-SXM", 1024), ("H20", 256), ("V100", 128), ("A100", 512)):
        chip = CHIPS[name]
        assert 2 * chip.rate("fp16").macs / chip.generation.tensor_cores == flops


def test_clusters_that_were_counted_on_an_h200_are_possible():
    """30 of four; 66 of two, so that no SM idles."""
    chip = CHIPS["H200"]
    least, most = chip.clusters(4)
    assert least <= 30 <= most < 33
    assert chip.clusters(2) == (66, 66)
    assert chip.clusters(1) == (132, 132)
    assert least <= chip.gpu.clusters(4) <= most
    assert all(chip.gpu.clusters(ctas) <= chip.clusters(ctas)[1] for ctas in range(1, 9))


def test_clusters_of_a_whole_gpc_need_whole_gpcs():
    """132 SMs in 8 GPCs of up to 18: at least 6 SMs are elsewhere if 7 GPCs are whole."""
    assert CHIPS["H200"].clusters(18)[1] == 7
    assert CHIPS["H100-PCIe"].clusters(18)[1] == 6


def test_chips_without_clusters_say_so():
    for name in ("A100", "B200"):
        with pytest.raises(ArgumentValueError, match="has no clusters, or unknown GPCs"):
            CHIPS[name].clusters(2)


@pytest.mark.parametrize("name", CHIPS)
def test_levels_get_larger_and_slower(name):
    registers, smem, l1, l2, gmem = CHIPS[name].levels
    assert smem.bytes <= l1.bytes
    assert l2.bytes < gmem.bytes
    rates = [level.bytes_per_second for level in (registers, smem, l2, gmem) if level.bytes_per_second]
    assert rates == sorted(rates, reverse=True)
    clocks = [level.latency for level in (smem, l1, l2, gmem) if level.latency]
    assert clocks == sorted(clocks)


def test_published_sums_of_memories():
    """33,792 KB of registers on an H100 SXM, 27,648 on an A100; 19.5 TB/s of SMEM on an A100."""
    assert CHIPS["H100-SXM"].levels[0].bytes == 33_792 * 1024
    assert CHIPS["A100"].levels[0].bytes == 27_648 * 1024
    assert CHIPS["A100"].levels[1].bytes_per_second == pytest.approx(19.5e12, rel=0.002)
    assert CHIPS["A100"].levels[3].bytes_per_second == pytest.approx(7.22e12, rel=0.002)


def test_every_chip_names_its_sources_and_every_type_has_a_size():
    for chip in CHIPS.values():
        assert chip.sources
        assert set(chip.sources) <= set(SOURCES)
        assert {rate.operands for rate in chip.rates} <= set(BYTES)
        assert all(GENERATIONS[chip.gpu.capability].brought)
    assert {name for chip in CHIPS.values() for name in chip.sources} == set(SOURCES)


def test_names_are_found_in_any_case():
    assert chip_of("h100").name == "H100-SXM"
    assert chip_of("RTX 4090").name == "RTX-4090"
    with pytest.raises(ArgumentValueError, match="chip='GTX' is unknown: use V100, A100, RTX-4090, H100-SXM"):
        chip_of("GTX")


def test_the_command_prints_what_the_chip_says():
    done = CliRunner().invoke(app, ["model", "hardware", "H20", "--json"])
    (record,) = json.loads(done.stdout)["chips"]
    assert record["remark"] == CHIPS["H20"].remark
    assert record["clusters"]["2"] == [39, 39]
    assert {rate["operands"]: rate["tflops"] for rate in record["rates"]}["bf16"] == pytest.approx(148, rel=0.001)
    done = CliRunner().invoke(app, ["model", "hardware", "Voodoo2", "--json"])
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"].startswith("CHIP='Voodoo2' is unknown")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("A100", "none: they came with Hopper"),
        ("H20", "in 5 to 8 GPCs of up to 18"),
        ("H200", "of 4 CTAs   29 to 32"),
        ("B200", "not known: its GPCs are not published; programs may count on clusters of up to 8 CTAs"),
        ("B200", "-: not published by any of the sources below"),
        ("B200", "180 GB"),
    ],
)
def test_what_is_not_published_is_said(name, said):
    assert said in CliRunner().invoke(app, ["model", "hardware", name]).stdout
