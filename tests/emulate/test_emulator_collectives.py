"""Warp collectives with a member mask: at several places, under several masks, and from lanes that have no value."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Deadlock, Device

THREADS = 64
VALUES = np.arange(THREADS, dtype=np.int32) * 7 % 61

ELECT = """
__device__ unsigned elected(unsigned mask) {
  unsigned lane, chosen;
  asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
               : "=r"(lane), "=r"(chosen) : "r"(mask));
  return 2 * lane + chosen;
}
__device__ unsigned all_alike(unsigned mask, int v) {
  int alike;
  return __match_all_sync(mask, v, &alike) ^ alike;
}
"""


def launch(body, threads=THREADS):
    """Run the body of a kernel (int* out, const int* in) of one CTA: its device, what it leaves in `out`, its PTX."""
    head = "int t = threadIdx.x, lane = t % 32, v = in[t];"
    ptx = compile_ptx(f'{ELECT} extern "C" __global__ void kernel(int* out, const int* in) {{ {head} {body} }}')
    device = Device(memory_bytes=1 << 20)
    out, values = device.upload(np.zeros(1024, np.int32)), device.upload(np.resize(VALUES, 1024))
    device.launch(device.load(ptx), (1,), (threads,), [out, values])
    return device, device.read(out, 4096).view(np.int32), ptx


@pytest.mark.parametrize(
    ("collective", "instruction"),
    [
        ("__shfl_xor_sync(MASK, v, 3)", "shfl.sync.bfly"),
        ("__shfl_sync(MASK, v, v % 4 + lane % 8 / 4 * 4)", "shfl.sync.idx"),
        ("__ballot_sync(MASK, v & 1)", "vote.sync.ballot"),
        ("__all_sync(MASK, v < 60) + 2 * __any_sync(MASK, v == 7)", "vote.sync.any"),
        ("__match_any_sync(MASK, v & 3)", "match.any"),
        ("all_alike(MASK, v < 100)", "match.all"),
        ("__reduce_add_sync(MASK, v)", "redux.sync.add"),
        ("elected(MASK)", "elect.sync"),
    ],
)
@pytest.mark.parametrize("mask", ["~0u", "(lane & 4 ? 0xf0f0f0f0u : 0x0f0f0f0fu)"])
def test_lanes_meet_wherever_they_execute_a_collective(collective, instruction, mask):
    """Three branches give what one place does, where every fourth lane chooses another branch."""
    body = """
      int x;
      if (lane %% 4 == 0) x = %s;
      else if (lane %% 4 < 3) { x = %s; atomicAdd(out + 255, 1); }
      else { atomicAdd(out + 255, 2); x = %s; }
      out[t] = x;
    """
    collective = collective.replace("MASK", mask)
    _, apart, ptx = launch(body % (collective, collective, collective))
    _, together, _ = launch(f"out[t] = {collective};")
    assert ptx.count(instruction) == 3
    np.testing.assert_array_equal(apart[:THREADS], together[:THREADS])


def test_each_mask_of_a_warp_is_of_its_own():
    body = """
      unsigned mask = __match_any_sync(~0u, v % 3);
      out[t] = __reduce_add_sync(mask, v);
      out[64 + t] = __ballot_sync(mask, v & 1);
    """
    _, out, _ = launch(body)
    warp = VALUES.reshape(2, 32)
    same = warp[:, :, None] % 3 == warp[:, None] % 3
    np.testing.assert_array_equal(out[:64], np.where(same, warp[:, None], 0).sum(axis=2).ravel())
    bits = (same & (warp[:, None] & 1 == 1)).astype(np.uint64) << np.arange(32, dtype=np.uint64)
    np.testing.assert_array_equal(out[64:128].view(np.uint32), bits.sum(axis=2).astype(np.uint32).ravel())


def test_a_guard_lets_lanes_pass_to_another_place():
    body = """
      int x = 0;
      asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 16;"
                   " @p redux.sync.add.s32 %0, %2, 0xffffffff; @!p redux.sync.add.s32 %0, %2, 0xffffffff; }"
                   : "+r"(x) : "r"(lane), "r"(v));
      out[t] = x;
    """
    _, out, _ = launch(body)
    np.testing.assert_array_equal(out[:64], VALUES.reshape(2, 32).sum(axis=1).repeat(32))


def test_as_many_places_as_threads():
    """One thread of each warp lets the other 31 wait, each at a place of its own, until it comes."""
    threads = 512
    body = "\n".join(f"if (t == {i}) x = __shfl_xor_sync(~0u, t, 1);" for i in range(threads) if i % 32)
    _, out, _ = launch(f"""
      int x = 0;
      if (lane) {{ {body} }}
      else {{ atomicAdd(out + 1023, 1); x = __shfl_xor_sync(~0u, t, 1); }}
      out[t] = x;
    """, threads)  # fmt: skip
    np.testing.assert_array_equal(out[:threads], np.arange(threads) ^ 1)
    assert out[1023] == threads // 32


@pytest.mark.planted_fault
def test_a_mask_that_leaves_out_its_thread_is_reported_at_its_own_place():
    device, _, ptx = launch("""
      int x;
      if (lane % 4 == 0) x = __any_sync(t < 32 ? 0xfffffffdu : 0xfffffffeu, v);
      else { atomicAdd(out + 255, 1); x = __any_sync(t < 32 ? 0xfffffffdu : 0xfffffffeu, v); }
      out[t] = x;
    """)
    lines = ptx.split("\n")
    add = next(number for number, line in enumerate(lines) if "atom" in line or "red." in line)
    beside, *_ = (number for number, line in enumerate(lines, 1) if number > add and "vote.sync.any" in line)
    [place] = (number for number, line in enumerate(lines, 1) if number != beside and "vote.sync.any" in line)
    assert {report.kind for report in device.reports} == {"member-mask"}
    assert all("leaves out" in report.message for report in device.reports)
    found = {(report.threads, report.locations[0].split("PTX line ")[1]) for report in device.reports}
    assert found == {("CTA 0, thread 1", f"{beside})"), ("CTA 0, thread 32", f"{place})")}


@pytest.mark.planted_fault
@pytest.mark.parametrize("fault", [False, True])
def test_masks_that_overlap_and_differ(fault):
    """Two of the 3 masks in a warp name lane 9."""
    masks = "lane < 8 ? 0xffu : lane < 16 ? 0xff00u : " + ("0xffff0200u" if fault else "0xffff0000u")
    device, _, _ = launch(f"out[t] = __ballot_sync({masks}, v & 1);")
    assert [(report.kind, report.threads) for report in device.reports] == [
        ("member-mask", "CTA 0, threads 9, 41")
    ] * fault


@pytest.mark.planted_fault
@pytest.mark.parametrize("fault", [False, True])
def test_a_warp_barrier_orders_those_of_one_mask(fault):
    """Groups of 3, 5 and 24 lanes hand values to each other; or the first lane of one to the last of the one before."""
    device, out, _ = launch(f"""
      __shared__ int x[64];
      unsigned mask = lane < 3 ? 7u : lane < 8 ? 0xf8u : 0xffffff00u;
      int from = lane < 3 ? 0 : lane < 8 ? {2 if fault else 3} : 8;
      x[t] = v;
      __syncwarp(mask);
      out[t] = x[t - lane + from];
    """)
    assert {report.kind for report in device.reports} == ({"race"} if fault else set())
    starts = np.repeat([0, 2 if fault else 3, 8], [3, 5, 24])
    np.testing.assert_array_equal(out[:64], VALUES.reshape(2, 32)[:, starts].ravel())


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("__shfl_xor_sync(~0u, v, 1)", "__shfl_down_sync(~0u, v, 1)"),
        ("__any_sync(~0u, v)", "__all_sync(~0u, v)"),
        ("__reduce_max_sync(~0u, v)", "__reduce_max_sync(~0u, (unsigned)v)"),
        ("__shfl_xor_sync(~0u, v, 1)", "__shfl_xor_sync(0xffff8000u, v, 1)"),
    ],
)
def test_other_qualifiers_or_another_mask_do_not_meet(first, second, reports):
    with pytest.raises(Deadlock, match="for the other lanes"):
        launch(f"if (lane < 16) out[t] = {first}; else {{ out[t] = {second}; __syncwarp(); }}")
    assert {report.kind for report in reports()} == {"member-mask"}


LEADER = "int x; if (lane == 0) x = atomicAdd(out + 255, 1);"
MATRIX = """
  if (t < 32) asm volatile("{ .reg .b32 d<2>;"
               " mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {d0, d1}, {%0, %0}, {%0}, {%0, %0}; }" :: "r"(x));
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (f"{LEADER} out[t] = __shfl_sync(~0u, x, 0);", None),
        (f"{LEADER} out[t] = 2 * __shfl_sync(~0u, x, lane / 31) + 1;", "st.global"),
        (f"{LEADER} x = __shfl_sync(~0u, x, 1); out[t] = in[x & 7];", "ld.global"),
        (f"{LEADER} x = __shfl_sync(~0u, x, 1); if (x > 3) atomicAdd(out, 1);", "bra"),
        (f"{LEADER} x = __shfl_sync(~0u, x, 1); {MATRIX}", "mma.sync"),
        (f"{LEADER} x = __shfl_sync(~0u, x, 1); x = __shfl_sync(~0u, x, 2); out[t] = __any_sync(~0u, x);", "vote"),
        (f"{LEADER} x = __shfl_sync(~0u, x, 1); if (lane > 31) out[t] = x;", None),
        ("int x = __shfl_down_sync(~0u, v, 1); if (t < 39) v = x; out[t] = v;", None),
        ("int x = __shfl_down_sync(~0u, v, 1); out[t] = t < 39 && x > 9 ? 5 : v;", None),
        ("int x = __shfl_down_sync(~0u, v, 1); out[t] = t >= 39 || x > 9 ? 5 : v;", None),
        ("int x = __shfl_down_sync(~0u, v, 1); out[t] = t >= 38 && x > 9 ? 5 : v;", "st.global"),
        ("int x = __shfl_down_sync(~0u, v, 1); out[t] = x;", "st.global"),
        ("for (int i = 4; i; i /= 2) v += __shfl_down_sync(~0u, v, i); if (lane == 0) out[t] = v;", None),
        ("for (int i = 8; i; i /= 2) v += __shfl_down_sync(~0u, v, i); if (lane == 0) out[t] = v;", "st.global"),
    ],
)
def test_what_a_lane_has_not_may_be_carried_and_not_used(body, reported):
    """There are 40 threads, so the second warp has only lanes 0 to 7."""
    device, _, _ = launch(body, threads=40)
    assert {report.kind for report in device.reports} == ({"uninitialized-register"} if reported else set())
    for report in device.reports:
        assert reported in report.locations[0]
        assert "shfl.sync" in report.locations[1]


