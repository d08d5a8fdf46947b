// assert() and printf(), as people leave them in.
#include <cassert>
#include <cstdio>

extern "C" __global__ void assertions(int* out, const int* indices, const int* values, int count) {
  int index = indices[threadIdx.x];
#ifdef OFF_BY_ONE
  assert(index < count - 1);  // reported: OFF_BY_ONE
#else
  assert(index < count);
#endif
  if (index < 0) {
    printf("thread %d has the index %d\n", threadIdx.x, index);
    __trap();
  }
  out[threadIdx.x] = values[index];
}
