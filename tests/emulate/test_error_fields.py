"""What an error says in fields of its own: who, where, by which instructions, and what had been counted by then."""

import re

import pytest

from support.commands import in_json
from tilewright.emulator import BarrierProtocol, Deadlock, Device, EmulatorError, OutOfBounds

HEADER = '.version 8.5\n.target sm_90a\n.address_size 64\n.file 1 "a.cu"\n.file 2 "b.cuh"\n'
REGISTERS = ".reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p, %q;\n"
SHARED = ".shared .align 8 .b64 full; .shared .align 16 .b8 tile[64];\n"
TILE, FULL = 1024, 1024 + 64
INIT = "mbarrier.init.shared.b64 [full], 1;\n"
INLINED = ".loc 2 7 1, function_name F, inlined_at 1 {line} 3\n"
STORE = """mov.u64 %d0, out; mov.u32 %r0, tile; st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0}; fence.proxy.async;
cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r0], 16; cp.async.bulk.commit_group;
"""


def ptx(body):
    return f"{HEADER}.global .align 16 .b8 out[64];\n.visible .entry e()\n{{\n{REGISTERS}{SHARED}{body}\nret;\n}}\n"


def fails(body, error, grid=1, block=1, **options):
    """The error that a kernel ends with."""
    device = Device(memory_bytes=1 << 20, **options)
    with pytest.raises(error) as caught:
        device.launch(device.load(ptx(body)), grid, block, [])
    return caught.value


def report(tmp_path, body, block=1):
    """The one report of a check."""
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx(body))
    record = in_json("check", path, "--block", block, "--schedules", 0, code=1)
    (found,) = record["reports"]
    return found, record["counters"]


def test_each_place_of_a_deadlock_is_one_location(tmp_path):
    waits = "".join(
        f"{INLINED.format(line=line)}@{guard}%p bra S{line};\n"
        f"W{line}: mbarrier.try_wait.parity.shared.b64 %q, [full], 0; @!%q bra W{line};\nS{line}:\n"
        for line, guard in ((11, ""), (12, "!"))
    )
    split = "mov.u32 %r0, %tid.x; setp.lt.u32 %p, %r0, 32;\n"
    found, _ = report(tmp_path, f"{split}setp.eq.u32 %q, %r0, 0; @%q {INIT}bar.sync 0;\n{waits}", block=64)
    assert found["kind"] == "Deadlock"
    places = [re.fullmatch(r"`mbarrier.try_wait\S+` at (.+) \(PTX line \d+\)", each)[1] for each in found["locations"]]
    assert sorted(places) == ["b.cuh:7, called from a.cu:11", "b.cuh:7, called from a.cu:12"]
    assert f"mbarrier at shared address {found['address']:#x}" in found["message"]
    assert found["section"] is not None


def test_a_misused_mbarrier_has_its_address_and_one_location(tmp_path):
    arrive = "mbarrier.arrive.shared.b64 _, [full], 2;"
    found, counters = report(tmp_path, INIT + INLINED.format(line=5) + arrive)
    assert found["kind"] == "BarrierProtocol"
    assert found["locations"] == ["`mbarrier.arrive.shared.b64` at b.cuh:7, called from a.cu:5 (PTX line 13)"]
    assert (found["address"], found["threads"]) == (FULL, "CTA 0, thread 0")
    assert counters["totals"]["warp_instructions"] == {"mbarrier.init.shared.b64": 1, "mbarrier.arrive.shared.b64": 1}
    assert fails("mbarrier.arrive.shared.b64 _, [full];", BarrierProtocol).address == FULL
    assert fails(INIT + INIT, BarrierProtocol).address == FULL


@pytest.mark.parametrize("form", ["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], {};",
                                  "mbarrier.arrive.expect_tx.shared.b64 _, [full], {};"])  # fmt: skip
