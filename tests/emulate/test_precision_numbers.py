"""The record of docs/precision.md: what it measures on a GPU, beside a stand-in, and figures that others published."""

import json
from pathlib import Path

import numpy as np
import pytest

from emulate.test_sums_proof import StandIn
from tilewright.emulator.semantics.matrices.accumulation import ADDERS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import precision_numbers

    monkeypatch.setattr(precision_numbers, "LENGTHS", (64, 128))
    monkeypatch.setattr(precision_numbers, "MEASURED_LENGTHS", (64, 128))
    return precision_numbers


@pytest.mark.parametrize(
    ("kind", "accumulator"), [("tf32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("e4m3", "f16"), ("e5m2", "f32")]
)
def test_what_is_measured_is_the_same_product(kind, accumulator, numbers):
    _, _, a, b = numbers.operands("normal", kind)
    found = [*numbers.measured(StandIn(), kind, accumulator, a, b)]
    expected = [*numbers.added("hardware", "wgmma", kind, accumulator, a, b)]
    np.testing.assert_array_equal(found, expected)


def test_fp8_errs_by_nearly_two_percent_at_4096(numbers, monkeypatch):
    """DeepSeek-V3's technical report, 3.3.2: a maximum relative error of nearly 2% for random matrices of K = 4096."""
    for name, value in {"LENGTHS": (4096,), "ROWS": 192, "COLUMNS": 192}.items():
        monkeypatch.setattr(numbers, name, value)
    _, _, a, b = numbers.operands("normal", "e4m3")
    (right,) = numbers.exact(a, b, (4096,))

    def worst(instruction):
        (found,) = numbers.added("hardware", instruction, "e4m3", "f32", a, b)
        return np.abs(found - right).max() / np.sqrt(np.mean(right**2))

    assert 0.01 < worst("wgmma") < 0.03
    assert worst("mma") < 1e-6


def test_the_record_has_every_row_and_sums_of_few_bits_are_the_worst():
    record = json.loads((ROOT / "results/precision.json").read_text())
    last = record["lengths"].index(16384)
    for rows in record["emulated"].values():
        errors = {name: row["hardware"][last] for name, row in rows.items()}
        assert {name.split(",")[0] for name in errors} == {"wgmma", "mma"}
        assert errors["wgmma, e4m3 in f32"] > 50 * errors["wgmma, tf32 in f32"] > 0
    kinds = {(name.split(", ")[0], name.split(" ")[1]) for name in errors}
    assert {("wgmma", kind) for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")} <= kinds
    assert ("wgmma", "fp8") in ADDERS
