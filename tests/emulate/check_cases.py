"""Kernels for the tests of the checks, each with a fault that -DFAULT=1 plants.

The line that a report names first is marked /*1*/, the one that it names second /*2*/.
"""

from dataclasses import dataclass

from emulate.test_emulator_async import PTX_WRAPPERS


@dataclass(frozen=True)
class Case:
    """A kernel (int* out, const int* in) over 4096 ints each, and the kind of report that its fault gives."""

    name: str
    kind: str
    source: str
    grid: int = 1
    block: int = 128
    cluster: int = 1
    error: str | None = None  # the emulator's error that the fault ends in, after the report
    policy: tuple[str, int] = ("eager", 0)  # that the fault is seen under
    also: frozenset[str] = frozenset()  # other kinds that follow from the fault


SHARED = [
    Case(
        "block-reduction",
        "race",
        """
extern "C" __global__ void reduce(int* out, const int* in) {
  __shared__ int sums[128];
  int t = threadIdx.x;
  sums[t] = in[t];  /*2*/
  for (int step = 64; step > 0; step /= 2) {
    if (!FAULT) __syncthreads();
    if (t < step) sums[t] += sums[t + step];  /*1*//*2*/
  }
  if (t == 0) out[0] = sums[0];
}""",
    ),
    Case(
        "transpose",
        "race",
        """
__device__ __forceinline__ int fetch(const int (&tile)[8][9], int row, int column) {
  return tile[row][column];  /*1*/
}
extern "C" __global__ void transpose(int* out, const int* in) {
  __shared__ int tile[8][9];
  int x = threadIdx.x % 8, y = threadIdx.x / 8;
  tile[y][x] = in[threadIdx.x];  /*2*/
  if (!FAULT) __syncthreads();
  out[threadIdx.x] = fetch(tile, x, y);
}""",
        block=64,
    ),
    Case(
        "warp-synchronous",
        "race",
        """
extern "C" __global__ void warp_sum(int* out, const int* in) {
  __shared__ volatile int sums[4][32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  sums[warp][lane] = in[t];
  __syncwarp();
  int* row = (int*)sums[warp];
  for (int step = 16; step > 0; step /= 2) {
    int other = row[lane ^ step], own = row[lane];  /*1*/
    __syncwarp();
    row[lane] = own + other;  /*2*/
    if (!FAULT) __syncwarp();
    asm volatile("" ::: "memory");
  }
  out[t] = row[lane];
}""",
    ),
    Case(
        "double-buffer",
        "race",
        """
extern "C" __global__ void ring(int* out, const int* in) {
  __shared__ int stage[2][128];
  int t = threadIdx.x, sum = 0;
  stage[0][t] = in[t];
  __syncthreads();
  #pragma unroll 1
  for (int i = 0; i < 4; i++) {
    int next = FAULT ? i % 2 : (i + 1) % 2;
    sum += stage[i % 2][127 - t];  /*2*/
    stage[next][t] = in[128 * (i + 1) + t];  /*1*/
    __syncthreads();
  }
  out[t] = sum;
}""",
        also=frozenset({"uninitialised-shared"}),
    ),
    Case(
        "histogram",
        "race",
        """
extern "C" __global__ void histogram(int* out, const int* in) {
  __shared__ int bins[16];
  int t = threadIdx.x;
  if (t < 16) bins[t] = 0;
  __syncthreads();
  int bin = in[t] & 15;
#if FAULT
  bins[bin] += 1;  /*1*//*2*/
#else
  atomicAdd(&bins[bin], 1);
#endif
  __syncthreads();
  if (t < 16) out[t] = bins[t];
}""",
    ),
    Case(
        "atomics-mixed-with-plain-accesses",
        "race",
        """
extern "C" __global__ void mixed(int* out, const int* in) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[threadIdx.x]);  /*2*/
  if (!FAULT) __syncthreads();
  if (threadIdx.x == 0) total *= 2;  /*1*/
  __syncthreads();
  out[threadIdx.x] = total;
}""",
    ),
    Case(
        "store-of-different-values-to-one-place",
        "race",
        """
extern "C" __global__ void last_wins(int* out, const int* in) {
  __shared__ int chosen;
  chosen = FAULT ? in[threadIdx.x] : in[0];  /*1*//*2*/
  __syncthreads();
  out[threadIdx.x] = chosen;
}""",
    ),
    Case(
        "uninitialised-shared-memory",
        "uninitialised-shared",
        """
extern "C" __global__ void halo(int* out, const int* in) {
  __shared__ int row[130];
  int t = threadIdx.x;
  row[t + 1] = in[t];
  if (t == 0) row[0] = 0;
  if (t == 0 && !FAULT) row[129] = 0;
  __syncthreads();
  out[t] = row[t] + row[t + 1] + row[t + 2];  /*1*/
}""",
    ),
    Case(
        "named-barriers",
        "race",
        """
extern "C" __global__ void named(int* out, const int* in) {
  __shared__ int box[64];
  int t = threadIdx.x;
  if (t < 64) {
    #pragma unroll 1
    for (int i = 0; i < 3; i++) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      box[t] = in[64 * i + t];  /*1*//*2*/
      asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  } else {
    asm volatile("bar.arrive 1, 128;" ::: "memory");
    #pragma unroll 1
    for (int i = 0; i < 3; i++) {
      asm volatile("bar.sync 2, 128;" ::: "memory");
      if (FAULT && i < 2) asm volatile("bar.arrive 1, 128;" ::: "memory");
      out[64 * i + t - 64] = box[127 - t];  /*1*//*2*/
      if (!FAULT && i < 2) asm volatile("bar.arrive 1, 128;" ::: "memory");
    }
  }
}""",
    ),
    Case(
        "barrier-after-some-threads-have-exited",
        "race",
        """
extern "C" __global__ void early(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x;
  row[t] = in[t];  /*2*/
  if (t >= 64) return;
  if (!FAULT) __syncthreads();
  out[t] = row[64 + t];  /*1*/
}""",
    ),
    Case(
        "atomic-on-uninitialised-shared-memory",
        "uninitialised-shared",
        """
extern "C" __global__ void count(int* out, const int* in) {
  __shared__ int total;
  if (!FAULT && threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[threadIdx.x]);  /*1*/
  __syncthreads();
  out[threadIdx.x] = total;
}""",
    ),
    Case(
        "flag-between-warps",
        "race",
        """
extern "C" __global__ void flag(int* out, const int* in) {
  __shared__ int row[32];
  __shared__ volatile int ready;
  int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t < 32) {
    row[t] = in[t];  /*2*/
    __syncwarp();
    if (!FAULT) __threadfence_block();
    if (t == 0) ready = 1;
  } else {
    while (!ready) {}
    __threadfence_block();
    out[t] = row[63 - t];  /*1*/
  }
}""",
        block=64,
    ),
    Case(
        "twenty-warps",
        "race",
        """
extern "C" __global__ void many(int* out, const int* in) {
  __shared__ int row[640];
  int t = threadIdx.x;
  row[t] = in[t];
  __syncthreads();
  int sum = row[0];  /*2*/
  asm volatile("" : "+r"(sum));
  if (!FAULT || t < 32) __syncwarp();
  if (!FAULT) __syncthreads();
  if (t == 512) row[0] = 0;  /*1*/
  out[t] = sum;
}""",
        block=640,
    ),
    Case(
        "half-of-the-threads-meet",
        "race",
        """
extern "C" __global__ void halves(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x;
  row[t] = in[t];  /*2*/
  asm volatile("bar.sync %0, 64;" :: "r"(1 + t / 64) : "memory");
  out[t] = row[FAULT ? 127 - t : t / 64 * 64 + 63 - t % 64];  /*1*/
}""",
    ),
]

