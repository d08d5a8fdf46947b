// kind=race block=64
__device__ __forceinline__ int fetch(const int (&tile)[8][9], int row, int column) {
  return tile[row][column]; /*1*/
}
extern "C" __global__ void transpose(int* out, const int* in) {
  __shared__ int tile[8][9];
  int x = threadIdx.x % 8, y = threadIdx.x / 8;
  tile[y][x] = in[threadIdx.x]; /*2*/
  if (!FAULT) __syncthreads();
  out[threadIdx.x] = fetch(tile, x, y);
}
