// kind=race block=128
extern "C" __global__ void shift(int* out, const int*) {
  int i = threadIdx.x, right = i < 127 ? out[i + 1] : 0; /*2*/
  asm volatile("" : "+r"(right));
  int own = out[i];
  if (!FAULT) __syncthreads();
  out[i] = own + right; /*1*/
}