def test_an_mbarrier_expects_at_most_what_its_count_can_say(form):
    error = fails(INIT + form.format(1 << 20), BarrierProtocol)
    assert "with a tx-count of 1048576 bytes, outside -(2**20 - 1)..2**20 - 1" in str(error)
    assert error.address == FULL
    changes = [f"mbarrier.{each}_tx.relaxed.cta.shared::cta.b64 [full], 1048575;\n" for each in ("expect", "complete")]
    device = Device(memory_bytes=1 << 20)
    device.launch(device.load(ptx(INIT + "".join(changes))), 1, 1, [])


def test_the_first_cta_of_a_later_batch_is_named_by_its_number(monkeypatch):
    monkeypatch.setattr("tilewright.emulator.launch.RESIDENT_LANES", 0)
    monkeypatch.setattr("tilewright.emulator.launch.CHUNK_LANES", 1)
    third = "mov.u32 %r0, %ctaid.x; setp.eq.u32 %p, %r0, 2;\n"
    error = fails(f"{INIT}{third}@%p mbarrier.arrive.shared.b64 _, [full], 2;", BarrierProtocol, grid=4)
    assert "of CTA 2 takes 1 arrivals" in str(error)
    assert error.threads == "CTA 2, thread 0"
    assert error.counters.warp_instructions["mbarrier.init.shared.b64"] == 3


@pytest.mark.planted_fault
def test_an_exit_too_early_names_its_thread_and_instruction(tmp_path):
    found, _ = report(tmp_path, STORE)
    assert found["kind"] == "exit-before-wait"
    assert found["locations"] == ["`ret` (PTX line 14)"]
    assert found["threads"] == "CTA 0, thread 0"
    assert "a thread may exit only after" in found["rule"]
    assert "cp.async.bulk.wait_group" in found["section"]


@pytest.mark.planted_fault
def test_a_source_that_is_overwritten_too_early_has_its_address():
    body = f"{STORE}mov.u32 %r1, 5; st.shared.u32 [tile+8], %r1; cp.async.bulk.wait_group 0;"
    error = fails(body, EmulatorError, asynchrony="lazy")
    assert "was overwritten" in str(error)
    assert error.threads == "CTA 0, thread 0"
    assert error.address == TILE + 8
    (place,) = error.locations
    assert place.startswith("`cp.async.bulk.global.shared::cta.bulk_group`")


def test_counters_stop_at_the_error():
    body = "mov.u64 %d0, out; mov.u32 %r0, 1; bar.sync 0; st.global.u32 [%d0], %r0;\n"
    body += "st.global.u32 [%d0+4096], %r0; exit;"
    counters = fails(body, OutOfBounds, grid=2, block=64, count_memory=True).counters
    assert counters.warp_instructions["st.global.u32"] == 8
    assert counters.warp_instructions["bar.sync"] == 4
    assert "exit" not in counters.warp_instructions
    assert counters.global_requests["st"] == 4


def test_a_deadlock_has_counters_too():
    error = fails(f"{INIT}W: mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra W;", Deadlock)
    assert error.counters.warp_instructions["mbarrier.init.shared.b64"] == 1
    assert error.address == FULL


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        ("bar.sync 0, 33;", "BarrierProtocol", "as many arrivals as it was given"),
        ("mbarrier.arrive.shared.b64 _, [full];", "MbarrierLifetime", "initialized once"),
        (f"{INIT}mbarrier.test_wait.shared.b64 %q, [full], 0;", "MbarrierState", "a state of its own"),
        (
            "mov.u32 %r0, full; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [tile], 1, [%r0];",
            "MisdirectedStore",
            "clusters of several CTAs",
        ),
        ("mov.u32 %r0, 1; T: .branchtargets Z; brx.idx %r0, T; Z:", "UndefinedBranch", "index of brx.idx"),
        ("ld.global.u32 %r0, [16];", "OutOfBounds", "an access must lie within an object"),
    ],
)
def test_each_error_has_the_rule_that_was_broken(tmp_path, body, kind, sentence):
    found, _ = report(tmp_path, body)
    assert found["kind"] == kind
    assert sentence in found["rule"]
    assert ("brx" in found["section"]) == (kind == "UndefinedBranch")