GLOBAL = [
    Case(
        "in-place-shift",
        "race",
        """
extern "C" __global__ void shift(int* out, const int*) {
  int i = threadIdx.x, right = i < 127 ? out[i + 1] : 0;  /*2*/
  asm volatile("" : "+r"(right));
  int own = out[i];
  if (!FAULT) __syncthreads();
  out[i] = own + right;  /*1*/
}""",
    ),
    Case(
        "in-place-update",
        "race",
        """
extern "C" __global__ void scale(int* out, const int*) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = 2 * out[FAULT ? i ^ 128 : i];  /*1*//*2*/
}""",
        grid=2,
    ),
    Case(
        "broadcast-read-before-the-last-thread-writes",
        "race",
        """
extern "C" __global__ void broadcast(int* out, const int*) {
  int value = out[0];  /*2*/
  asm volatile("" : "+r"(value));
  if (!FAULT) __syncthreads();
  if (threadIdx.x == 127) out[0] = value + 1;  /*1*/
}""",
    ),
    Case(
        "grid-stride-sum",
        "race",
        """
extern "C" __global__ void sum(int* out, const int* in) {
  int total = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1000; i += gridDim.x * blockDim.x) total += in[i];
#if FAULT
  out[0] += total;  /*1*//*2*/
#else
  atomicAdd(out, total);
#endif
}""",
        grid=3,
    ),
    Case(
        "flag-between-blocks",
        "race",
        """
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];  /*2*/
    __syncthreads();
    if (threadIdx.x == 0) {
      if (!FAULT) __threadfence();
      *ready = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*ready != 1) {}
      if (!FAULT) __threadfence();
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[127 - threadIdx.x];  /*1*/
  }
}""",
        grid=2,
    ),
    Case(
        "flag-with-the-fence-of-a-block",
        "race",
        """
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = in[0];  /*2*/
    if (FAULT) __threadfence_block(); else __threadfence();
    *ready = 1;
  } else if (threadIdx.x == 0) {
    while (*ready != 1) {}
    __threadfence();
    out[1] = out[0];  /*1*/
  }
}""",
        grid=2,
        block=32,
    ),
    Case(
        "flag-with-acquire-and-release",
        "race",
        """
extern "C" __global__ void flag(int* out, const int* in) {
  int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];  /*2*/
    __syncthreads();
    if (threadIdx.x == 0) {
      if (FAULT) asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" :: "l"(ready) : "memory");
      else asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(ready) : "memory");
    }
  } else {
    if (threadIdx.x == 0) {
      int seen;
      do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(ready) : "memory");
      } while (seen != 1);
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[127 - threadIdx.x];  /*1*/
  }
}""",
        grid=2,
    ),
    Case(
        "flag-without-the-barrier-of-the-block",
        "race",
        """
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];  /*2*/
    __threadfence();
    if (!FAULT) __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      *ready = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*ready != 1) {}
      __threadfence();
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[127 - threadIdx.x];  /*1*/
  }
}""",
        grid=2,
    ),
    Case(
        "last-block",
        "race",
        """
extern "C" __global__ void last_block(int* out, const int* in) {
  __shared__ bool last;
  unsigned* tickets = (unsigned*)out + 1024;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[blockIdx.x];  /*2*/
    if (!FAULT) __threadfence();
    last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) out[64 + threadIdx.x] = out[threadIdx.x];  /*1*/
}""",
        grid=5,
    ),
    Case(
        "relay-of-three-blocks",
        "race",
        """
extern "C" __global__ void relay(int* out, const int* in) {
  volatile int* turn = out + 1024;
  if (threadIdx.x == 0) {
    while (*turn != blockIdx.x) {}
    if (!FAULT || blockIdx.x != 2) __threadfence();
    out[blockIdx.x] = in[blockIdx.x];  /*2*/
    if (blockIdx.x == 2) out[8] = out[0] + out[1];  /*1*/
    __threadfence();
    *turn = blockIdx.x + 1;
  }
}""",
        grid=3,
        block=32,
    ),
    Case(
        "spin-lock",
        "race",
        """
extern "C" __global__ void lock(int* out, const int* in) {
  int* mutex = out + 1024;
  if (threadIdx.x == 0) {
    while (atomicCAS(mutex, 0, 1) != 0) {}
    if (!FAULT) __threadfence();
    ((volatile int*)out)[1] = blockIdx.x;
    out[0] = out[0] + in[blockIdx.x];  /*1*//*2*/
    if (!FAULT) __threadfence();
    atomicExch(mutex, 0);
  }
}""",
        grid=4,
        block=32,
    ),
    Case(
        "atomic-with-release-and-acquire",
        "race",
        """
extern "C" __global__ void count(int* out, const int* in) {
  int* counter = out + 1024, found;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[blockIdx.x];  /*2*/
    if (FAULT) asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;" : "=r"(found) : "l"(counter) : "memory");
    else asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(found) : "l"(counter) : "memory");
    if (found == 3) for (int i = 0; i < 4; i++) out[64 + i] = out[i];  /*1*/
  }
}""",
        grid=4,
        block=32,
    ),
]

