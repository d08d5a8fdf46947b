"""`tilewright kernels`: what each kernel takes, by its own rules, and what a GPU has verified."""

import json

import pytest

from support.commands import error, in_json, invoke
from tilewright.checking.product import Product
from tilewright.checking.support import ARCHITECTURES, LAYOUTS, support
from tilewright.dtypes import PRODUCTS, bf16, fp8_e4m3, int8
from tilewright.hardware import GPUS, standing_for
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.problem import RECIPES


def test_every_kernel_is_asked_and_answers_in_names_that_there_are():
    rows = in_json("kernels", "--ladder")["kernels"]
    assert {row["kernel"] for row in rows} == EVERY_KERNEL.keys()
    pairs = {a.name if a is b else f"{a} by {b}" for a, b in PRODUCTS}
    for row in rows:
        assert pairs >= set(row["types"])
        assert {"none", *RECIPES} >= {text.removesuffix(" fast").removesuffix(" zero_a") for text in row["scales"]}
        assert set(LAYOUTS) >= set(row["layouts"])
        assert set(ARCHITECTURES) >= set(row["architectures"])
    taken = {name for row in rows for name in row["types"]}
    assert taken == pairs


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_answers_are_the_kernels_own(kernel):
    for row in support(KERNELS[kernel]):
        assert row.architectures
        for arch in ARCHITECTURES:
            product = Product(16, 128, 0 if kernel == "copy" else 128, bf16, bf16, row.layouts[0])
            if row.types[0] == "bf16":
                takes = KERNELS[kernel].refuses(product.problem, standing_for(arch)) is None
                assert takes is (arch in row.architectures)


def test_what_needs_fast_accumulation_says_so():
    rows = [row for row in support(KERNELS["mma"]) if "fp8_e4m3" in row.types]
    scales = {
        arch: {text for row in rows if arch in row.architectures for text in row.scales} for arch in ("sm_89", "sm_90a")
    }
    assert {"none", "tensor", "row"} <= scales["sm_90a"]
    assert {"none fast", "tensor fast", "row fast"} <= scales["sm_89"]
    assert not {"none", "tensor", "row"} & scales["sm_89"]
    assert {row.types_text for row in rows} == {"fp8_e4m3, fp8_e5m2, each with each"}


def test_zero_points_are_for_int8_on_tensor_cores():
    scales = {text for row in support(KERNELS["wgmma"]) if "int8" in row.types for text in row.scales}
    assert scales == {"none", "tensor", "tensor zero_a", "row", "row zero_a"}
    rows = in_json("kernels")["kernels"]
    shifted = [row for row in rows if any(text.endswith("zero_a") for text in row["scales"])]
    assert {row["kernel"] for row in shifted} >= {"wgmma", "mma"}
    assert {name for row in shifted for name in row["types"]} == {"int8"}


def test_options_leave_only_what_they_ask_for():
    rows = in_json("kernels", "--dtype", "int8", "--recipe", "row", "--gpu", "a100")["kernels"]
    assert {"mma"} < {row["kernel"] for row in rows} < set(KERNELS)
    for row in rows:
        assert row["types"] == [int8.name]
        assert "row" in row["scales"]
        assert GPUS["A100"].arch in row["architectures"]
    (row,) = in_json("kernels", "--kernel", "wgmma_basic")["kernels"]
    assert (row["layouts"], row["architectures"]) == (["nt"], ["sm_90a"])
    assert invoke("kernels", "--kernel", "simt", "--dtype", fp8_e4m3.name).stdout == "no kernel takes that\n"
    assert "--kernel='dgemm'" in error("kernels", "--kernel", "dgemm")


def test_a_record_says_what_a_gpu_has_verified(tmp_path):
    path = tmp_path / "record.json"
    record = {"gpu": "H200", "date": "2026-11-24", "cases": {"mma": 5, "simt": 7}, "dtypes": {"mma": ["int8"]}}
    path.write_text(json.dumps(record))
    found = in_json("kernels", "--record", path)
    assert found["verified"] == {"gpu": "H200", "date": "2026-11-24"}
    cases = {(row["kernel"], name): row["cases"] for row in found["kernels"] for name in row["types"]}
    assert (cases["mma", "int8"], cases["mma", "bf16"], cases["simt", "fp32"]) == (5, 0, 0)
    text = invoke("kernels", "--record", path, "--kernel", "mma").stdout
    assert "among 5 products on an H200" in text
    assert "in the emulator" in text
    path.write_text(json.dumps({**record, "gpu": "V100"}))
    assert "is of the GPU 'V100': name one of A100" in error("kernels", "--record", path)
    path.write_text("{}")
    assert "gpu is missing: name a file that `make test-gpu` wrote" in error("kernels", "--record", path)


def test_without_a_record_nothing_counts_as_verified(monkeypatch, tmp_path):
    monkeypatch.setattr("tilewright.__file__", str(tmp_path / "a" / "b" / "__init__.py"))
    found = in_json("kernels")
    assert found["verified"] is None
    assert {row["cases"] for row in found["kernels"]} == {0}
