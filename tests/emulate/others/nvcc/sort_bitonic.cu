// Each block sorts 512 pairs in shared memory; steps within 32 places need the warp only.
extern "C" __global__ void sort_bitonic(unsigned* keys, unsigned* values) {
  constexpr int COUNT = 512;
  __shared__ unsigned key[COUNT], value[COUNT];
  int first = blockIdx.x * COUNT;
  for (int i = threadIdx.x; i < COUNT; i += COUNT / 2)
    key[i] = keys[first + i], value[i] = values[first + i];
  __syncthreads();

  for (int size = 2; size <= COUNT; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      int low = 2 * threadIdx.x - threadIdx.x % step, high = low + step;
      bool ascending = (low & size) == 0;
      if ((key[low] > key[high]) == ascending) {  // reported: NO_BARRIER, NO_SYNCWARP
        unsigned k = key[low], v = value[low];
        key[low] = key[high], value[low] = value[high];
        key[high] = k, value[high] = v;
      }
      if (step > 32 || (step == 1 && size >= 64)) {
#ifndef NO_BARRIER
        __syncthreads();
#endif
      } else {
#ifndef NO_SYNCWARP
        __syncwarp();
#endif
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < COUNT; i += COUNT / 2)
    keys[first + i] = key[i], values[first + i] = value[i];
}
