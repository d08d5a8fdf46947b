"""The GPUs of the table, by the names that the driver gives them."""

import pytest

from tilewright.dtypes import bf16, fp16, fp32
from tilewright.hardware import A100, GPUS, H20, H100_PCIE, H100_SXM, H200, H800, rates_of, recognize


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("NVIDIA H200", H200),
        ("NVIDIA H100 80GB HBM3", H100_SXM),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", H100_SXM),
        ("NVIDIA H100 PCIe", H100_PCIE),
        ("NVIDIA A100-SXM4-80GB", A100),
        ("A100-PCIE-40GB", A100),
        ("NVIDIA A100 80GB PCIe", A100),
        ("NVIDIA H20", H20),
        ("NVIDIA H20-3e", H20),
        ("NVIDIA H800", H800),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA A10", None),
        ("NVIDIA GeForce RTX 4090", None),
        ("Tesla V100-SXM2-16GB", None),
        ("", None),
    ],
)
def test_a_device_is_recognized_by_its_model(name, entry):
    assert recognize(name) is entry


@pytest.mark.parametrize("entry", GPUS.values(), ids=GPUS)
def test_entries_recognize_themselves(entry):
    assert recognize(entry.name) is entry


def test_rates_are_of_a_unit_and_an_element_type():
    assert [H200.macs(unit, bf16) for unit in ("wgmma", "mma")] == [2048, 2048]
    assert (A100.macs("mma", fp16), A100.macs("cuda_cores", fp32)) == (1024, 64)
    with pytest.raises(ValueError, match=r"unit='wgmma' of A100 has no known rate for bf16: .*; known here: mma"):
        A100.macs("wgmma", bf16)


def test_peak_is_that_of_the_unit_that_multiplies_the_type_best():
    assert H200.peak_flops(bf16) == pytest.approx(989.4e12, rel=1e-3)
    assert H200.peak_flops(fp32) == pytest.approx(66.9e12, rel=1e-3)


@pytest.mark.parametrize(
    ("entry", "tensor", "cuda_cores", "ridge"),
    [(A100, 312, 19.5, 153), (H100_SXM, 989.4, 66.9, 295), (H100_PCIE, 756, 51.2, 371), (H20, 148, None, 37)],
    ids=lambda value: getattr(value, "name", None),
)
def test_peaks_and_ridges_are_the_published_ones(entry, tensor, cuda_cores, ridge):
    """TFLOP/s in bf16 and fp32, and FLOP per byte at which memory no longer limits bf16."""
    assert entry.peak_flops(bf16) == pytest.approx(tensor * 1e12, rel=2e-3)
    assert entry.peak_flops(bf16) / entry.memory_bandwidth == pytest.approx(ridge, rel=5e-3)
    assert cuda_cores is None or entry.peak_flops(fp32) == pytest.approx(cuda_cores * 1e12, rel=2e-3)


def test_gpus_that_are_not_in_the_table_have_the_rates_of_their_capability():
    assert rates_of(80) == A100.rates
    assert rates_of(90) == H200.rates
    assert ("mma", bf16, 1024) in rates_of(100)
