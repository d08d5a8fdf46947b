// Tensor cores in double precision: a warp has a tile of 8 x 8, and fragments come straight from
// global memory.
extern "C" __global__ void gemm_double(double* c, const double* a, const double* b, int n, int k) {
  int lane = threadIdx.x, row = blockIdx.y * 8 + lane / 4, column = blockIdx.x * 8 + lane / 4;
  double sums[2] = {};
  for (int step = 0; step < k; step += 4) {
    double left = a[row * k + step + lane % 4], right = b[column * k + step + lane % 4];
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sums[0]), "+d"(sums[1])
                 : "d"(left), "d"(right));
  }
  double2* place = reinterpret_cast<double2*>(c + row * n + blockIdx.x * 8 + lane % 4 * 2);
#ifdef UNALIGNED
  place = reinterpret_cast<double2*>(c + row * n + blockIdx.x * 8 + lane % 4 * 2 + 1);
#endif
  *place = make_double2(sums[0], sums[1]);  // reported: UNALIGNED
}