DECIDED = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry decided(.param .u64 out) {
  .reg .pred p, q, known, lost; .reg .b32 r<6>; .reg .b64 d<3>;
  ld.param.u64 d0, [out];
  mov.u32 r0, %%tid.x;
  mad.wide.u32 d1, r0, 4, d0;
  shfl.sync.down.b32 r1, r0, 4, 31, 0xff;  // lanes 4 to 7 get no value
  setp.lt.u32 known, r0, 4;
  setp.lt.u32 lost, r1, 100;
  mov.u32 r2, 9;
  sub.s32 r3, 3, r0;  // negative where r1 has no value
  cvt.rn.f32.s32 r4, r3;
  %s
  st.global.u32 [d1], r2;
  ret;
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("body", "found", "expected"),
    [
        ("setp.lt.and.u32 p, r1, 100, known; @p mov.u32 r2, 1;", False, [1] * 4 + [9] * 4),
        ("setp.lt.or.u32 p, r1, 6, !known; @p mov.u32 r2, 1;", False, [1, 1, 9, 9, 1, 1, 1, 1]),
        ("setp.lt.and.u32 p, r0, 4, lost; @p mov.u32 r2, 1;", False, [1] * 4 + [9] * 4),
        ("setp.lt.or.u32 p, r1, 6, known; @p mov.u32 r2, 1;", True, None),
        ("setp.lt.and.u32 p, r0, 5, lost; @p mov.u32 r2, 1;", True, None),
        ("setp.lt.xor.u32 p, r1, 100, known; @p mov.u32 r2, 1;", True, None),
        ("setp.gt.and.u32 p|q, r1, 5, known; @p mov.u32 r2, 1; @q mov.u32 r2, 2;", False, [2, 2, 1, 1, 9, 9, 9, 9]),
        ("setp.lt.and.u32 p|q, r0, 4, lost; @q mov.u32 r2, 1;", True, None),
        ("setp.lt.and.u32 p|q, r0, 4, lost; @p mov.u32 r2, 1;", False, [1] * 4 + [9] * 4),
        ("setp.gt.and.u32 known|q, r1, 5, known; @q mov.u32 r2, 2;", False, [2, 2] + [9] * 6),
        ("setp.lt.and.u32 lost|q, r0, 4, lost; @lost mov.u32 r2, 2;", False, [2] * 4 + [9] * 4),
        ("setp.lt.and.u32 lost|q, r0, 4, lost; @q mov.u32 r2, 2;", True, None),
        ("slct.u32.s32 r2, r1, r0, r3;", False, [4, 5, 6, 7, 4, 5, 6, 7]),
        ("slct.u32.s32 r2, r0, r1, r3;", True, None),
        ("slct.u32.f32 r2, r1, r0, r4;", False, [4, 5, 6, 7, 4, 5, 6, 7]),
        ("slct.ftz.u32.f32 r2, r0, r1, r4;", True, None),
        ("slct.u32.s32 r2, r0, r0, r1;", True, None),
        ("selp.u32 r2, r1, r0, known;", False, [4, 5, 6, 7, 4, 5, 6, 7]),
        ("selp.u32 r2, r0, r1, known;", True, None),
    ],
)
def test_what_has_no_value_may_be_an_operand_that_does_not_count(body, found, expected):
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(32)
    device.launch(device.load(DECIDED % body), (1,), (8,), [out])
    assert [report.kind for report in device.reports] == ["uninitialized-register"] * found
    if expected is not None:
        assert device.read(out, 32).view(np.int32).tolist() == expected


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (t >= 40) return; out[t] = __shfl_sync(~0u, v, 0);", False),
        ("if (t >= 40) { out[t] = 0; return; } out[t] = __shfl_sync(~0u, v, 0);", False),
        ("if (t < 40) v = __shfl_sync(~0u, v, 0); out[t] = v;", False),  # the same, as a compiler sees it
        ("if (t < 40) v = __shfl_sync(~0u, v, 9); out[t] = v;", True),
        ("for (int i = 0; i < 4; i++) { if (v + i > 50) return; v += __shfl_sync(~0u, i, lane); out[t] = v; }", False),
        ("for (int i = t; i < 100; i += 64) v += __shfl_sync(~0u, v, 0); out[t] = v;", False),
        ("for (int i = t; i < 100; i += 64) v += __shfl_down_sync(~0u, v, 1); out[t] = v;", True),
        ("if (t >= 40) return; __syncwarp(); out[t] = v;", False),
        ("if (t < 40) __syncwarp(); out[t] = v;", False),
        ("if (t >= 40) return; out[t] = __reduce_add_sync(~0u, v) + __ballot_sync(~0u, v & 1);", False),
        ("if (t < 40) v = __reduce_add_sync(~0u, v); out[t] = v;", False),
    ],
)
def test_others_wait_for_the_end_of_a_thread_that_passes_by_and_get_no_value_of_it(body, found):
    device, _, _ = launch(body)
    assert [report.kind for report in device.reports] == ["uninitialized-register"] * found
