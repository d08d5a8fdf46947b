// Block 0 hands messages to block 1 through a ring in global memory, with flags of acquire and
// release.
#include <cuda/atomic>

constexpr int SLOTS = 2, WORDS = 32;

extern "C" __global__ void message_flags(int* out, int (*ring)[WORDS], int* sent_count,
                                         int* taken_count, int messages) {
#ifdef OF_THE_BLOCK
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_block>;
#else
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
#endif
  Flag sent(*sent_count), taken(*taken_count);
  for (int message = 0; message < messages; message++) {
    if (blockIdx.x == 0) {
      if (threadIdx.x == 0)
        while (taken.load(cuda::std::memory_order_acquire) < message - SLOTS + 1) {
        }
      __syncthreads();
      ring[message % SLOTS][threadIdx.x] = 100 * message + threadIdx.x;
      __syncthreads();
      if (threadIdx.x == 0) sent.store(message + 1, cuda::std::memory_order_release);
    } else {
      if (threadIdx.x == 0)
        while (sent.load(cuda::std::memory_order_acquire) <= message) {
        }
      __syncthreads();
      out[message * WORDS + threadIdx.x] =
          ring[message % SLOTS][WORDS - 1 - threadIdx.x];  // reported: OF_THE_BLOCK
      __syncthreads();
      if (threadIdx.x == 0) taken.store(message + 1, cuda::std::memory_order_release);
    }
  }
}
