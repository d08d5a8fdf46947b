// kind=cluster-exit grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x, value;
  row[t] = in[128 * blockIdx.x + t];
  cluster_sync();
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %1, %2; ld.shared::cluster.s32 %0, [r];}"
               : "=r"(value)
               : "r"(shared_address(row + t)), "r"(blockIdx.x ^ 1)
               : "memory"); /*2*/
  out[128 * blockIdx.x + t] = value;
  if (!FAULT) cluster_sync();
} /*1*/
