// kind=race grid=2 cluster=2 block=128
extern "C" __global__ void kernel(int* out, const int* in) {
  __shared__ int held[128];
  int t = threadIdx.x;
  if (t >= 32 && t < 96) {
    held[t] = in[t]; /*2*/
    if (!FAULT) __syncwarp();
    out[blockIdx.x * 128 + t] = held[t ^ 1]; /*1*/
  }
}
