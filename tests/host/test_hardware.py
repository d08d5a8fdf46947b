"""The GPUs of the table, by the names that the driver gives them."""

import pytest

from tilewright.hardware import A100, GPUS, H20, H100_PCIE, H100_SXM, H200, H800, recognise


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
def test_a_device_is_recognised_by_its_model(name, entry):
    assert recognise(name) is entry


@pytest.mark.parametrize("entry", GPUS.values(), ids=GPUS)
def test_entries_recognise_themselves(entry):
    assert recognise(entry.name) is entry
