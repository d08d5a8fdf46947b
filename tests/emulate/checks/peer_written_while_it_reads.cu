// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x, value;
  row[t] = in[128 * blockIdx.x + t]; /*2*/
  __syncthreads();
  value = row[127 - t]; /*2*/
  asm volatile("" : "+r"(value)::"memory");
  if (FAULT)
    __syncthreads();
  else
    cluster_sync();
  asm volatile(
      "{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; st.shared::cluster.s32 [r], %2;}" /*1*/
      ::"r"(shared_address(row + t)),
      "r"(blockIdx.x ^ 1), "r"(value)
      : "memory");
  cluster_sync();
  out[128 * blockIdx.x + t] = row[t];
}
