"""A transposition of 16-byte chunks through SMEM, with and without a swizzle, against the model of its conflicts."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device
from tilewright.model.memory.layouts import linear, padded, swizzled, transposition

KERNEL = """
extern "C" __global__ void transpose(uint4* out, const uint4* in) {
  __shared__ __align__(1024) unsigned char tile[2048];
  int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32)
    *(uint4*)(tile + PLACE(i / 8, i % 8)) = in[i];
  __syncwarp();
  for (int i = lane; i < 64; i += 32)
    out[i] = *(uint4*)(tile + PLACE(i % 8, i / 8));
}
"""


@pytest.mark.parametrize(
    ("place", "layout", "ways"),
    [
        ("((r) * 128 + (c) * 16)", linear(), 8),
        ("((r) * 144 + (c) * 16)", padded(16), 1),
        ("((r) * 128 + ((c) ^ (r)) * 16)", swizzled(128), 1),
    ],
    ids=["linear", "padded", "swizzled"],
)
def test_a_kernel_has_the_conflicts_of_the_model(place, layout, ways):
    device = Device(count_memory=True)
    chunks = np.arange(64 * 4, dtype=np.uint32).reshape(8, 8, 4)
    given, got = device.upload(chunks), device.upload(np.zeros_like(chunks))
    counters = device.launch(device.load(compile_ptx(KERNEL, "sm_90a", f"-DPLACE(r,c)={place}")), 1, 32, [got, given])
    assert (device.read(got, chunks.nbytes).view(np.uint32).reshape(8, 8, 4) == chunks.swapaxes(0, 1)).all()
    expected = transposition(layout)
    assert expected.ways == ways
    assert counters.shared_wavefronts == {"st": 2 * expected.write.wavefronts, "ld": 2 * expected.read.wavefronts}
