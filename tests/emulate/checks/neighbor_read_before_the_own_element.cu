// kind=race block=32
extern "C" __global__ void sum(int* out, const int* in) {
  __shared__ int s[32];
  int t = threadIdx.x;
  s[t] = in[t];
  __syncwarp();
  for (int distance = 16; distance > 0; distance /= 2) {
    int right = s[(t + distance) % 32]; /*2*/
    asm volatile("" : "+r"(right));
    int own = s[t];
    if (!FAULT) __syncwarp();
    s[t] = own + right; /*1*/
    __syncwarp();
  }
  out[t] = s[t];
}