REGISTERS = [
    Case(
        "setmaxnreg-without-release",
        "register-budget",
        """
extern "C" __global__ void __launch_bounds__(384, 1) budget(int* out, const int* in) {
  if (threadIdx.x < 128) {
    if (!FAULT) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");  /*1*/
  }
  out[threadIdx.x] = in[threadIdx.x];
}""",
        block=384,
    ),
    Case(
        "aligned-barrier-in-a-divergent-branch",
        "divergent-collective",
        """
extern "C" __global__ void diverge(int* out, const int* in) {
  __shared__ int row[64];
  int t = threadIdx.x;
  row[t] = in[t];
  if (!FAULT || t < 48) asm volatile("barrier.sync.aligned 1, 64;" ::: "memory");  /*1*/
  else asm volatile("barrier.sync.aligned 2, 64;" ::: "memory");  /*1*/
  out[t] = row[63 - t];
}""",
        block=64,
        error="Deadlock",
    ),
]

COPIES = [
    Case(
        "cp.async-group-too-many",
        "read-before-wait",
        """
extern "C" __global__ void pipeline(int* out, const int* in) {
  __shared__ __align__(16) int ring[3][128];
  int t = threadIdx.x;
  auto fetch = [&](int i) {
    unsigned to = (unsigned)__cvta_generic_to_shared(&ring[i % 3][t]);
    if (i < 6) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(in + 128 * i + t) : "memory");  /*2*/
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  fetch(1);
  #pragma unroll 1
  for (int i = 0; i < 6; i++) {
    asm volatile("cp.async.wait_group %0;" :: "n"(FAULT ? 2 : 1) : "memory");
    __syncthreads();
    fetch(i + 2);
    out[128 * i + t] = ring[i % 3][t];  /*1*/
  }
}""",
    ),
    Case(
        "cp.async-wait-without-barrier",
        "race",
        """
extern "C" __global__ void copy(int* out, const int* in) {
  __shared__ __align__(16) int row[512];
  int t = threadIdx.x, left = 300 - 4 * t;
  unsigned to = (unsigned)__cvta_generic_to_shared(row + 4 * t), bytes = left >= 4 ? 16 : left > 0 ? 4 * left : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(in + 4 * t), "r"(bytes) : "memory");  /*2*/
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (!FAULT) __syncthreads();
  for (int i = 0; i < 4; i++) out[i * 128 + t] = row[511 - i * 128 - t];  /*1*/
}""",
    ),
    Case(
        "cp.async-ignored-source-over-a-slot-being-read",
        "race",
        """
extern "C" __global__ void ignored(int* out, const int* in) {
  __shared__ __align__(16) int row[128];
  int t = threadIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(row + t);
  row[t] = in[t];
  __syncthreads();
  out[t] = row[127 - t];  /*2*/
  if (!FAULT) __syncthreads();
  asm volatile("{.reg .pred p; setp.ge.u32 p, %2, 64;"  /*1*/
               " cp.async.ca.shared.global [%0], [%1], 4, p;}" :: "r"(to), "l"(in + t), "r"(t) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[128 + t] = row[t];
}""",
    ),
    Case(
        "cp.async-arrival-without-wait",
        "read-before-wait",
        """
extern "C" __global__ void arrive(int* out, const int* in) {
  __shared__ __align__(16) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 128);
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(row + t)), "l"(in + t) : "memory");  /*2*/
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(b) : "memory");
  if (!FAULT) mbarrier_wait(b, 0);
  out[t] = row[t];  /*1*/
}""",
    ),
]

