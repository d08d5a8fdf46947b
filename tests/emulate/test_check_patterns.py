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
__device__ void wait_for_cluster(unsigned b, unsigned parity) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;"
               " @p bra D; bra W; D: }" :: "r"(b), "r"(parity) : "memory");
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

FREED = """
extern "C" __global__ void kernel(int* out) {
  __shared__ int row[32];
  __shared__ unsigned long long empty;
  unsigned rank, there;
  int t = threadIdx.x;
  asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  row[t] = out[t];
  if (t == 0) init(at(&empty), 32);
  asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  int found = row[t ^ 1];
  asm volatile("" : "+r"(found) :: "memory");
  FREE
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(row + t)), "r"(rank ^ 1));
  asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(there), "r"(found) : "memory");
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  out[32 * blockIdx.x + t] = row[t];
}
"""
ARRIVE_AT_THE_PEER = """
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&empty)), "r"(rank ^ 1));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
"""

TAIL = """
extern "C" __global__ void kernel(int* out) {
  __shared__ unsigned long long empty;
  unsigned rank, there;
  asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) init(at(&empty), 32);
  asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  FREE
}
"""

LATE = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry late() {
  .shared .align 4 .b8 word[4];
  .reg .pred p; .reg .b32 %r<5>;
  mov.u32 %r0, %cluster_ctarank;
  setp.ne.u32 p, %r0, 0;
  mov.u32 %r1, word;
  mapa.shared::cluster.u32 %r2, %r1, 1;
  st.shared.u32 [%r1], %r0;
  barrier.cluster.arrive; barrier.cluster.wait;
  FIRST
  @p exit;
  SECOND
  ret;
}
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"

FLAG = """
extern "C" __global__ void kernel(int* out) {
  volatile int* flag = out + 32;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = 3;
    FENCE_BEFORE
    *flag = -1;
  } else {
    while (*flag != -1) {}
    FENCE_AFTER
    out[1] = out[0];
  }
}
"""

WAIT_AND_READ_OTHERS = "wait(at(&full[slot]), i / 2 & 1); sum += ring[slot][t ^ 1];"
WAIT_AND_READ_OWN = (
    'asm volatile("cp.async.wait_all;" ::: "memory"); sum += ring[slot][t]; wait(at(&full[slot]), i / 2 & 1);'
)
READ_OWN_AT_ONCE = "sum += ring[slot][t];"
FENCE = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'


def kinds(source, sizes, block, cluster=1, asynchrony="eager", grid=None):
    """Launch one cluster, or this many CTAs; returns the kinds of reports and the first buffer."""
    device = Device(memory_bytes=1 << 20, asynchrony=asynchrony)
    buffers = [device.upload(np.arange(size, dtype=np.int32)) for size in sizes]
    device.launch(
        device.load(compile_ptx(WRAPPERS + source)), (grid or cluster,), (block,), buffers, cluster=(cluster,)
    )
    return {report.kind for report in device.reports}, device.read(buffers[0], 4 * sizes[0]).view(np.int32)


@pytest.mark.parametrize("asynchrony", ["eager", "lazy"])
def test_relaxed_arrival_after_the_fence_of_an_initialization(asynchrony):
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


@pytest.mark.parametrize("wait", ["wait(at(&empty), 0);", "wait_for_cluster(at(&empty), 0);"])
def test_arrival_of_any_scope_tells_a_peer_that_reads_are_over(wait):
    """What CUTLASS's pipelines of clusters rely on; see memory-rules.md, "Where practice and the letter differ"."""
    assert kinds(FREED.replace("FREE", ARRIVE_AT_THE_PEER + wait), [64], 32, 2)[0] == set()


@pytest.mark.planted_fault
@pytest.mark.parametrize(("wait", "found"), [("wait(at(&empty), 0);", set()), ("", {"cluster-exit"})])
def test_exit_after_the_last_arrival_of_the_peers(wait, found):
    """CUTLASS's producers end so: they wait for every slot to be free, and the cluster does not meet again."""
    assert kinds(TAIL.replace("FREE", ARRIVE_AT_THE_PEER + wait), [64], 32, 2)[0] == found


@pytest.mark.planted_fault
@pytest.mark.parametrize("meet", ["", MEET])  # of those that have not exited
@pytest.mark.parametrize(
    "access",
    ["ld.shared::cluster.u32 %r3, [%r2]", "st.shared::cluster.u32 [%r2], 5",
     "atom.shared::cluster.add.u32 %r3, [%r2], 5", "red.shared::cluster.add.u32 [%r2], 5"],
)  # fmt: skip
def test_no_access_to_a_peer_that_has_exited(access, meet):
    device = Device(memory_bytes=1 << 20)

    def launch(first, second):
        ptx = LATE.replace("FIRST", first).replace("SECOND", second)
        device.launch(device.load(ptx), (2,), (1,), [], cluster=(2,))

    launch(f"@!p {access}; {MEET}", "")
    assert not device.reports
    launch("", f"{meet} {access};")
    [report] = device.reports
    assert report.kind == "cluster-exit"
    assert "`exit` (PTX line 15)" in report.locations[0]
    assert f"`{access.split()[0]}` (PTX line 16)" in report.locations[1]


@pytest.mark.planted_fault
def test_peer_that_does_not_wait_for_reads_to_be_over():
    assert kinds(FREED.replace("FREE", ARRIVE_AT_THE_PEER), [64], 32, 2)[0] == {"race"}


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("__threadfence();", "__threadfence();", set()),
        ("__threadfence(); __threadfence_block();", "__threadfence_block(); __threadfence();", set()),
        ("__threadfence_block();", "__threadfence();", {"race"}),
        ("__threadfence();", "__threadfence_block();", {"race"}),
    ],
)
def test_a_narrow_fence_takes_nothing_from_a_wide_one(before, after, found):
    source = FLAG.replace("FENCE_BEFORE", before).replace("FENCE_AFTER", after)
    assert kinds(source, [64], 32, grid=2)[0] == found
