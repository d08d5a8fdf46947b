// kind=race block=64 also=member-mask
extern "C" __global__ void swap(int* out, const int* in) {
  __shared__ int row[64];
  int t = threadIdx.x;
  row[t] = in[t]; /*2*/
  if (t % 32 < 16) {
    __syncwarp(FAULT ? 0xffff : ~0u);
    out[t] = row[t + 16]; /*1*/
  } else {
    __syncwarp();
    out[t] = 1 + row[t - 16]; /*1*/
  }
}
