// kind=race block=128
extern "C" __global__ void warp_sum(int* out, const int* in) {
  __shared__ volatile int sums[4][32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  sums[warp][lane] = in[t];
  __syncwarp();
  int* row = (int*)sums[warp];
  for (int step = 16; step > 0; step /= 2) {
    int other = row[lane ^ step], own = row[lane]; /*1*/
    __syncwarp();
    row[lane] = own + other; /*2*/
    if (!FAULT) __syncwarp();
    asm volatile("" ::: "memory");
  }
  out[t] = row[lane];
}
