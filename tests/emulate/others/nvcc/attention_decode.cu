// One query, many keys: blocks share the keys, and the last one to finish combines their maxima,
// sums and outputs.
constexpr int DIMENSIONS = 64, WARPS = 4;

struct Part {
  float most, total, sums[DIMENSIONS];
};

extern "C" __global__ void attention_decode(float* out, Part* parts, unsigned* finished,
                                            const float* q, const float* k, const float* v,
                                            int length, float scale) {
  __shared__ Part of_warps[WARPS];
  __shared__ bool last;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float2 query = reinterpret_cast<const float2*>(q)[lane];
  float most = -INFINITY, total = 0;
  float2 sums = {};
  for (int key = blockIdx.x * WARPS + warp; key < length; key += gridDim.x * WARPS) {
    float2 row = reinterpret_cast<const float2*>(k + key * DIMENSIONS)[lane];
    float score = query.x * row.x + query.y * row.y;
    for (int lanes = 16; lanes > 0; lanes /= 2) score += __shfl_xor_sync(~0u, score, lanes);
    float larger = fmaxf(most, score * scale), factor = __expf(most - larger),
          weight = __expf(score * scale - larger);
    float2 value = reinterpret_cast<const float2*>(v + key * DIMENSIONS)[lane];
    sums = make_float2(sums.x * factor + weight * value.x, sums.y * factor + weight * value.y);
    total = total * factor + weight;
    most = larger;
  }
  auto combined = [&](const Part* some,
                      int count) {  // an element of the sum for each of the first threads
    Part result{-INFINITY, 0, {}};
    for (int i = 0; i < count; i++) result.most = fmaxf(result.most, some[i].most);
    for (int i = 0; i < count; i++) {
      float factor = __expf(some[i].most - result.most);
      result.total += factor * some[i].total;
      result.sums[0] += factor * some[i].sums[threadIdx.x];  // reported: COUNTED_BY_ANOTHER
    }
    return result;
  };
  of_warps[warp].most = most, of_warps[warp].total = total;
  of_warps[warp].sums[2 * lane] = sums.x, of_warps[warp].sums[2 * lane + 1] = sums.y;
  __syncthreads();
  if (threadIdx.x < DIMENSIONS) {
    Part part = combined(of_warps, WARPS);
    parts[blockIdx.x].sums[threadIdx.x] = part.sums[0];
    if (threadIdx.x == 0) parts[blockIdx.x].most = part.most, parts[blockIdx.x].total = part.total;
    __threadfence();
  }
#ifndef COUNTED_BY_ANOTHER
  __syncthreads();
#endif
  if (threadIdx.x == 96) last = atomicAdd(finished, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last || threadIdx.x >= DIMENSIONS) return;
  __threadfence();
  Part part = combined(parts, gridDim.x);
  out[threadIdx.x] = part.sums[0] / part.total;
}
