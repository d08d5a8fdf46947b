"""Which orderings release an mbarrier's initialization to another CTA: the PTX manual's, all of them and no others."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device

SOURCE = """
extern "C" __global__ void peer(int* out) {
  __shared__ __align__(8) unsigned long long barrier;
  unsigned here = (unsigned)__cvta_generic_to_shared(&barrier), there;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(here) : "memory");
    asm volatile(FENCE :: : "memory");
  }
  __syncthreads();
  asm volatile("barrier.cluster.arrive" ARRIVE ".aligned; barrier.cluster.wait" WAIT ".aligned;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(blockIdx.x ^ 1));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;"
               " @!p bra W; }" :: "r"(here) : "memory");
  out[64 * blockIdx.x + threadIdx.x] = 1;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""


def launch(fence, arrive, wait=""):
    ptx = compile_ptx(SOURCE, "sm_90a", f'-DFENCE="{fence}"', f'-DARRIVE="{arrive}"', f'-DWAIT="{wait}"')
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(512)
    device.launch(device.load(ptx), 2, 64, [out], cluster=2)
    assert (device.read(out, 512).view(np.int32) == 1).all()
    return device.reports


@pytest.mark.parametrize(
    ("fence", "arrive", "wait"),
    [
        ("", "", ""),
        ("", ".release", ".acquire"),
        *(
            (f"fence.{which};", ".relaxed", "")
            for which in (
                "mbarrier_init.release.cluster",
                "release.cluster",
                "acq_rel.cluster",
                "acq_rel.gpu",
                "sc.cluster",
                "sc.sys",
            )
        ),
        ("membar.gl;", ".relaxed", ".acquire"),
    ],
)
def test_these_orderings_release_it(fence, arrive, wait):
    assert not launch(fence, arrive, wait)


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    "fence", ["", "fence.acq_rel.cta;", "membar.cta;", "fence.acquire.cluster;", "fence.proxy.async;"]
)
def test_no_others_do(fence):
    (report,) = launch(fence, ".relaxed")
    assert report.kind == "mbarrier-init"
    assert "a barrier of the cluster, with fence.mbarrier_init before it if its arrival is .relaxed" in report.message
    assert "`mbarrier.init.shared::cta.b64`" in report.locations[1]
