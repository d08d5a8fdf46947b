// cuda::counting_semaphore, cuda::latch and cuda::atomic: pairs of warps hand a buffer to and fro.
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>

using Semaphore = cuda::binary_semaphore<cuda::thread_scope_block>;

extern "C" __global__ void semaphores(int* out, const int* in, int turns) {
  __shared__ Semaphore *may_write, *may_read;
  __shared__ alignas(16) unsigned char memory[2][sizeof(Semaphore)],
      latch_memory[sizeof(cuda::latch<cuda::thread_scope_block>)];
  __shared__ int buffer;
  auto* done = reinterpret_cast<cuda::latch<cuda::thread_scope_block>*>(latch_memory);
  if (threadIdx.x == 0) {
    may_write = new (memory[0]) Semaphore(1);
    may_read = new (memory[1]) Semaphore(0);
    new (done) cuda::latch<cuda::thread_scope_block>(2);
  }
  __syncthreads();
  int sum = 0;
  if (threadIdx.x == 0) {
    for (int i = 0; i < turns; i++) {
      may_write->acquire();
      buffer = in[i];
      may_read->release();
    }
    done->arrive_and_wait();
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < turns; i++) {
      may_read->acquire();
#ifdef RELEASED_EARLY
      may_write->release();
      sum = 3 * sum + buffer;  // reported: RELEASED_EARLY
#else
      sum = 3 * sum + buffer;
      may_write->release();
#endif
    }
    *out = sum;
    done->arrive_and_wait();
  }
}
