// The kernels of cutlass::gemm::device::Gemm: tensor cores and a multistage pipeline, with split k
// and a semaphore, or (SIMT) CUDA cores and two stages.
#include <cutlass/gemm/device/gemm.h>

using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;
#ifdef SIMT
using Element = float;
using Block = cutlass::gemm::GemmShape<32, 64, 8>;
using Gemm = cutlass::gemm::device::Gemm<
    Element, Row, Element, Column, float, Row, float, cutlass::arch::OpClassSimt,
    cutlass::arch::Sm50, Block, cutlass::gemm::GemmShape<32, 32, 8>,
    cutlass::gemm::GemmShape<1, 1, 1>,
    cutlass::epilogue::thread::LinearCombination<float, 1, float, float>, Swizzle, 2, 1, 1, false>;
#else
using Element = cutlass::half_t;
using Block = cutlass::gemm::GemmShape<64, 64, 32>;
using Gemm = cutlass::gemm::device::Gemm<
    Element, Row, Element, Column, float, Row, float, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, Block, cutlass::gemm::GemmShape<32, 32, 32>,
    cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, 4, float, float>, Swizzle, 3, 8, 8, true>;
#endif
using Kernel = Gemm::GemmKernel;

extern "C" __global__ void __launch_bounds__(Kernel::kThreadCount)
    device_gemm(float* d, Element* a, Element* b, float* c, int* semaphores, int m, int n, int k,
                int slices, float alpha, float beta) {
  extern __shared__ __align__(128) char memory[];
  cutlass::gemm::GemmCoord tiles((m + Block::kM - 1) / Block::kM, (n + Block::kN - 1) / Block::kN,
                                 slices);
  Kernel::Params params({m, n, k}, tiles, {a, k}, {b, k}, {c, n}, {d, n}, {alpha, beta},
                        semaphores);
  Kernel kernel;
  kernel(params, *reinterpret_cast<Kernel::SharedStorage*>(memory));
}
