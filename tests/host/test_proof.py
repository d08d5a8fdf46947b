"""The record of the comparison with hardware."""

import json

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("dtype", "place", "nearest"),  # place: lane and channel
    [
        ("uint8", (117, 2), (17604 / 65535, 17605 / 65535)),
        ("int8", (213, 0), (16384 / 32767, 16383 / 32767)),
        ("int16", (113, 2), (13814 / 32767, 13813 / 32767)),
        ("float16", (8, 0), (-19.15625, -19.171875)),
    ],
)
def test_only_a_half_that_is_rounded_the_other_way_is_explained(dtype, place, nearest):
    (look,) = (
        each
        for each in IMAGES["texture"]
        if (each.dtype, each.channels) == (dtype, 4) and each.texture.get("filter") == "linear"
    )
    emulated = emulate(look.launch())

    def outcome(place, value):
        hardware = [buffer.copy() for buffer in emulated]
        hardware[1].view(np.float32).reshape(-1, 4, 2)[*place, 0] = value
        return compared(look, emulated, hardware, look.explained, emulate)[0]

    even, odd = nearest
    lane, channel = place
    assert outcome(place, even) == EQUAL
    assert outcome(place, odd) == EXPLAINED
    assert outcome(place, np.nextafter(np.float32(odd), np.float32(0))) == "different"
    assert outcome(place, 2 * even - odd) == outcome((lane + 1, channel), odd) == "different"
