"""Loops that poll: those that nothing ends are reported soon, and those that end by themselves never."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Deadlock, Device
from tilewright.emulator.machine import machine

KERNELS = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void flag(volatile int* word) { while (*word == 0) {} }
extern "C" __global__ void locked(volatile int* word) {
  while (atomicCAS((int*)word, 0, 1) != 0) {}
  __syncwarp();
  *word = 2;
}
extern "C" __global__ void two_flags(volatile int* word) {
  if (threadIdx.x == 0) { while (word[0] == 0) {} word[1] = 1; }
  if (threadIdx.x == 32) { while (word[1] == 0) __nanosleep(20); word[0] = 1; }
}
extern "C" __global__ void nested(volatile int* word) {
  for (;;) {
    for (int i = 0; i < 3; ++i) if (word[0] != 0) return;
  }
}
extern "C" __global__ void tested(volatile int* word) {
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 65;" :: "r"(at(&barrier)) : "memory");
  __syncthreads();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&barrier)) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(at(&barrier)) : "memory");
}
extern "C" __global__ void counted(volatile int* word) {
  int i = 0;
  while (i < 3000 && *word == 0) ++i;
  *word = i;
}
extern "C" __global__ void added(volatile int* word) {
  while (atomicAdd((int*)word, 1) < 3000) {}
}
extern "C" __global__ void arrived(volatile int* word) {
  __shared__ unsigned long long barrier;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 3000;" :: "r"(at(&barrier)) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.arrive.shared::cta.b64 _, [%1];"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(at(&barrier)) : "memory");
  *word = 1;
}
extern "C" __global__ void elapsed(volatile int* word) {
  const long long begun = clock64();
  while (clock64() - begun < 2000) if (*word != 0) return;
  *word = 1;
}
"""


@pytest.fixture(scope="module")
def ptx():
    return compile_ptx(KERNELS, "sm_90a")


def launch(ptx, entry, policy, threads):
    """Run a kernel on two zeros and return them."""
    device = Device(memory_bytes=1 << 20, asynchrony=policy)
    words = device.upload(np.zeros(2, np.int32))
    device.launch(device.load(ptx, entry), (1,), (threads,), [words])
    return device.read(words, 8).view(np.int32).tolist()


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("entry", ["flag", "locked", "two_flags", "nested", "tested"])
def test_loops_that_nothing_ends_are_deadlocks_soon(ptx, monkeypatch, entry, policy):
    monkeypatch.setattr(machine, "POLLING_ROUNDS", 10**9)
    with pytest.raises(Deadlock, match="no thread can go on"):
        launch(ptx, entry, policy, 64)


@pytest.mark.parametrize(
    ("entry", "words"), [("counted", [3000, 0]), ("added", [3001, 0]), ("arrived", [1, 0]), ("elapsed", [1, 0])]
)
def test_loops_that_end_by_themselves_do(ptx, entry, words):
    assert launch(ptx, entry, "lazy", 1) == words
