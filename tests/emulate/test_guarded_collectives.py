"""Guards on instructions that whole warps execute: they run in the warps where the guard holds, and in no other."""

import numpy as np
import pytest

from tilewright.emulator import Deadlock, Device, DivergedCollective

MATRIX = "{%a0, %a1, %a2, %a3}"
CASES = {
    "ldmatrix": f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {MATRIX}, [%row];",
    "stmatrix": f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%row], {MATRIX};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %a0, %a1;",
    "mma": f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {MATRIX}, {MATRIX}, {{%b0, %b1}}, {MATRIX};",
    "wmma": f"wmma.load.c.sync.aligned.m16n16k16.row.shared.f16 {MATRIX}, [tile], 16;",
    "tensormap": "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    " [%map], [tile], 128;",
}


def run(guarded, holds):
    """The registers of two warps, the tile and the map after an instruction that is guarded by tid < holds."""
    ptx = f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry e(.param .u64 out, .param .u64 map) {{
  .shared .align 128 .b8 tile[1024];
  .reg .b64 %out, %map, %at; .reg .b32 %t, %row, %a<4>, %b<2>; .reg .pred %p;
  mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, {holds};
  ld.param.u64 %out, [out]; ld.param.u64 %map, [map]; mad.wide.u32 %at, %t, 16, %out;
  mov.u32 %row, tile; mad.lo.u32 %row, %t, 16, %row;
  mov.b32 %a0, 0x3c003c00; mov.b32 %a1, %t; mov.b32 %a2, %a0; mov.b32 %a3, %a0; mov.b32 %b0, %a0; mov.b32 %b1, %a0;
  st.shared.v4.b32 [%row], {{%t, %t, %t, %t}};
  bar.sync 0;
  @%p {guarded}
  st.global.v4.b32 [%at], {MATRIX};
  bar.sync 0;
  ld.shared.v4.b32 {MATRIX}, [%row];
  st.global.v4.b32 [%at+1024], {MATRIX};
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    out, copied = device.upload(np.zeros(2048, np.uint8)), device.upload(np.zeros(128, np.uint8))
    device.launch(device.load(ptx), 1, 64, [out, copied])
    return np.split(device.read(out, 2048).view(np.uint32).reshape(4, 32, 4), 2), device.read(copied, 128)


@pytest.mark.parametrize("name", CASES)
def test_only_warps_where_the_guard_holds(name):
    (never, always, first), copies = zip(*(run(CASES[name], holds) for holds in (0, 64, 32)), strict=True)
    for found, kept, made in zip(first, never, always, strict=True):
        np.testing.assert_array_equal(found[0], made[0])
        np.testing.assert_array_equal(found[1], kept[1])
    assert not copies[0].any()
    changes = [(kept != made).any() for kept, made in zip(never, always, strict=True)]
    assert any(changes) or copies[2].any()


@pytest.mark.planted_fault
@pytest.mark.parametrize("name", CASES)
def test_part_of_a_warp(name):
    with pytest.raises((Deadlock, DivergedCollective), match=r"for the other lanes|needs whole warps"):
        run(CASES[name], 40)
