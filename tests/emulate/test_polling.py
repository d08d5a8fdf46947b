"""Loops that poll: those that nothing ends are reported soon, and those that end by themselves never."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Deadlock, Device, StepLimit
from tilewright.emulator.machine import machine
from tilewright.emulator.machine.waiting import stillness

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
  const int looks = word[1] + 30;
  for (;;) {
    for (int i = 0; i < looks; ++i) if (word[0] != 0) return;
    __nanosleep(100);
  }
}
extern "C" __global__ void voted(volatile int* word) {
  while (!__any_sync(0xffffffff, *word != 0)) __syncwarp();
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
  while (*word == 0 && clock64() - begun < 64000) {}
  *word = 1;
}
extern "C" __global__ void low_clock(volatile int* word) {
  const unsigned begun = clock();
  while (clock() - begun < 64000u) if (*word != 0) return;
  *word = 1;
}
extern "C" __global__ void late(volatile int* word) {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (*word == 0 && now - begun < 64000);
  *word = 1;
}
__device__ __forceinline__ void meet() {
  int met;
  asm volatile("shfl.sync.idx.b32 %0, 0, 0, 31, 3;" : "=r"(met) : : "memory");
}
extern "C" __global__ void met(volatile int* word) {
  if (threadIdx.x == 0) {
    while (*word == 0) meet();
  } else {
    do {
#pragma unroll
      for (int i = 0; i < 600; ++i) meet();
      *word = 1;
    } while (*word == 0);
  }
}
extern "C" __global__ void looked(volatile int* word) {
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 65;" :: "r"(at(&barrier)) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(at(&barrier)) : "memory");
    *word = 1 + done;
  } else {
    const int looks = word[1] + 30;
    for (;;) for (int i = 0; i < looks; ++i) if (*word != 0) return;
  }
}
"""


@pytest.fixture(scope="module")
def ptx():
    return compile_ptx(KERNELS, "sm_90a")


def launch(ptx, entry, policy, threads):
    """Run a kernel on two zeros and return them."""
    device = Device(memory_bytes=1 << 20, asynchrony=policy)
    words = device.upload(np.zeros(2, np.int32))
    device.launch(device.load(ptx, entry), (1,), (threads,), [words], max_steps=50_000)
    return device.read(words, 8).view(np.int32).tolist()


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("entry", ["flag", "locked", "two_flags", "nested", "voted", "tested"])
def test_loops_that_nothing_ends_are_deadlocks_soon(ptx, monkeypatch, entry, policy):
    monkeypatch.setattr(machine, "POLLING_ROUNDS", 10**9)
    with pytest.raises(Deadlock, match="no thread can go on"):
        launch(ptx, entry, policy, 64)


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("entry", "threads", "first"),
    [
        ("counted", 1, 3000), ("added", 1, 3001), ("arrived", 1, 1), ("elapsed", 1, 1), ("low_clock", 1, 1),
        ("late", 1, 1), ("met", 2, 1), ("looked", 64, 1),
    ],
)  # fmt: skip
def test_loops_that_end_by_themselves_do(ptx, entry, threads, first, policy):
    assert launch(ptx, entry, policy, threads) == [first, 0]


def test_counted_polls_end_with_words_of_their_own(ptx, monkeypatch):
    monkeypatch.setattr(machine, "POLLING_ROUNDS", 150)
    with pytest.raises(
        StepLimit, match=r"polled 150 times.* may give up later.*\n  CTA 0, .* polling memory in the loop"
    ):
        launch(ptx, "counted", "eager", 1)


def test_large_memory_is_looked_at_only_where_registers_stay(ptx, monkeypatch):
    looked = []
    contents = stillness.Stillness._contents
    monkeypatch.setattr(stillness.Stillness, "_contents", lambda still: looked.append(None) or contents(still))
    launch(ptx, "counted", "eager", 1)
    assert not looked
    with pytest.raises(Deadlock):
        launch(ptx, "flag", "eager", 1)
    assert len(looked) == 2
