// Blocks take work from their own queue, and then from others'; a task may add tasks, and a counter
// says when all end.
#include <cuda/atomic>

using Counter = cuda::atomic_ref<int, cuda::thread_scope_device>;
constexpr int CAPACITY = 64;
#ifdef RELAXED
constexpr auto acquire = cuda::std::memory_order_relaxed;
#else
constexpr auto acquire = cuda::std::memory_order_acquire;
#endif

struct Queue {
  int taken, added, tasks[CAPACITY];
};

extern "C" __global__ void work_stealing(int* visits, Queue* queues, int* unfinished,
                                         const int* children) {
  if (threadIdx.x > 0) return;
  Counter left(*unfinished);
  for (int turn = 0; left.load(acquire) > 0; turn++) {
    Queue& queue = queues[(blockIdx.x + turn) % gridDim.x];
    Counter taken(queue.taken), added(queue.added);
    int place = taken.load(cuda::std::memory_order_relaxed);
    if (place >= added.load(acquire)) continue;
    if (!taken.compare_exchange_strong(place, place + 1, cuda::std::memory_order_relaxed)) continue;
    int task = queue.tasks[place];  // reported: RELAXED
    visits[task] = blockIdx.x + 1;
    Queue& mine = queues[blockIdx.x];  // only this block adds to it
    Counter end(mine.added);
    for (int child = 0; child < 2; child++) {
      int next = children[2 * task + child];
      if (next < 0) continue;
      left.fetch_add(1, cuda::std::memory_order_relaxed);
      int at = end.load(cuda::std::memory_order_relaxed);
      mine.tasks[at] = next;
      end.store(at + 1, cuda::std::memory_order_release);
    }
    left.fetch_sub(1, cuda::std::memory_order_acq_rel);
  }
}
