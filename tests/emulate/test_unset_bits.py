"""Bits without a value: what an instruction makes of them is compared with what it makes of any bits in their place."""

import numpy as np
import pytest

from tilewright.emulator import Device, Observer

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LANES = 64
KERNEL = (
    HEADER
    + """
.visible .entry go(.param .u64 out, .param .u64 fills, .param .WIDEs known, .param .WIDEs mask, .param .u32 other) {
  .reg .b64 %out, %fills, %offset, %q<4>; .reg .b32 %lane, %r<4>, %other; .reg .b16 %h<4>; .reg .pred %p, %chosen;
  .reg .bSIZE %lost, %known, %mask, %kept, %a, %bit; .reg .bRESULT %d, %one;
  mov.u32 %lane, %tid.x;
  ld.param.u64 %out, [out]; ld.param.u64 %fills, [fills];
  mad.wide.u32 %out, %lane, 8, %out; mad.wide.u32 %fills, %lane, 8, %fills;
  ld.param.bSIZE %known, [known]; ld.param.bSIZE %mask, [mask]; ld.param.u32 %other, [other];
  FILL
  not.bSIZE %kept, %mask; and.bSIZE %a, %known, %kept; and.bSIZE %kept, %lost, %mask; or.bSIZE %a, %a, %kept;
  setp.ne.u32 %chosen, %other, 3;
  ACT
  USE
  ret;
}
"""
)
SHOW = "st.global.bRESULT [%out], %d;"
ASK = "shr.bRESULT %one, %d, %lane; and.bRESULT %one, %one, 1; st.global.bRESULT [%out], %one;"


class Uses(Observer):
    """The threads that use registers without a value, as bits."""

    def __init__(self):
        self.found = 0

    def used_without_value(self, site, group, lost):
        for thread in group.thread.tolist():
            self.found |= 1 << thread


def run(act, size, result, known, mask, fill, use):
    """The results of all lanes, and the bits that are used without a value, a lane for each."""
    text = KERNEL.replace("FILL", fill).replace("ACT", act).replace("USE", use)
    text = text.replace("WIDEs", f"u{size}").replace("SIZE", str(size)).replace("RESULT", str(result))
    fills = np.random.default_rng(5).integers(0, 1 << 64, LANES, np.uint64)
    fills[:2] = 0, ~np.uint64(0)
    uses = Uses()
    device = Device(memory_bytes=1 << 20, checks=False, observers=[uses])
    out = device.upload(np.zeros(LANES, np.uint64))
    scalar = np.dtype(f"u{size // 8}").type
    arguments = [out, device.upload(fills), scalar(known), scalar(mask), 3]
    device.launch(device.load(text), 1, LANES, arguments)
    return device.read(out, 8 * LANES).view(np.uint64), uses.found & (1 << result) - 1


def unset_and_varying(act, size, result, known, mask):
    """The bits of a result that count as without a value, and those that depend on what stands for it."""
    _, unset = run(act, size, result, known, mask, "", ASK)
    found, _ = run(act, size, result, known, mask, "ld.global.bSIZE %lost, [%fills];", SHOW)
    return unset, int(np.bitwise_or.reduce(found ^ found[0]))


