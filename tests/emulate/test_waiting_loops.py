"""Loops that wait for another thread to write end, whatever else they do and wherever they lie in the text."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device

CTAS = 4

ACCESS = """
__device__ int acquire(const int* flag) {
  int found;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  return found;
}
__device__ void release(int* flag, int value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
"""

IN_TURN = {
    "a semaphore that all threads wait at": """
        int state = -1;
        while (__syncthreads_and(state != cta)) if (t == 0) state = acquire(turn);
        out[t] += cta + 1;
        __syncthreads();
        if (t == 0) release(turn, cta + 1);""",
    "a pause between two looks": """
        if (t == 0) {
          int pause = 0;
          while (acquire(turn) != cta)
            for (int i = 0; i < cta; i++) asm volatile("add.s32 %0, %0, 1;" : "+r"(pause));
          for (int i = 0; i < 64; i++) out[i] += cta + 1;
          release(turn, cta + 1);
        }""",
    "work found in the loop": """
        for (int done = 0; t == 0 && !done;) {
          if (acquire(turn) != cta) {
            __nanosleep(20);
            continue;
          }
          for (int i = 0; i < 64; i++) out[i] += cta + 1;
          release(turn, cta + 1);
          done = 1;
        }""",
    "a lock taken in the loop": """
        while (t == 0) {
          if (atomicCAS(turn, 0, 1)) continue;
          __threadfence();
          for (int i = 0; i < 64; i++) out[i] += cta + 1;
          __threadfence();
          atomicExch(turn, 0);
          break;
        }""",
}


@pytest.mark.parametrize("asynchrony", ["eager", "lazy"])
@pytest.mark.parametrize("name", IN_TURN)
def test_who_waits_lets_the_others_run(name, asynchrony):
    head = "int t = threadIdx.x, cta = blockIdx.x;"
    ptx = compile_ptx(f'{ACCESS} extern "C" __global__ void kernel(int* out, int* turn) {{ {head} {IN_TURN[name]} }}')
    device = Device(memory_bytes=1 << 20, asynchrony=asynchrony)
    out, turn = device.upload(np.zeros(64, np.int32)), device.upload(np.zeros(1, np.int32))
    device.launch(device.load(ptx), CTAS, 64, [out, turn], max_steps=20_000)
    assert device.read(out, 256).view(np.int32).tolist() == [CTAS * (CTAS + 1) // 2] * 64
