// kind=race grid=2 block=128
extern "C" __global__ void scale(int* out, const int*) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = 2 * out[FAULT ? i ^ 128 : i]; /*1*/ /*2*/
}
