// PTX instructions as functions, for the kernels in this folder.
typedef unsigned long long u64;
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void mbarrier_init(unsigned b, int n) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;" ::"r"(b),
      "r"(n)
      : "memory");
}
__device__ void mbarrier_expect(unsigned b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes)
               : "memory");
}
__device__ void mbarrier_arrive_at_rank(unsigned b, int rank) {
  asm volatile(
      "{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1;"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];}" ::"r"(b),
      "r"(rank)
      : "memory");
}
__device__ void mbarrier_wait(unsigned b, unsigned parity) {
  asm volatile(
      "{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: "
      "}" ::"r"(b),
      "r"(parity)
      : "memory");
}
__device__ void mbarrier_wait_for_cluster(unsigned b, unsigned parity) {
  asm volatile(
      "{.reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @p "
      "bra D;"
      " bra W; D: }" ::"r"(b),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void release_flag(int* flag) {
  asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ __forceinline__ void acquire_flag(int* flag) {
  int ready = 0;
  while (!ready) {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
  }
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
__device__ __forceinline__ void bulk_load(unsigned to, const void* from, int bytes,
                                          unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, unsigned from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_reduce(int* to, unsigned from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(
                   to),
               "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Copies to the same variable of another block of the cluster, and signals that block's mbarrier.
__device__ __forceinline__ void bulk_copy_to_rank(const void* to, const void* from, int bytes,
                                                  unsigned barrier, int rank) {
  asm volatile(
      "{.reg .b32 t, b; mapa.shared::cluster.u32 t, %0, %4; mapa.shared::cluster.u32 b, %3, %4;"
      " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [t], [%1], %2, "
      "[b];}" ::"r"(shared_address(to)),
      "r"(shared_address(from)), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
}
__device__ __forceinline__ void bulk_reduce_to_rank(const void* to, const void* from, int bytes,
                                                    unsigned barrier, int rank) {
  asm volatile(
      "{.reg .b32 t, b; mapa.shared::cluster.u32 t, %0, %4; mapa.shared::cluster.u32 b, %3, %4;"
      " cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [t], "
      "[%1], %2, [b];}" ::"r"(shared_address(to)),
      "r"(shared_address(from)), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
}
__device__ __forceinline__ void proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ u64 descriptor(const void* tile) {
  return shared_address(tile) >> 4 | 8ull << 16 | 16ull << 32;
}
// d += A B^T, for tiles A (64, 16) and B (8, 16).
__device__ __forceinline__ void multiply(float (&d)[4], const void* a, const void* b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
      " wgmma.commit_group.sync.aligned;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(a)), "l"(descriptor(b))
      : "memory");
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int pending = 0>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
__device__ unsigned at_rank(unsigned address, int rank) {
  unsigned mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
__device__ void store_at_rank(unsigned address, int rank, int value) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(at_rank(address, rank)), "r"(value)
               : "memory");
}
__device__ __forceinline__ void send_to_rank(unsigned to, unsigned barrier, int rank, int value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(
          at_rank(to, rank)),
      "r"(value), "r"(at_rank(barrier, rank))
      : "memory");
}
struct __align__(128) Map {
  u64 opaque[16];
};
// A tensor map of 32 integers in a row.
__device__ __forceinline__ void make_map(Map* map, const int* in) {
  for (int i = 0; i < 16; i++) map->opaque[i] = 0;
#define REPLACE(field) "tensormap.replace.tile." field
  asm volatile(
      REPLACE("rank.global.b1024.b32 [%0], 0;") REPLACE("global_address.global.b1024.b64 [%0], %1;")
          REPLACE("global_dim.global.b1024.b32 [%0], 0, 32;")
              REPLACE("box_dim.global.b1024.b32 [%0], 0, 32;")
                  REPLACE("element_stride.global.b1024.b32 [%0], 0, 1;")
                      REPLACE("elemtype.global.b1024.b32 [%0], 3;") ::"l"(map),
      "l"(in)
      : "memory");
}
__device__ __forceinline__ void tensor_load(unsigned to, const Map* map, unsigned barrier) {
  mbarrier_expect(barrier, 128);
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{0}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier)
      : "memory");
}
