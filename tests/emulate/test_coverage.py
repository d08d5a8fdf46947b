"""What launches did not exercise is said: rings that never wrap, guards that go one way, code that never runs."""

import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.commands import in_json, invoke
from support.peeking_ring import PEEKING_RING
from tilewright.checking.doors import Call
from tilewright.checking.doors.ptx import launch_module
from tilewright.checking.launch import Source
from tilewright.emulator import Coverage, Device

KINDS = ("rings", "branches", "accesses", "operations", "lines")


def ring(count, flipped=0):
    """A check of a ring of four stages that goes through `count` blocks."""
    blocks, sums = np.ones((count, 128), np.float32), np.zeros(128, np.float32)
    ptx = compile_ptx(PEEKING_RING, "sm_90a", f"-DFLIPPED={flipped}")
    return tw.check(ptx, sums, blocks, count, grid=1, block=128, schedules=0)


def calls(name):
    """The source lines of the ring that call a function and do not define it."""
    lines = enumerate(PEEKING_RING.splitlines(), 1)
    return {f"test.cu:{number}" for number, line in lines if f"{name}(" in line and "__device__" not in line}


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_ring_that_is_larger_than_its_loop_did_not_wrap(count):
    result = ring(count)
    assert result.verified
    rings = result.coverage["rings"]
    assert rings["total"] == 2
    plural = "s" * (count > 1)
    assert [missed["detail"] for missed in rings["missed"]] == [f"{count} phase{plural} in {count} stage{plural}"] * 2
    assert {missed["line"] for missed in rings["missed"]} < calls("fill") | calls("peek") | calls("mbarrier_wait")
    assert result.coverage["summary"][0].startswith("2 of 2 mbarrier rings did not wrap (2x ")


def test_a_ring_that_wraps_leaves_nothing_to_say():
    result = ring(5)
    assert result.verified
    assert result.coverage["summary"] == []
    assert all(result.coverage[kind]["missed"] == [] for kind in KINDS)
    assert [result.coverage[kind]["total"] > 0 for kind in KINDS] == [True, True, False, True, True]


@pytest.mark.planted_fault
@pytest.mark.parametrize("flipped", [1, 2])
@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_a_look_with_the_wrong_parity_is_found_while_copies_are_in_flight(flipped, count):
    """If they have landed, it only says that they have not, and the wait that follows is right."""
    kinds = {report["kind"]: report["schedules"] for report in ring(count, flipped).reports}
    assert kinds["read-before-wait"] == ["lazy"]


@pytest.mark.planted_fault
def test_a_wrong_parity_of_the_second_round_cannot_show_in_the_first():
    assert ring(4, flipped=3).verified
    assert not ring(5, flipped=3).verified


GUARDS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry guards(.param .u64 out, .param .u32 count) {
  .reg .pred %inside, %first, %wrong;
  .reg .b32 %t, %n;
  .reg .b64 %out, %place;
  .shared .align 16 .b8 tile[512];
  ld.param.u64 %out, [out];
  ld.param.u32 %n, [count];
  mov.u32 %t, %tid.x;
  mad.wide.u32 %place, %t, 4, %out;
  setp.lt.u32 %inside, %t, %n;
  @%inside st.global.u32 [%place], %t;
  setp.eq.u32 %first, %n, 77;
  @%first cp.async.ca.shared.global [tile], [%out], 4;
  cp.async.wait_all;
  setp.gt.u32 %wrong, %t, 1023;
  @%wrong bra FAIL;
  @%first bra SPECIAL;
  ret;
SPECIAL:
  st.global.u32 [%place], 0;
  ret;
FAIL:
  trap;
}
"""


def guarded(*counts):
    """What launches with these counts did not exercise."""
    coverage = Coverage()
    for count in counts:
        device = Device(memory_bytes=1 << 20, observers=[coverage])
        device.launch(device.load(GUARDS), 1, 64, [device.allocate(256), count])
    return coverage.gaps()


def missed(gaps):
    """The gaps of each kind as PTX instructions and details."""
    return {
        kind: [(gap.location.split("`")[1], gap.detail) for gap in getattr(gaps, kind).gaps]
        for kind in KINDS
        if getattr(gaps, kind).gaps
    }


def test_guards_that_go_one_way():
    copy = "cp.async.ca.shared.global"
    assert missed(guarded(64)) == {
        "branches": [("bra", "never taken")],
        "accesses": [("st.global.u32", "always held"), (copy, "never held")],
        "operations": [(copy, "")],
        "lines": [("st.global.u32", ""), ("ret", "")],
    }
    assert guarded(64).summary() == [
        "1 of 1 branches went one way (never taken); 2 of 2 guards of accesses went one way (1x always held, 1x never "
        "held); 1 of 1 asynchronous operations were never issued; 2 of 15 source lines never ran",
        "branches: PTX:20; accesses: PTX:14, 16; operations: PTX:16; lines: PTX:23, 24",
    ]


def test_what_another_launch_exercises_is_exercised():
    assert missed(guarded(64, 63))["accesses"] == [("cp.async.ca.shared.global", "never held")]
    assert missed(guarded(64, 63, 77)) == {}
    assert guarded(64, 63, 77).summary() == []
    assert Coverage().gaps() is None


def test_the_command_says_it_and_the_record_has_it(tmp_path):
    path = tmp_path / "guards.ptx"
    path.write_text(GUARDS)
    launch = ("--block", 64, "--arg", "u32[64]", "--arg", 64, "--schedules", 0)
    first, second = guarded(64).summary()
    assert f"  not exercised: {first}\n    {second}\n" in invoke("check", path, *launch).stdout
    record = in_json("check", path, *launch)["coverage"]
    assert record == {"summary": [first, second], **guarded(64).as_dict()}
    assert record["branches"] == {
        "total": 1,
        "missed": [{"location": "`bra` (PTX line 20)", "detail": "never taken", "line": "PTX:20"}],
    }


class Twice:
    """A door whose kernel launches a module for each number."""

    def __init__(self, ptx, numbers):
        self.ptx, self.numbers = ptx, numbers

    def run(self, call, perform):
        for number in self.numbers:
            launch_module(Source("kernel", self.ptx), None, Call(None, (number,), block=call.block), perform)


@pytest.mark.parametrize(("numbers", "missed"), [((0, 5), 0), ((0, 0), 1)])
def test_launches_of_one_call_are_covered_together(monkeypatch, numbers, missed):
    source = 'extern "C" __global__ void store(int n) { __shared__ volatile int x[1]; if (n > 3) x[0] = n; }'
    monkeypatch.setattr("tilewright.checking.call.door_of", lambda kernel: Twice(compile_ptx(source), numbers))
    result = tw.check(None, block=1, schedules=0)
    assert result.kernel == "store"
    decided = [result.coverage[kind] for kind in ("branches", "accesses")]
    assert sum(part["total"] for part in decided) == 1
    assert sum(len(part["missed"]) for part in decided) == missed
    assert bool(result.coverage["summary"]) == bool(missed)
