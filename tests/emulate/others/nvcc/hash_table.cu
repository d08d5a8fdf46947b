// A table of 64-bit entries with linear probing: all blocks insert, meet at a barrier of atomics,
// and look up.
constexpr unsigned long long EMPTY = ~0ull;

__device__ unsigned hashed(unsigned key) {
  key ^= key >> 16;
  key *= 0x7feb352du;
  return key ^ key >> 15;
}

extern "C" __global__ void hash_table(int* found, unsigned long long* table, const unsigned* keys,
                                      const unsigned* queries, unsigned* arrived, unsigned capacity,
                                      int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    unsigned long long entry = static_cast<unsigned long long>(keys[i]) << 32 | i;
    for (unsigned slot = hashed(keys[i]) % capacity;; slot = (slot + 1) % capacity)
      if (atomicCAS(&table[slot], EMPTY, entry) == EMPTY) break;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
#ifndef NO_FENCE
    __threadfence();
#endif
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  if (i >= count) return;
  found[i] = -1;
  for (unsigned slot = hashed(queries[i]) % capacity;; slot = (slot + 1) % capacity) {
    unsigned long long entry = table[slot];  // reported: NO_FENCE
    if (entry == EMPTY) break;
    if (entry >> 32 == queries[i]) {
      found[i] = static_cast<int>(entry);
      break;
    }
  }
}