BULK = r"""
__device__ __forceinline__ void bulk_load(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, unsigned from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(from), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""

ASYNC = [
    Case(
        "wrong-parity",
        "read-before-wait",
        """
extern "C" __global__ void parity(int* out, const int* in) {
  __shared__ __align__(128) int ring[2][128];
  __shared__ u64 barriers[2];
  int t = threadIdx.x;
  unsigned full = shared_address(barriers);
  if (t == 0) { mbarrier_init(full, 1); mbarrier_init(full + 8, 1); }
  __syncthreads();
  #pragma unroll 1
  for (int i = 0; i < 4; i++) {
    if (t == 0) {
      mbarrier_expect(full + i % 2 * 8, 512);
      bulk_load(shared_address(ring[i % 2]), in + 128 * i, 512, full + i % 2 * 8);  /*2*/
    }
    mbarrier_wait(full + i % 2 * 8, (i / 2 + FAULT) & 1);
    out[128 * i + t] = ring[i % 2][t];  /*1*/
    __syncthreads();
  }
}""",
        error="BarrierProtocol",
        policy=("lazy", 0),
        also=frozenset({"overwrite-before-wait"}),
    ),
    Case(
        "test_wait-loop",
        "read-before-wait",
        """
extern "C" __global__ void poll(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  __syncthreads();
  if (t == 0) {
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b);  /*2*/
  }
  unsigned done = 0;
  do {
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(b) : "memory");
  } while (!done && !FAULT);
  out[t] = row[t];  /*1*/
}""",
        error="BarrierProtocol",
        policy=("lazy", 0),
        also=frozenset({"cluster-exit"}),
    ),
    Case(
        "slot-refilled-while-it-is-read",
        "overwrite-before-wait",
        """
