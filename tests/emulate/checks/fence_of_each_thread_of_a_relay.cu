// kind=race grid=4 block=64 cluster=2
// Data go from block 0 to block 1 through an atomic of block 2, which is in another cluster.
extern "C" __global__ void relay(int* out, const int* in) {
  int* count = out + 2048;
  if (blockIdx.x == 3) return;
  if (blockIdx.x == 0) out[threadIdx.x] = in[threadIdx.x]; /*2*/
  if (!FAULT || blockIdx.x) __threadfence();
  __syncthreads();
  int turn = blockIdx.x == 0 ? 0 : 3 - blockIdx.x;
  if (threadIdx.x == 0) {
    while (atomicCAS(count, turn, turn + 1) != turn) {
    }
  }
  __syncthreads();
  __threadfence();
  if (blockIdx.x == 1) out[64 + threadIdx.x] = out[63 - threadIdx.x]; /*1*/
}
