"""Windows of generic addresses: isspacep, and cvta to and from them."""

import numpy as np
import pytest

from tilewright.emulator import Device, PtxSyntaxError

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
CONSTANTS = ".const .align 8 .b64 one = 11;\n.const .align 8 .b64 table[3] = {22, 33, 44};\n"
SPACES = ("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry")
CONST, GLOBAL, LOCAL = {"const"}, {"global"}, {"local"}
SHARED, PARAM = {"shared", "shared::cta", "shared::cluster"}, {"param", "param::entry", "global"}
ADDRESSES = {
    "one": ("cvta.const.u64 %g, one;", CONST),
    "table": ("cvta.const.u64 %g, table+16;", CONST),
    "param": ("cvta.param.u64 %g, last;", PARAM),
    "param::entry": ("cvta.param::entry.u64 %g, out;", PARAM),
    "global": ("mov.u64 %g, %p;", GLOBAL),
    "variable": ("mov.u64 %g, placed; cvta.global.u64 %g, %g;", GLOBAL),
    "shared": ("mov.u32 %s, tile; cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g;", SHARED),
    "local": ("mov.u64 %g, frame; cvta.local.u64 %g, %g;", LOCAL),
    "null": ("mov.u64 %g, 0;", GLOBAL),
    "before the table": ("cvta.const.u64 %g, table; sub.u64 %g, %g, 1;", GLOBAL),
    "behind the table": ("cvta.const.u64 %g, table+24;", GLOBAL),
    "behind the parameters": ("cvta.param.u64 %g, last; add.u64 %g, %g, 8;", GLOBAL),
}
"""What puts an address into %g, and the spaces whose window it is in."""


def run(body, *, threads=32, module=CONSTANTS, header=HEADER):
    """What a body leaves in %r, of each thread."""
    ptx = f"""{header}{module}.global .align 8 .b64 placed;
.visible .entry op(.param .u64 out, .param .u64 last) {{
  .reg .b64 %p, %g, %v, %r; .reg .b32 %s; .reg .pred %q;
  .shared .align 8 .b8 tile[16]; .local .align 8 .b8 frame[16];
  ld.param.u64 %p, [out];
  {body}
  mov.u32 %s, %tid.x; mul.wide.u32 %v, %s, 8; add.u64 %p, %p, %v;
  st.global.u64 [%p], %r;
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(8 * threads)
    device.launch(device.load(ptx), 1, threads, [out, 55])
    assert not device.reports
    return device.read(out, 8 * threads).view(np.uint64).tolist()


def inside(space, address):
    return f"{address} isspacep.{space} %q, %g; selp.b64 %r, 1, 0, %q;"


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("place", ADDRESSES)
def test_the_window_of_an_address(place, space):
    address, spaces = ADDRESSES[place]
    assert run(inside(space, address)) == [space in spaces] * 32


def test_lanes_differ():
    """Every second lane asks about a constant, the others about global memory."""
    address = "cvta.const.u64 %g, one; mov.u32 %s, %tid.x; and.b32 %s, %s, 1; setp.eq.u32 %q, %s, 0;"
    for space, expected in (("const", [0, 1]), ("global", [1, 0])):
        body = inside(space, f"{address} @%q mov.u64 %g, %p;")
        assert run(body) == expected * 16


def test_a_module_without_constants_has_no_window_of_them():
    assert run(inside("const", "mov.u64 %g, %p;"), module="") == [0] * 32
    assert run(inside("global", "mov.u64 %g, %p;"), module="") == [1] * 32


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("cvta.const.u64 %g, table+8; ld.b64 %r, [%g];", 33),
        ("cvta.const.u64 %g, table; cvta.to.const.u64 %g, %g; ld.const.b64 %r, [%g+16];", 44),
        ("mov.u64 %g, table; cvta.const.u64 %g, %g; ld.b64 %r, [%g];", 22),
        ("cvta.param.u64 %g, last; ld.b64 %r, [%g];", 55),
        ("cvta.param::entry.u64 %g, out; ld.param.b64 %r, [last]; ld.b64 %r, [%g+8];", 55),
        ("mov.u64 %g, last; cvta.param.u64 %g, %g; cvta.to.param::entry.u64 %g, %g; ld.param.b64 %r, [%g];", 55),
    ],
)
def test_what_lies_at_a_generic_address(body, value):
    assert run(body) == [value] * 32


@pytest.mark.parametrize(
    ("instruction", "needs"),
    [
        ("isspacep.param %q, %g", "7.7"),
        ("cvta.param.u64 %g, last", "7.7"),
        ("isspacep.param::entry %q, %g", "8.3"),
        ("cvta.to.param::entry.u64 %g, %g", "8.3"),
        ("isspacep.shared::cta %q, %g", "7.8"),
        ("isspacep.shared::cluster %q, %g", "sm_90 or higher"),
    ],
)
def test_versions_and_targets(instruction, needs):
    before = {"7.7": "7.6", "8.3": "8.2", "7.8": "7.7"}.get(needs, "8.6")
    header = HEADER.replace("8.6", before).replace("sm_90a", "sm_80")
    with pytest.raises(PtxSyntaxError, match=f"needs (PTX )?{needs}"):
        run(f"mov.u64 %g, %p; {instruction}; mov.u64 %r, %g;", header=header)


def test_constants_need_no_later_version():
    header = ".version 6.0\n.target sm_70\n.address_size 64\n"
    assert run(inside("const", "cvta.const.u64 %g, one;"), header=header) == [1] * 32


def test_shared_memory_of_another_cta_is_only_the_clusters():
    ptx = f"""{HEADER}
.visible .entry op(.param .u64 out) .reqnctapercluster 2, 1, 1 {{
  .reg .b64 %p, %g, %r; .reg .b32 %s, %x, %y, %z, %o; .reg .pred %q;
  .shared .align 8 .b8 tile[16];
  ld.param.u64 %p, [out]; mov.u32 %s, tile; cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g;
  mapa.u64 %r, %g, 1;
  isspacep.shared::cta %q, %r; selp.b32 %x, 1, 0, %q;
  isspacep.shared::cluster %q, %r; selp.b32 %y, 2, 0, %q; or.b32 %x, %x, %y;
  mov.u32 %o, %cluster_ctarank; mul.wide.u32 %r, %o, 4; add.u64 %p, %p, %r;
  st.global.u32 [%p], %x;
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(8)
    device.launch(device.load(ptx), (2,), (1,), [out], cluster=(2,))
    assert device.read(out, 8).view(np.uint32).tolist() == [2, 3]