extern "C" __global__ void refill(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  __syncthreads();
  #pragma unroll 1
  for (int i = 0; i < 3; i++) {
    if (t == 0) {
      mbarrier_expect(b, 512);
      bulk_load(shared_address(row), in + 128 * i, 512, b);  /*1*/
    }
    mbarrier_wait(b, i & 1);
    out[128 * i + t] = row[127 - t];  /*2*/
    if (!FAULT) __syncthreads();
  }
}""",
    ),
    Case(
        "store-without-fence",
        "proxy-fence",
        """
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[t];  /*2*/
  if (!FAULT) proxy_fence();
  __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 512);  /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}""",
    ),
    Case(
        "store-fenced-by-its-issuer",
        "proxy-fence",
        """
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[t];  /*2*/
  if (FAULT && t == 0) proxy_fence();
  __syncthreads();
  if (t == 0) {
    if (!FAULT) proxy_fence();
    bulk_store(out, shared_address(row), 512);  /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}""",
    ),
    Case(
        "store-without-barrier",
        "race",
        """
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[t];  /*2*/
  proxy_fence();
  if (!FAULT) __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 512);  /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}""",
    ),
    Case(
        "store-buffer-reused",
        "overwrite-before-wait",
        """
extern "C" __global__ void reuse(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  #pragma unroll 1
  for (int i = 0; i < 3; i++) {
    if (!FAULT && t == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncthreads();
    row[t] = in[128 * i + t];  /*1*/
    proxy_fence();
    __syncthreads();
    if (t == 0) bulk_store(out + 128 * i, shared_address(row), 512);  /*2*/
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}""",
    ),
    Case(
        "store-of-memory-that-is-half-written",
        "uninitialised-shared",
        """
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  if (t < 64 || !FAULT) row[t] = in[t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 512);  /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}""",
    ),
    Case(
        "slot-written-while-wgmma-reads-it",
        "overwrite-before-wait",
        """
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tiles[64 * 8 + 8 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) tiles[i] = in[i];
  proxy_fence();
  __syncthreads();
  unsigned base = shared_address(tiles);
  u64 a = base >> 4 | 8ull << 16 | 16ull << 32, b = (base + 2048) >> 4 | 8ull << 16 | 16ull << 32;
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]));
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"  /*2*/
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (!FAULT) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  if (!FAULT) __syncthreads();
  tiles[t] = 0;  /*1*/
  if (FAULT) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]);
}""",
    ),
    Case(
        "accumulator-read-before-wait",
        "accumulator-before-wait",
        """
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tiles[64 * 8 + 8 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) tiles[i] = in[i];
  proxy_fence();
  __syncthreads();
  unsigned base = shared_address(tiles);
  u64 a = base >> 4 | 8ull << 16 | 16ull << 32, b = (base + 2048) >> 4 | 8ull << 16 | 16ull << 32;
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]));
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"  /*2*/
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(FAULT ? 1 : 0) : "memory");
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]);  /*1*/
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}""",
    ),
    Case(
        "accumulator-without-fence",
        "wgmma-fence",
        """
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tiles[64 * 8 + 8 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) tiles[i] = in[i];
  proxy_fence();
  __syncthreads();
  unsigned base = shared_address(tiles);
  u64 a = base >> 4 | 8ull << 16 | 16ull << 32, b = (base + 2048) >> 4 | 8ull << 16 | 16ull << 32;
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]));  /*2*/
  if (!FAULT) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"  /*1*//*2*/
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]);
}""",
    ),
    Case(
        "mbarrier-initialised-without-barrier",
        "mbarrier-init",
        """