EXACT = [
    ("mov.b32 %d, %a;", 32, 32), ("and.b32 %d, %a, 0x7f007f00;", 32, 32), ("or.b32 %d, 0x55aa00ff, %a;", 32, 32),
    ("xor.b32 %d, %a, %other;", 32, 32), ("not.b32 %d, %a;", 32, 32), ("and.b32 %d, %a, %known;", 32, 32),
    ("lop3.b32 %d, %a, 0x80008000, %known, 0xf8;", 32, 32), ("lop3.b32 %d, %known, %a, %a, 0x3c;", 32, 32),
    ("lop3.b32 %d, %a, %other, %known, 0xca;", 32, 32), ("shl.b32 %d, %a, 7;", 32, 32),
    ("shl.b32 %d, %a, %other;", 32, 32), ("shl.b32 %d, %a, 32;", 32, 32), ("shr.u32 %d, %a, 1;", 32, 32),
    ("shr.s32 %d, %a, 9;", 32, 32), ("shr.b64 %d, %a, 33;", 64, 64), ("prmt.b32 %d, 0, %a, 0x5746;", 32, 32),
    ("prmt.b32 %d, %a, %known, 0xd2f9;", 32, 32), ("prmt.b32.b4e %d, %a, %known, %other;", 32, 32),
    ("bfe.u32 %d, %a, 5, 9;", 32, 32), ("bfe.s32 %d, %a, 5, 9;", 32, 32), ("bfi.b32 %d, %a, %known, 4, 11;", 32, 32),
    ("bfi.b32 %d, %known, %a, 4, 11;", 32, 32), ("brev.b32 %d, %a;", 32, 32),
    ("shf.l.wrap.b32 %d, %a, %known, 5;", 32, 32), ("shf.r.clamp.b32 %d, %known, %a, 5;", 32, 32),
    ("mov.b64 %d, {%a, %other};", 32, 64), ("mov.b64 %d, {%other, %a};", 32, 64),
    ("mov.b64 {%r1, %r2}, %a; mov.b32 %d, %r2;", 64, 32), ("cvt.u16.u32 %d, %a;", 32, 16),
    ("cvt.u32.u16 %d, %a;", 16, 32), ("cvt.s64.s32 %d, %a;", 32, 64), ("cvt.s32.s8 %d, %a;", 32, 32),
    ("selp.b32 %d, %a, %other, %chosen;", 32, 32), ("selp.b32 %d, %other, %a, %chosen;", 32, 32),
    ("min.u16x2 %d, %a, %a; and.b32 %d, %d, 0;", 32, 32),
]  # fmt: skip
"""What moves bits, or computes each from those in its place: with the widths of %a and %d. %other is 3."""
BOUNDED = [
    ("add.u32 %d, %a, %known;", 32, 32), ("sub.s32 %d, %known, %a;", 32, 32), ("mul.lo.u32 %d, %a, %other;", 32, 32),
    ("mad.lo.u32 %d, %a, 2, 0x00800080;", 32, 32), ("mad.lo.s32 %d, %known, %other, %a;", 32, 32),
    ("mul.wide.s32 %d, %a, %other;", 32, 64), ("mad.wide.u32 %d, %a, %other, %fills; sub.u64 %d, %d, %fills;", 32, 64),
    ("mul.hi.u32 %d, %a, %known;", 32, 32), ("min.f16x2 %d, %a, %known;", 32, 32), ("abs.f16x2 %d, %a;", 32, 32),
    ("add.f16 %d, %a, %known;", 16, 16), ("mul.bf16 %d, %a, %known;", 16, 16), ("add.f32 %d, %a, %known;", 32, 32),
    ("popc.b32 %d, %a;", 32, 32), ("add.sat.s32 %d, %a, %known;", 32, 32), ("shl.b32 %d, %known, %a;", 32, 32),
    ("prmt.b32 %d, %known, %other, %a;", 32, 32), ("bfe.u32 %d, %known, %a, 9;", 32, 32),
    ("cvt.sat.u8.s32 %d, %a;", 32, 32), ("cvt.rn.f32.u32 %d, %a;", 32, 32),
    ("setp.lt.u32 %p, %a, %known; selp.b32 %d, 5, 6, %p;", 32, 32), ("slct.b32.s32 %d, %other, 9, %a;", 32, 32),
    ("add.cc.u32 %d, %a, %known; addc.u32 %d, 0, 0;", 32, 32), ("set.eq.u32.u32 %d, %a, %known;", 32, 32),
    ("lop3.or.b32 %d|%p, %a, %known, 0, 0xc0, %chosen; selp.b32 %d, 5, 6, %p;", 32, 32),
]  # fmt: skip
"""What may lose more bits than depend on those without a value."""
MASKS = [0, 1, 0x00FFFF00, 0xFF000000, 0x80008000, 0x00F0001C, 0xFFFFFFFF, 0xFFFF0000, 0x0000FF00]


@pytest.mark.parametrize("form", EXACT, ids=lambda form: form[0])
def test_bits_that_move_keep_their_values(form):
    for mask in MASKS:
        unset, varying = unset_and_varying(*form, 0x9E3779B1C2B2AE3D & (1 << form[1]) - 1, mask & (1 << form[1]) - 1)
        assert unset == varying, f"{mask:#x}: {unset:#x}, and {varying:#x} vary"


@pytest.mark.parametrize("form", BOUNDED, ids=lambda form: form[0])
def test_no_bit_that_depends_on_one_without_a_value_is_missed(form):
    for mask in MASKS:
        unset, varying = unset_and_varying(*form, 0x9E3779B1 & (1 << form[1]) - 1, mask & (1 << form[1]) - 1)
        assert varying & ~unset == 0, f"{mask:#x}: {unset:#x}, and {varying:#x} vary"
        assert bool(unset) <= bool(mask)


@pytest.mark.parametrize(("mask", "found"), [(0xFF0000, 0xFFFF0000), (1, 0xFFFFFFFF), (0x80000000, 0x80000000)])
def test_carries_go_up(mask, found):
    for act in ("mad.lo.u32 %d, %a, 2, 0x00800080;", "add.u32 %d, %a, 5;", "sub.u32 %d, %other, %a;"):
        unset, _ = unset_and_varying(act, 32, 32, 0, mask)
        assert unset == found


def test_halves_are_apart():
    for mask, found in ((0xFF, 0xFFFF), (1 << 31, 0xFFFF0000), (1 << 31 | 1, 0xFFFFFFFF)):
        unset, _ = unset_and_varying("min.f16x2 %d, %a, %known;", 32, 32, 0x3C003C00, mask)
        assert unset == found


def test_a_store_uses_the_bits_that_it_stores():
    for mask, found in ((0xFFFFFF00, 0), (0x80, (1 << LANES) - 1)):
        act = "cvt.u16.u32 %h1, %a; st.global.b8 [%out], %h1;"
        _, used = run(act, 32, 64, 0, mask, "", "")
        assert used == found
