"""The record of the comparison with hardware."""

import json

from support.proof import EQUAL, Proof


def test_the_record_counts_outcomes_and_keeps_what_differs(tmp_path):
    proof = Proof()
    proof.add("integer", "add.u32", EQUAL)
    proof.add("integer", "sub.u32", "different", ["lane 0", "lane 1"])
    proof.attach("counters", ncu="no permission", table=[])
    proof.write(tmp_path / "results" / "proof.json", gpu="H200")
    record = json.loads((tmp_path / "results" / "proof.json").read_text())
    assert record["gpu"] == "H200"
    integers = record["parts"]["integer"]
    assert (integers["tried"], integers["equal"]) == (2, 1)
    assert integers["differing"] == [{"form": "sub.u32", "outcome": "different", "examples": ["lane 0", "lane 1"]}]
    assert record["parts"]["counters"] == {
        "tried": 0, "equal": 0, "outcomes": {}, "ncu": "no permission", "table": [], "differing": [],
    }  # fmt: skip
    assert any("1 different" in line for line in proof.summary())