extern "C" __global__ void early(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    mbarrier_init(b, 1);  /*2*/
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b);
  }
  if (!FAULT) __syncthreads();
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra D; bra W; D: }"  /*1*/
               :: "r"(b) : "memory");
  out[t] = row[t];
}""",
    ),
    Case(
        "mbarrier-of-a-peer-without-fence",
        "mbarrier-init",
        """
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");  /*2*/
    if (!FAULT) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  if (t == 0) mbarrier_arrive_at_rank(b, blockIdx.x ^ 1);  /*1*/
  mbarrier_wait(b, 0);
  out[blockIdx.x * 128 + t] = in[t];
  cluster_sync();
}""",
        grid=2,
        cluster=2,
    ),
    Case(
        "exit-before-the-peer-has-read",
        "cluster-exit",
        """
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x, value;
  row[t] = in[128 * blockIdx.x + t];
  cluster_sync();
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %1, %2; ld.shared::cluster.s32 %0, [r];}"
               : "=r"(value) : "r"(shared_address(row + t)), "r"(blockIdx.x ^ 1) : "memory");
  out[128 * blockIdx.x + t] = value;
  if (!FAULT) cluster_sync();
}""",
        grid=2,
        cluster=2,
    ),
    Case(
        "relaxed-cluster-barrier",
        "race",
        """
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x, value;
  row[t] = in[128 * blockIdx.x + t];  /*2*/
  if (FAULT) asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  else cluster_sync();
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %1, %2; ld.shared::cluster.s32 %0, [r];}"  /*1*/
               : "=r"(value) : "r"(shared_address(row + 127 - t)), "r"(blockIdx.x ^ 1) : "memory");
  out[128 * blockIdx.x + t] = value;
  cluster_sync();
}""",
        grid=2,
        cluster=2,
    ),
    Case(
        "peer-written-while-it-reads",
        "race",
        """
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x, value;
  row[t] = in[128 * blockIdx.x + t];  /*2*/
  __syncthreads();
  value = row[127 - t];  /*2*/
  asm volatile("" : "+r"(value) :: "memory");
  if (FAULT) __syncthreads(); else cluster_sync();
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; st.shared::cluster.s32 [r], %2;}"  /*1*/
               :: "r"(shared_address(row + t)), "r"(blockIdx.x ^ 1), "r"(value) : "memory");
  cluster_sync();
  out[128 * blockIdx.x + t] = row[t];
}""",
        grid=2,
        cluster=2,
    ),
]


def _with(prelude: str, cases: list[Case]) -> list[Case]:
    """The cases with a prelude before their sources."""
    return [Case(**{**vars(case), "source": prelude + case.source}) for case in cases]


CASES = [*SHARED, *GLOBAL, *REGISTERS, *_with(PTX_WRAPPERS, COPIES), *_with(PTX_WRAPPERS + BULK, ASYNC)]
