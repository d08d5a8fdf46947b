"""The record of the comparison with hardware."""

import json

import numpy as np

from support.images import IMAGES
from support.launches import emulate
from support.proof import EQUAL, EXPLAINED, Proof, compared


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


def test_processes_add_up_to_one_record(tmp_path):
    proofs = [Proof(), Proof()]
    for proof, forms in zip(proofs, (["sub.u32", "add.u32"], ["add.s32"]), strict=True):
        for form in forms:
            proof.add("integer", form, "different")
    proofs[1].attach("images", note="here")
    whole = Proof()
    for proof in proofs:
        whole.merge(json.loads(json.dumps(proof.parts())))
    found = whole.as_dict()
    assert found["integer"]["outcomes"] == {"different": 3}
    assert [each["form"] for each in found["integer"]["differing"]] == ["add.s32", "add.u32", "sub.u32"]
    assert found["images"]["note"] == "here"


def test_parts_of_an_earlier_record_stay_if_they_hold_for_this_emulator(tmp_path, monkeypatch):
    def write(part, gpu):
        proof = Proof()
        proof.add(part, "a form", EQUAL)
        proof.write(tmp_path / "proof.json", gpu=gpu)
        return list(json.loads((tmp_path / "proof.json").read_text())["parts"])

    assert write("integer", "H200") == ["integer"]
    assert write("counters", "H200") == ["counters", "integer"]
    assert write("tiles", "H100") == ["tiles"]
    monkeypatch.setattr("support.proof.emulator_digest", lambda: "another")
    assert write("integer", "H100") == ["integer"]


def test_only_signed_bytes_that_are_one_step_lower_are_explained():
    def outcome(dtype, step):
        look = next(
            each
            for each in IMAGES["texture"]
            if (each.dtype, each.channels) == (dtype, 4) and each.texture.get("filter") == "linear"
        )
        emulated = emulate(look.launch())
        hardware = [buffer.copy() for buffer in emulated]
        values = hardware[1].view(np.float32).reshape(-1, 4, 2)
        values[3, 0, 0] = np.float32((round(float(values[3, 0, 0]) * 32767) + step) / 32767)
        return compared(look, emulated, hardware, look.explained, emulate)[0]

    found = {(dtype, step): outcome(dtype, step) for dtype in ("int8", "int16") for step in (0, -1, 1, -2)}
    assert found == {
        ("int8", 0): EQUAL, ("int8", -1): EXPLAINED, ("int8", 1): "different", ("int8", -2): "different",
        ("int16", 0): EQUAL, ("int16", -1): "different", ("int16", 1): "different", ("int16", -2): "different",
    }  # fmt: skip
