// Blocks take turns with a ticket lock of cuda::atomic_ref; what the lock protects are plain loads
// and stores.
#include <cuda/atomic>

extern "C" __global__ void ticket_lock(unsigned* tickets, int* log, int* logged) {
  if (threadIdx.x > 0) return;
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> next(tickets[0]), serving(tickets[1]);
  unsigned mine = next.fetch_add(1, cuda::std::memory_order_relaxed);
  while (serving.load(cuda::std::memory_order_acquire) != mine) {
  }
  log[*logged] = 10 * mine;  // reported: NO_RELEASE
  *logged += 1;
#ifdef NO_RELEASE
  serving.store(mine + 1, cuda::std::memory_order_relaxed);
#else
  serving.store(mine + 1, cuda::std::memory_order_release);
#endif
}
