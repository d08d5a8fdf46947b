"""An asynchronous operation takes its operands at issue: rewriting these registers at once changes nothing.

Each kernel issues in a loop, rewrites the operands in another basic block, and waits after the loop.
"""

import numpy as np
import pytest

from support.policies import each_policy
from tilewright.emulator import Device

KERNEL = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry rounds(.param .u64 out_, .param .u64 in_) {
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b8 barrier[8];
  .reg .b64 %out, %in, %of, %wide; .reg .b32 %t, %i, %to, %signal, %size, %value, %rank; .reg .pred %p, %leads;
  ld.param.u64 %out, [out_]; ld.param.u64 %in, [in_];
  mov.u32 %t, %tid.x; setp.eq.u32 %leads, %t, 0;
  mov.u32 %rank, %cluster_ctarank; mul.wide.u32 %wide, %rank, 1024; add.u64 %out, %out, %wide;
  mov.u32 %to, tile; mad.lo.u32 %to, %t, 4, %to;
  mov.u32 %i, 0;
  st.shared.u32 [%to], %i; st.shared.u32 [%to+128], %i; st.shared.u32 [%to+256], %i; st.shared.u32 [%to+384], %i;
  mov.u32 %signal, barrier;
  @%leads mbarrier.init.shared::cta.b64 [%signal], 1;
  fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
  START
Loop:
  ISSUE
  setp.eq.u32 %p, %i, 5;
  @%p bra Rewrite;
  add.u32 %value, %value, 3;
Rewrite:
  REWRITE
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 3;
  @%p bra Loop;
  FINISH
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
}
"""
WAIT_FOR_THE_MBARRIER = """
  mov.u32 %signal, barrier;
Wait:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%signal], 0;
  @!%p bra Wait;
"""
STORE_THE_TILE = """
  mov.u32 %to, tile; mad.lo.u32 %to, %t, 4, %to;
  mul.wide.u32 %wide, %t, 4; add.u64 %out, %out, %wide;
  ld.shared.u32 %value, [%to]; st.global.u32 [%out], %value;
  ld.shared.u32 %value, [%to+128]; st.global.u32 [%out+128], %value;
  ld.shared.u32 %value, [%to+256]; st.global.u32 [%out+256], %value;
  ld.shared.u32 %value, [%to+384]; st.global.u32 [%out+384], %value;
"""

CP_ASYNC = {
    "START": "mul.wide.u32 %wide, %t, 4; add.u64 %of, %in, %wide; mov.u32 %size, 4;",
    "ISSUE": "cp.async.ca.shared.global [%to], [%of], 4, %size;",
    "REWRITE": "add.u32 %to, %to, 128; add.u64 %of, %of, 256; sub.u32 %size, %size, 1;",
    "FINISH": "cp.async.wait_all;" + STORE_THE_TILE,
}
"""Rows of 32 words, of each word 4, 3 and 2 bytes."""

BULK_LOAD = {
    "START": """
  @%leads mbarrier.arrive.expect_tx.shared::cta.b64 _, [%signal], 240;
  mov.u64 %of, %in; mov.u32 %size, 64;""",
    "ISSUE": "@%leads cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    " [%to], [%of], %size, [%signal];",
    "REWRITE": "add.u32 %to, %to, 128; add.u64 %of, %of, 256; add.u32 %size, %size, 16;",
    "FINISH": WAIT_FOR_THE_MBARRIER + STORE_THE_TILE,
}
"""Rows of 32 words, of each the first 16, 20 and 24."""

BULK_STORE = {
    "START": """
  mul.wide.u32 %wide, %t, 4; add.u64 %of, %in, %wide;
  ld.global.u32 %value, [%of]; st.shared.u32 [%to], %value;
  ld.global.u32 %value, [%of+256]; st.shared.u32 [%to+128], %value;
  ld.global.u32 %value, [%of+512]; st.shared.u32 [%to+256], %value;
  fence.proxy.async; bar.sync 0;
  mov.u64 %of, %out; mov.u32 %size, 64;""",
    "ISSUE": "@%leads cp.async.bulk.global.shared::cta.bulk_group [%of], [%to], %size;"
    " @%leads cp.async.bulk.commit_group;",
    "REWRITE": "add.u32 %to, %to, 128; add.u64 %of, %of, 128; add.u32 %size, %size, 16;",
    "FINISH": "cp.async.bulk.wait_group 0;",
}

REMOTE_STORE = {
    "START": """
  @%leads mbarrier.arrive.expect_tx.shared::cta.b64 _, [%signal], 384;
  xor.b32 %rank, %rank, 1; mapa.shared::cluster.u32 %to, %to, %rank; mapa.shared::cluster.u32 %signal, %signal, %rank;
  mul.wide.u32 %wide, %t, 4; add.u64 %of, %in, %wide; ld.global.u32 %value, [%of];""",
    "ISSUE": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%to], %value, [%signal];",
    "REWRITE": "add.u32 %to, %to, 128; add.u64 %of, %of, 256; ld.global.u32 %value, [%of];",
    "FINISH": WAIT_FOR_THE_MBARRIER + STORE_THE_TILE,
}


def rows_of(counts, period):
    """Rows 0, 2 and 4 of the input in bytes, of each `period` bytes the first so many; then a row of zeros."""
    rows = np.zeros((4, 128), np.uint8)
    copied = np.arange(128) % period < np.array(counts)[:, None]
    rows[:3] = INPUT.reshape(8, 32)[:6:2].view(np.uint8) * copied
    return rows


INPUT = np.random.default_rng(0).integers(1 << 24, 1 << 31, 256).astype(np.uint32)
KERNELS = {
    "cp.async": (CP_ASYNC, 1, rows_of([4, 3, 2], 4)),
    "bulk load": (BULK_LOAD, 1, rows_of([64, 80, 96], 128)),
    "bulk store": (BULK_STORE, 1, rows_of([64, 80, 96], 128)),
    "st.async": (REMOTE_STORE, 2, rows_of([128, 128, 128], 128)),
}


@each_policy
@pytest.mark.parametrize("name", KERNELS)
def test_operands_that_are_rewritten_at_once(name, policy):
    parts, cluster, expected = KERNELS[name]
    text = KERNEL
    for part, instructions in parts.items():
        text = text.replace(f"  {part}\n", f"  {instructions}\n")
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out = device.upload(np.zeros((cluster, 1024), np.uint8))
    device.launch(device.load(text), (cluster,), (32,), [out, device.upload(INPUT)], cluster=(cluster,))
    stored = device.read(out, 1024 * cluster).reshape(cluster, 1024)[:, :512].reshape(cluster, 4, 128)
    np.testing.assert_array_equal(stored, np.broadcast_to(expected, stored.shape))
