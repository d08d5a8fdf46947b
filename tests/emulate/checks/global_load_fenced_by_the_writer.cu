// kind=race block=32 grid=2
#include "wrappers.cuh"
extern "C" __global__ void hand_over(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ u64 arrived;
  int t = threadIdx.x;
  unsigned barrier = shared_address(&arrived);
  if (blockIdx.x == 1) {
    out[t] = in[t]; /*2*/
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncwarp();
    if (t == 0) {
      if (!FAULT) asm volatile("fence.acq_rel.gpu;" ::: "memory");
      asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(out + 64) : "memory");
    }
  } else if (t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 128);
    int ready = 0;
    while (!ready) {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(out + 64) : "memory");
    }
    bulk_load(shared_address(row), out, 128, barrier); /*1*/
    mbarrier_wait(barrier, 0);
    out[32] = row[7];
  }
}
