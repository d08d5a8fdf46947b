"""The fields of a tensor map against the driver's own parameters, and what a box moves against hand arithmetic."""

import pytest

from tilewright.checking.product import Product
from tilewright.dtypes import bf16
from tilewright.hardware import H200
from tilewright.kernels.registry import kernel_named
from tilewright.kernels.wgmma.config import WgmmaConfig


def maps(m, n, k, config, layout="nt"):
    kernel, problem = kernel_named("wgmma", "kernel"), Product(m, n, k, bf16, bf16, layout).problem
    return {spec.operand: spec.model for spec in kernel.assemble(config, problem, H200).arguments.tensor_maps}


def test_the_fields_of_an_operand():
    found = maps(1000, 3000, 2000, WgmmaConfig())["a"]
    values = {field.name: field.value for field in found.fields}
    assert values == {
        "tensorDataType": "BFLOAT16", "tensorRank": "3", "globalAddress": "of the operand",
        "globalDim": "2000, 1000, 1",
        "globalStrides": "4000, 4000", "boxDim": "64, 128, 1", "elementStrides": "1, 1, 1", "interleave": "NONE",
        "swizzle": "128 bytes", "l2Promotion": "128 bytes", "oobFill": "NONE",
    }  # fmt: skip
    assert (found.box_bytes, found.box_sectors, found.boxes) == (128 * 128, 128 * 4, (32, 8, 1))


def test_an_operand_along_n_has_n_innermost():
    found = maps(1000, 3000, 2000, WgmmaConfig(), "nn")["b"]
    assert found.shape == (3000, 2000, 1)
    assert found.strides[0] == 6000
    assert found.as_dict()["boxes"] == [47, 32, 1]


def test_they_are_those_of_the_driver_in_its_order():
    driver = pytest.importorskip("cuda.bindings.driver")
    signature = driver.cuTensorMapEncodeTiled.__doc__.partition(")")[0]
    fields = maps(64, 64, 64, WgmmaConfig(tile_m=64, tile_n=64))["a"].fields
    places = [signature.index(field.name) for field in fields]
    assert places == sorted(places)
    assert signature.count(",") == len(fields) - 1
