"""A ring of stages as CuTe DSL's dense GEMM has it: each consumer looks at the next slot before it waits for it."""

from support.sources import PTX_WRAPPERS

# One CTA of 128 threads; thread 0 also fills the slots. Block k of 128 floats is added to the sums.
PEEKING_RING = (
    PTX_WRAPPERS
    + """
__device__ int peek(unsigned b, unsigned parity) {
  int done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p;}"
               : "=r"(done) : "r"(b), "r"(parity) : "memory");
  return done;
}
__device__ void load(float* to, const float* from, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
               :: "r"(shared_address(to)), "l"(from), "r"(barrier) : "memory");
}
constexpr int stages = 4;
struct State {
  int stage = 0;
  unsigned phase;
  __device__ void advance() {
    if (++stage == stages) { stage = 0; phase ^= 1; }
  }
};

extern "C" __global__ void ring(float* sums, const float* blocks, int count) {
  __shared__ __align__(128) float slots[stages][128];
  __shared__ __align__(8) u64 full[stages], empty[stages];
  int t = threadIdx.x;
  if (t == 0)
    for (int s = 0; s < stages; s++) {
      mbarrier_init(shared_address(full + s), 1);
      mbarrier_init(shared_address(empty + s), 128);
    }
  __syncthreads();
  State write{0, 1}, read{0, 0};
  int filled = 0;
  auto fill = [&] {
    mbarrier_wait(shared_address(empty + write.stage), write.phase ^ (FLIPPED == 3 && filled >= stages));
    mbarrier_expect(shared_address(full + write.stage), 512);
    load(slots[write.stage], blocks + 128 * filled++, shared_address(full + write.stage));
    write.advance();
  };
  if (t == 0)
#pragma unroll 1
    while (filled < stages && filled < count) fill();
  float sum = 0;
  int ready = peek(shared_address(full), FLIPPED == 1);
#pragma unroll 1
  for (int k = 0; k < count; k++) {
    if (!ready) mbarrier_wait(shared_address(full + read.stage), read.phase);
    sum += slots[read.stage][t];
    mbarrier_arrive(shared_address(empty + read.stage));
    read.advance();
    ready = 1;
    if (k + 1 < count) ready = peek(shared_address(full + read.stage), read.phase ^ (FLIPPED == 2));
    if (t == 0 && filled < count) fill();
  }
  sums[t] = sum;
}
"""
)
"""FLIPPED: a wrong parity, 1: of the first look at a full slot, 2: of the others, 3: of waits for an empty slot."""
