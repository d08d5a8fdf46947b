"""mbarrier.try_wait may give up: kernels that look once and go on are right, those that wait for nothing deadlock."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from support.policies import each_policy
from support.sources import PTX_WRAPPERS
from tilewright.emulator import Deadlock, Device

PEEK = (
    PTX_WRAPPERS
    + """
__device__ int peek(unsigned b, unsigned parity) {
  int done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p;}"
               : "=r"(done) : "r"(b), "r"(parity) : "memory");
  return done;
}
extern "C" __global__ void look(int* out, volatile int* flag) {
  __shared__ __align__(8) unsigned long long barriers[2];
  unsigned first = shared_address(barriers), second = shared_address(barriers + 1);
  int t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(first, 1);
    mbarrier_init(second, 1);
  }
  __syncthreads();
  if (t == 0) {
    int seen = 0;
    for (int round = 0; round < 3; round++) seen += 1 + peek(first, 0) + peek(second, 0);
    *flag = 1;
    mbarrier_arrive(first);
    out[0] = 10 * seen + peek(first, 0);
  } else if (POLL) {
    while (!*flag);
  }
  if (WAIT) mbarrier_wait(second, 0);
  mbarrier_wait(first, 0);
  if (t) out[t] = 1;
}
"""
)


def look(policy, poll=0, wait=0):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out, flag = device.allocate(256), device.upload(np.zeros(1, np.int32))
    ptx = compile_ptx(PEEK, "sm_90a", f"-DPOLL={poll}", f"-DWAIT={wait}")
    device.launch(device.load(ptx), 1, 64, [out, flag])
    return device.read(out, 256).view(np.int32).tolist()


@each_policy
@pytest.mark.parametrize("poll", [0, 1])
def test_a_look_that_nobody_answers_gives_up(policy, poll):
    first, *others = look(policy, poll)
    assert first in (30, 31)  # the last look may give up as well
    assert others == [1] * 63


@pytest.mark.planted_fault
@each_policy
def test_a_loop_that_waits_for_nothing_is_a_deadlock(policy):
    with pytest.raises(Deadlock, match=r"warps 0-1, waiting at .*pending arrivals 1 of 1"):
        look(policy, wait=1)
