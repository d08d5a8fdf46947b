// kind=uninitialized-local block=64
struct alignas(16) Row {
  int x, y, z;
};
extern "C" __global__ void rotate(int* out, const int* in) {
  int row[16], first = in[threadIdx.x];
  for (int i = 0; i < 16 - FAULT; i++) row[first + i & 15] = i;
  Row rows[2];
  for (int i = 0; i < 2; i++) rows[i] = {first, i, 3};
  Row chosen = rows[first & 1];                       // copies the padding too
  out[threadIdx.x] = row[first + 15 & 15] + chosen.y; /*1*/
}
