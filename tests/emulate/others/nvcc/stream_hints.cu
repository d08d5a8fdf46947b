// A stream with cache hints: prefetches, policies of L2, streaming loads and stores, and bulk
// prefetches.
#include <cuda/annotated_ptr>
#include <cuda/ptx>

extern "C" __global__ void stream_hints(float4* out, const float4* in, const float* weights,
                                        int vectors) {
  cuda::annotated_ptr<const float, cuda::access_property::persisting> kept(weights);
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 0.5;" : "=l"(policy));
  if (threadIdx.x == 0 && blockIdx.x == 0)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in), "r"(vectors * 16));
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += gridDim.x * blockDim.x) {
    if (i + 64 < vectors) asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(in + i + 64));
    float4 value, again = __ldcs(in + i);
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(in + i), "l"(policy));
    float weight = kept[i % 8];
    __stcg(out + i,
           make_float4(weight * value.x, weight * value.y, again.z - value.z, __ldcg(&in[i].w)));
  }
}
