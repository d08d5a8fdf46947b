"""results/quantize_h200.json, which tools/quantize_sweep.py writes, beside what docs/low-precision.md says of it."""

import json
from pathlib import Path

import pytest

from support.quantization import BLOCKS

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "results/quantize_h200.json").read_text())
ROWS = [dict(zip(RECORD["columns"], row, strict=True)) for row in RECORD["launches"]]
COPY = "driver's copy"


@pytest.mark.parametrize("block", BLOCKS)
def test_the_page_has_the_shares_of_the_quickest_configs(block):
    shares = []
    for dtype in ("bf16", "fp32"):
        for transposed in (False, True):
            case = {"m": 8192, "k": 8192, "dtype": dtype, "block": block, "transposed": transposed}
            shares.append(max(row["share"] for row in ROWS if case.items() <= row.items() and row["config"] != COPY))
    page = (ROOT / "docs/low-precision.md").read_text(encoding="utf-8")
    assert f'| `"{block}"` | {" | ".join(f"{share:.2f}" for share in shares)} |' in page


def test_shares_are_of_the_copy_that_was_measured_with_them():
    for row in reversed(ROWS):
        if row["config"] == COPY:
            copied = row
        assert [row[name] for name in RECORD["columns"][:6]] == [copied[name] for name in RECORD["columns"][:6]]
        assert row["share"] == pytest.approx(row["TB/s"] / copied["TB/s"], abs=0.001)
