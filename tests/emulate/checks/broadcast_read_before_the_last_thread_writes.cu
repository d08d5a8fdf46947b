// kind=race block=128
extern "C" __global__ void broadcast(int* out, const int*) {
  int value = out[0]; /*2*/
  asm volatile("" : "+r"(value));
  if (!FAULT) __syncthreads();
  if (threadIdx.x == 127) out[0] = value + 1; /*1*/
}
