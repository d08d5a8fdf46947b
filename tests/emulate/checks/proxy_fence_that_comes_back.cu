// kind=proxy-fence block=32 grid=4 cluster=2
#include "wrappers.cuh"
// Data go from block 0 to block 2, which is in another cluster, and back to block 1.
extern "C" __global__ void relay(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ u64 arrived;
  int t = threadIdx.x;
  unsigned barrier = shared_address(&arrived);
  if (blockIdx.x == 0) {
    out[t] = in[t]; /*2*/
    __syncwarp();
    if (t == 0) release_flag(out + 64);
  } else if (blockIdx.x == 2 && t == 0) {
    acquire_flag(out + 64);
    if (!FAULT) asm volatile("fence.proxy.async;" ::: "memory");
    release_flag(out + 65);
  } else if (blockIdx.x == 1 && t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 128);
    acquire_flag(out + 65);
    bulk_load(shared_address(row), out, 128, barrier); /*1*/
    mbarrier_wait(barrier, 0);
    out[32] = row[7];
  }
}
