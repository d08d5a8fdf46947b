// kind=tensormap-fence block=64
#include "wrappers.cuh"
struct __align__(128) Map {
  u64 opaque[16];
};
__device__ Map map;
#define SET(field, value) "tensormap.replace.tile." field ", " value ";"
extern "C" __global__ void make(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  if (t == 0) {
    for (int i = 0; i < 16; i++) map.opaque[i] = 0; /*2*/
    asm volatile( /*2*/
        SET("rank.global.b1024.b32 [%0]", "0") SET("global_address.global.b1024.b64 [%0]", "%1")
            SET("global_dim.global.b1024.b32 [%0], 0", "32")
                SET("box_dim.global.b1024.b32 [%0], 0", "32")
                    SET("element_stride.global.b1024.b32 [%0], 0", "1")
                        SET("elemtype.global.b1024.b32 [%0]", "3") ::"l"(&map),
        "l"(in)
        : "memory");
    asm volatile("fence.proxy.tensormap::generic.release.cta;" ::: "memory");
  }
  __syncthreads();
  if (!FAULT)
  asm volatile("fence.proxy.tensormap::generic.acquire.cta [%0], 128;" ::"l"(&map) : "memory");
  if (t == 32) {
    mbarrier_expect(b, 128);
    asm volatile( /*1*/
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0}], [%2];"
        ::"r"(shared_address(row)),
        "l"(&map), "r"(b)
        : "memory");
  }
  mbarrier_wait(b, 0);
  if (t < 32) out[t] = row[t];
}
