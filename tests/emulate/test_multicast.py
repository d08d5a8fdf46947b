"""The destinations of multicast copies: ranks of the cluster, any of them, also none."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, OutOfBounds

SOURCE = """
__device__ unsigned at(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
struct __align__(64) Map { char bytes[128]; };

extern "C" __global__ void kernel(int* out, const int* in, const __grid_constant__ Map map, unsigned mask) {
  __shared__ __align__(128) int held[32];
  __shared__ unsigned long long full;
  int t = threadIdx.x;
  held[t] = -1;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&full)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  bool gets = mask >> rank & 1;
  if (t == 0 && gets)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(at(&full)) : "memory");
  if (t == 0 && rank == 0)
    asm volatile(COPY :: "r"(at(held)), "l"(SOURCE), "r"(at(&full)), "h"((unsigned short)mask) : "memory");
  if (gets)
    asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W;}" :: "r"(at(&full)));
  out[blockIdx.x * 32 + t] = held[t];
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""

COPIES = {
    "range": (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1], 128, [%2], %3;",
        "in",
    ),
    "tensor": (
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {0}], [%2], %3;",
        "&map",
    ),
}


def launch(copy, mask, **options):
    text, of = COPIES[copy]
    device = Device(memory_bytes=1 << 20, **options)
    out, data = device.allocate(4 * 32 * 4), device.upload(np.arange(32, dtype=np.int32))
    tensor_map = device.tensor_map(dtype="s32", address=data, shape=(32,), strides=(), box=(32,))
    kernel = device.load(compile_ptx(SOURCE.replace("COPY", f'"{text}"').replace("SOURCE", of), "sm_90a"))
    device.launch(kernel, 4, 32, [out, data, tensor_map, mask], cluster=2)
    assert not device.reports
    return device.read(out, 4 * 32 * 4).view(np.int32).reshape(4, 32)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("mask", [0b00, 0b01, 0b10, 0b11])
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_goes_to_the_ranks_of_its_mask(copy, mask, policy, checks):
    found = launch(copy, mask, asynchrony=policy, checks=checks)
    for cta in range(4):
        assert (found[cta] == (np.arange(32) if mask >> cta % 2 & 1 else -1)).all()


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("mask", [0b100, 0b1000_0000_0000_0001])
@pytest.mark.parametrize("copy", COPIES)
def test_a_rank_beyond_the_cluster_is_refused_by_name(copy, mask, checks):
    rank = mask.bit_length() - 1
    with pytest.raises(OutOfBounds, match=rf"multicast mask {mask:#x}, which names CTA rank {rank} in a cluster of 2"):
        launch(copy, mask, checks=checks)
