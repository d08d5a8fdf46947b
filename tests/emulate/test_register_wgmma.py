"""wgmma with A in registers and B stored by threads."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from emulate.nvrtc import compile_ptx
from support.policies import each_policy
from tilewright.emulator import Device

REGISTER_WGMMA = """
extern "C" __global__ void product(float* d_out, const unsigned* a, const unsigned short* b) {
  __shared__ __align__(128) unsigned short tile[8 * 16];
  int t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4;
  tile[t / 64 * 64 + t % 64] = b[t % 64 / 8 * 16 + t / 64 * 8 + t % 8];
  if (FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  unsigned base = (unsigned)__cvta_generic_to_shared(tile), r[4];
  for (int i = 0; i < 4; i++) r[i] = a[(row + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
  float d[4] = {1, 2, 3, 4};
  unsigned long long descriptor = base >> 4 | 8ull << 16 | 8ull << 32;
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]));  // they are not to be set behind the fence
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{.reg .pred p; setp.ne.b32 p, %9, 0;"
               " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, -1, 0;}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor), "r"(blockIdx.x));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) d_out[blockIdx.x * 512 + (row + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""


def register_wgmma(fence, policy):
    """D - A B^T for A in registers and B stored by threads; CTA 0 drops the initial D, CTA 1 keeps it."""
    generator = np.random.default_rng(9)
    a, b = generator.integers(-4, 5, (64, 16)), generator.integers(-4, 5, (8, 16))
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    d = device.allocate(2 * 512 * 4)
    kernel = device.load(compile_ptx(REGISTER_WGMMA, "sm_90a", f"-DFENCE={fence}"))
    device.launch(kernel, (2,), (128,), [d, device.upload(a.astype(bfloat16)), device.upload(b.astype(bfloat16))])
    initial = np.tile([[1, 2], [3, 4]], (1, 4)).repeat(8, axis=0)
    expected = np.stack([-a @ b.T, np.tile(initial, (4, 1)) - a @ b.T])
    np.testing.assert_array_equal(device.read(d, 4096).view(np.float32).reshape(2, 64, 8), expected)


@each_policy
def test_wgmma_with_a_in_registers(policy):
    register_wgmma(1, policy)


@pytest.mark.planted_fault
def test_wgmma_of_data_that_no_proxy_fence_follows(reports):
    register_wgmma(0, ("eager", 0))
    assert [report.kind for report in reports()] == ["proxy-fence"]


ROUNDS = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry rounds(.param .u64 out_) {
  .shared .align 128 .b8 tiles[512];
  .reg .b64 %out, %b, %wide; .reg .b32 %a<4>, %t, %i, %to, %word; .reg .f32 %d<4>; .reg .pred %more, %keep;
  ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mov.u32 %to, tiles; mad.lo.u32 %to, %t, 4, %to;
  setp.lt.u32 %more, %t, 64; selp.u32 %word, 0x3f803f80, 0x40404040, %more;  // ones, then threes
  st.shared.u32 [%to], %word;
  fence.proxy.async; bar.sync 0;
  mov.u32 %a0, 0x3f803f80; mov.u32 %a1, %a0; mov.u32 %a2, %a0; mov.u32 %a3, %a0;
  mov.f32 %d0, 0f42c80000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
  mov.u32 %i, 0;
Loop:
  mad.lo.u32 %to, %i, STEP, tiles; shr.u32 %to, %to, 4; cvt.u64.u32 %b, %to; or.b64 %b, %b, 0x800080000;
  setp.ne.u32 %keep, %i, DROPPED;
  // before the wait
  wgmma.wait_group.sync.aligned 0;
  // before the fence
  wgmma.fence.sync.aligned;
  // after the fence
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16
    {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, %b, %keep, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  add.u32 %i, %i, 1;
  setp.lt.u32 %more, %i, 2;
  @%more bra Loop;
  wgmma.wait_group.sync.aligned 0;
  // after the wait
  mul.wide.u32 %wide, %t, 4; add.u64 %out, %out, %wide;
  st.global.f32 [%out], %d0;
  ret;
}
"""
"""D of hundreds, plus a product with B of ones and one with what lies STEP bytes on; the product DROPPED drops D."""


@each_policy
@pytest.mark.parametrize(
    ("step", "dropped", "expected"), [(256, 2, 100 + 16 + 48), (0, 0, 16 + 16), (0, 1, 16), (256, 0, 16 + 48)]
)
def test_descriptor_and_scale_are_rewritten_at_once(step, dropped, expected, policy):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out = device.allocate(512)
    kernel = device.load(ROUNDS.replace("STEP", str(step)).replace("DROPPED", str(dropped)))
    device.launch(kernel, (1,), (128,), [out])
    np.testing.assert_array_equal(device.read(out, 512).view(np.float32), np.full(128, expected))


WRITES_A, READS_A = "mov.u32 %a1, 0x3f803f80;", "xor.b32 %to, %a2, %t;"
COPIES_INTO_D, COPIES_A = "mov.f32 %d3, %d2;", "mov.u32 %word, %a0;"


def kinds_of(text, policy=("eager", 0)):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    device.launch(device.load(text), (1,), (128,), [device.allocate(512)])
    return {report.kind for report in (*device.reports, *device.reports.warnings)}


def with_access(place, access):
    text = ROUNDS.replace("STEP", "0").replace("DROPPED", "0")
    return text.replace(f"// {place}\n", f"{access}\n")


@each_policy
@pytest.mark.parametrize("place", ["before the fence", "after the wait"])
@pytest.mark.parametrize("access", [WRITES_A, READS_A, COPIES_INTO_D, COPIES_A])
def test_registers_are_free_between_wait_and_fence(access, place, policy):
    assert kinds_of(with_access(place, access), policy) == set()


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("place", "kind"), [("before the wait", "accumulator-before-wait"), ("after the fence", "wgmma-fence")]
)
@pytest.mark.parametrize("access", [WRITES_A, READS_A, COPIES_INTO_D, COPIES_A])
def test_fragments_and_accumulators_are_not_between_fence_and_wait(access, place, kind):
    constant = access == WRITES_A and place == "after the fence"
    assert kinds_of(with_access(place, access)) == {"wgmma-serialization" if constant else kind}


@pytest.mark.parametrize("place", ["before the wait", "after the fence"])
def test_who_is_predicated_off_accesses_nothing(place):
    never = f"setp.gt.u32 %more, %t, 1000; @%more {WRITES_A} @%more {COPIES_INTO_D}"
    assert kinds_of(with_access(place, never)) == set()


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("place", "kind"), [("before the wait", "accumulator-before-wait"), ("after the fence", "wgmma-fence")]
)
def test_one_thread_is_enough(place, kind):
    once = f"setp.eq.u32 %more, %t, 7; @%more {COPIES_INTO_D}"
    assert kinds_of(with_access(place, once)) == {kind}
    assert kinds_of(with_access(place, f"setp.gt.u32 %more, %t, 1000; @%more {COPIES_INTO_D} {COPIES_INTO_D}")) == {
        kind
    }


CHAIN = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry chain(.param .u64 out_) {
  .shared .align 128 .b8 tile[512];
  .reg .b64 %out, %b, %wide; .reg .b32 %d<4>, %e<4>, %f<4>, %t, %to;
  ld.param.u64 %out, [out_]; mov.u32 %t, %tid.x;
  mov.u32 %to, tile; mad.lo.u32 %to, %t, 4, %to; st.shared.u32 [%to], 0x3c003c00;
  fence.proxy.async; bar.sync 0;
  mov.u32 %to, tile; shr.u32 %to, %to, 4; cvt.u64.u32 %b, %to; or.b64 %b, %b, 0x1000080000;
  add.u32 %d0, %t, 0; add.u32 %d1, %t, 0; add.u32 %d2, %t, 0; add.u32 %d3, %t, 0;
  add.u32 %e0, %t, 0; add.u32 %e1, %t, 0; add.u32 %e2, %t, 0; add.u32 %e3, %t, 0;
  add.u32 %f0, %t, 0; add.u32 %f1, %t, 0; add.u32 %f2, %t, 0; add.u32 %f3, %t, 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%d0, %d1, %d2, %d3}, {%e0, %e1, %e2, %e3}, %b, 0, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  WAIT
  SECOND
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %wide, %t, 4; add.u64 %out, %out, %wide; st.global.u32 [%out], %e0;
  ret;
}
"""
SECOND = "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {D}, {A}, %b, 0, 1, 1, 0;"
FIRST_D, FIRST_A, OTHERS = "{%d0, %d1, %d2, %d3}", "{%e0, %e1, %e2, %e3}", "{%f0, %f1, %f2, %f3}"


def chain(waits, d, a):
    second = SECOND.replace("{D}", d).replace("{A}", a)
    text = CHAIN.replace("WAIT", "wgmma.wait_group.sync.aligned 0;" if waits else "").replace("SECOND", second)
    return kinds_of(text)


@pytest.mark.parametrize(("d", "a"), [(OTHERS, FIRST_D), (FIRST_A, FIRST_D), (FIRST_A, OTHERS)])
def test_chained_products_wait(d, a):
    """The accumulators of one product as A of the next, and its A as their accumulators."""
    assert chain(True, d, a) == set()


@pytest.mark.planted_fault
@pytest.mark.parametrize(("d", "a"), [(OTHERS, FIRST_D), (FIRST_A, FIRST_D), (FIRST_A, OTHERS)])
def test_chained_products_that_do_not_wait(d, a):
    assert chain(False, d, a) == {"accumulator-before-wait"}


def test_products_of_the_same_fragments_need_no_wait():
    assert chain(False, FIRST_D, FIRST_A) == chain(False, OTHERS, FIRST_A) == set()
