"""Patterns of real kernels that the checks must tell from their faulty twins."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device

WRAPPERS = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n)); }
__device__ void wait(unsigned b, unsigned parity) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }"
               :: "r"(b), "r"(parity) : "memory");
}
__device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(to)), "l"(from) : "memory");
}
__device__ void arrive_when_copied(unsigned b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(b) : "memory");
}
"""

RELAXED_CLUSTER = """
extern "C" __global__ void kernel(int* out) {
  __shared__ unsigned long long arrived;
  unsigned rank;
  asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    init(at(&arrived), 1);
    FENCE
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];}" :: "r"(at(&arrived)), "r"(rank ^ 1));
  }
  wait(at(&arrived), 0);
  out[blockIdx.x * 32 + threadIdx.x] = rank;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""

COPIES = """
extern "C" __global__ void kernel(int* out, const int* in) {
  __shared__ int ring[2][32];
  __shared__ unsigned long long full[2];
  int t = threadIdx.x;
  if (t < 2) init(at(&full[t]), 32);
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 6; i++) {
    int slot = i % 2;
    copy(&ring[slot][t], in + 32 * i + t);
    arrive_when_copied(at(&full[slot]));
    READ
    __syncthreads();
  }
  out[t] = sum;
}
"""

NAMED = """
extern "C" __global__ void kernel(int* out) {
  __shared__ int x;
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) x = out[5];
    asm volatile("bar.WRITER 1, 256;" ::: "memory");
  } else {
    asm volatile("bar.READER 1, 256;" ::: "memory");
    out[threadIdx.x - 128] = x;
  }
}
"""

WAIT_AND_READ_OTHERS = "wait(at(&full[slot]), i / 2 & 1); sum += ring[slot][t ^ 1];"
WAIT_AND_READ_OWN = (
    'asm volatile("cp.async.wait_all;" ::: "memory"); sum += ring[slot][t]; wait(at(&full[slot]), i / 2 & 1);'
)
READ_OWN_AT_ONCE = "sum += ring[slot][t];"
FENCE = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'


def kinds(source, sizes, block, cluster=1, asynchrony="eager"):
    """Launch one cluster; returns the kinds of reports and the first buffer."""
    device = Device(memory_bytes=1 << 20, asynchrony=asynchrony)
    buffers = [device.upload(np.arange(size, dtype=np.int32)) for size in sizes]
    device.launch(device.load(compile_ptx(WRAPPERS + source)), (cluster,), (block,), buffers, cluster=(cluster,))
    return {report.kind for report in device.reports}, device.read(buffers[0], 4 * sizes[0]).view(np.int32)


@pytest.mark.parametrize("asynchrony", ["eager", "lazy"])
def test_relaxed_arrival_after_the_fence_of_an_initialisation(asynchrony):
    assert kinds(RELAXED_CLUSTER.replace("FENCE", FENCE), [64], 32, 2, asynchrony)[0] == set()


@pytest.mark.planted_fault
def test_relaxed_arrival_without_that_fence():
    assert kinds(RELAXED_CLUSTER.replace("FENCE", ""), [64], 32, 2)[0] == {"mbarrier-init"}


@pytest.mark.parametrize("asynchrony", ["eager", "lazy"])
@pytest.mark.parametrize(("read", "whose"), [(WAIT_AND_READ_OTHERS, 1), (WAIT_AND_READ_OWN, 0)])
def test_copies_that_signal_an_mbarrier(read, whose, asynchrony):
    found, out = kinds(COPIES.replace("READ", read), [32, 192], 32, asynchrony=asynchrony)
    assert found == set()
    np.testing.assert_array_equal(out, np.arange(192).reshape(6, 32)[:, np.arange(32) ^ whose].sum(axis=0))


@pytest.mark.planted_fault
def test_copies_that_signal_an_mbarrier_read_at_once():
    assert kinds(COPIES.replace("READ", READ_OWN_AT_ONCE), [32, 192], 32)[0] == {"read-before-wait"}


def test_named_barrier_whose_writers_only_arrive():
    assert kinds(NAMED.replace("WRITER", "arrive").replace("READER", "sync"), [128], 256)[0] == set()


@pytest.mark.planted_fault
def test_named_barrier_whose_readers_only_arrive():
    assert kinds(NAMED.replace("WRITER", "sync").replace("READER", "arrive"), [128], 256)[0] == {"race"}
