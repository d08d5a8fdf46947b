// kind=grid-dependency block=64 dependent=1
#include "wrappers.cuh"
extern "C" __global__ void copy(int* out, const int* in) {
  int t = threadIdx.x;
  if (t == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
  if (!FAULT) __syncthreads();
  int value = in[t]; /*1*/
  out[t] = value;    /*1*/
}
