// cuda::barrier with tokens: threads arrive, do other work, and wait later; some drop out for good.
#include <cuda/barrier>

using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void barrier_tokens(int* out, const int* in, int rounds) {
  __shared__ Barrier met;
  __shared__ int values[2][128];
  if (threadIdx.x == 0) init(&met, blockDim.x);
  __syncthreads();
  int mine = in[threadIdx.x], own = 0;
  for (int round = 0; round < rounds; round++) {
    values[round % 2][threadIdx.x] = mine;
    if (threadIdx.x >= 96 && round == 1) {
      met.arrive_and_drop();
      break;
    }
    auto token = met.arrive();
    own += mine * mine;  // while others arrive
#ifdef NO_WAIT
    (void)token;
#else
    met.wait(std::move(token));
#endif
    mine += values[round % 2][(threadIdx.x + 1) % (round < 2 ? 128 : 96)];  // reported: NO_WAIT
  }
  out[threadIdx.x] = mine + own;
}
