"""The less common integer instructions against plain Python."""

import re

import numpy as np
import pytest

from emulate.lane_programs import LANES, U32, U64, evaluate, evaluate_one, integer_inputs, signed
from tilewright.emulator import PtxSyntaxError, UnsupportedInstruction


def part(word, index, bits, is_signed=False):
    value = word >> (bits * index) & ((1 << bits) - 1)
    return signed(value, bits) if is_signed else value


def dot(a, b, c, parts, *, signs, start=0):
    bits = 32 // parts
    return c + sum(part(a, i, bits, signs[0]) * part(b, start + i, 8, signs[1]) for i in range(parts))


def find_nth_set(mask, base, offset):
    """The pseudocode of PTX ISA, "fns"."""
    if offset == 0:
        return base if mask >> base & 1 else U32
    position, left, step = base, abs(offset), 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            left -= 1
            if left == 0:
                return position
        position += step
    return U32


def permuted(mode, a, b, c):
    """The rows of the mode table of PTX ISA, "prmt"."""
    rows = {
        "f4e": ["3210", "4321", "5432", "6543"],
        "b4e": ["5670", "6701", "7012", "0123"],
        "rc8": ["0000", "1111", "2222", "3333"],
        "ecl": ["3210", "3211", "3222", "3333"],
        "ecr": ["0000", "1110", "2210", "3210"],
        "rc16": ["1010", "3232", "1010", "3232"],
    }
    data = (b << 32 | a).to_bytes(8, "little")
    return int.from_bytes(bytes(data[int(digit)] for digit in rows[mode][c & 3]), "big")


def clamp(value, bits, is_signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(low, min(high, value)) & ((1 << bits) - 1)


def halves(function, a, b, is_signed, relu=False):
    values = [function(part(a, i, 16, is_signed), part(b, i, 16, is_signed)) for i in (0, 1)]
    low, high = (max(signed(value, 16), 0) if relu else value for value in values)
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


def simd(function, a, b, bits, signs=(False, False), saturates=None, added=None):
    """PTX ISA, "SIMD video instructions"; signs: of a and b. saturates: whether to the range of signed numbers."""
    results = [function(part(a, i, bits, signs[0]), part(b, i, bits, signs[1])) for i in range(32 // bits)]
    if saturates is not None:
        results = [signed(clamp(result, bits, saturates), bits if saturates else 64) for result in results]
    if added is not None:
        return added + sum(results)
    return sum((result & ((1 << bits) - 1)) << bits * i for i, result in enumerate(results))


def average(x, y):
    return (x + y + 1) // 2 if x + y >= 0 else (x + y) // 2


def s24(value):
    return signed(value, 24)


def u24(value):
    return value & 0xFFFFFF


def saturated(value):
    return max(-(1 << 31), min((1 << 31) - 1, value))


CASES = {
    "sad.u32 %d, %a, %b, %c;": lambda a, b, c: abs(a - b) + c,
    "sad.s32 %d, %a, %b, %c;": lambda a, b, c: abs(signed(a) - signed(b)) + c,
    "mul24.lo.u32 %d, %a, %b;": lambda a, b, c: u24(a) * u24(b),
    "mul24.hi.u32 %d, %a, %b;": lambda a, b, c: u24(a) * u24(b) >> 16,
    "mul24.lo.s32 %d, %a, %b;": lambda a, b, c: s24(a) * s24(b),
    "mul24.hi.s32 %d, %a, %b;": lambda a, b, c: s24(a) * s24(b) >> 16,
    "mad24.lo.u32 %d, %a, %b, %c;": lambda a, b, c: u24(a) * u24(b) + c,
    "mad24.hi.sat.s32 %d, %a, %b, %c;": lambda a, b, c: saturated(signed(s24(a) * s24(b) >> 16) + signed(c)),
    "mad.hi.sat.s32 %d, %a, %b, %c;": lambda a, b, c: saturated((signed(a) * signed(b) >> 32) + signed(c)),
    "vabsdiff4.u32.u32.u32 %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: abs(x - y), a, b, 8),
    "vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: abs(x - y), a, b, 8, added=c),
    "vabsdiff2.s32.s32.s32.add %d, %a, %b, %c;": lambda a, b, c: simd(
        lambda x, y: abs(x - y), a, b, 16, (True, True), added=c
    ),
    "vadd4.u32.u32.u32 %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x + y, a, b, 8),
    "vadd4.s32.u32.s32.sat %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x + y, a, b, 8, (False, True), True),
    "vsub2.u32.s32.u32.sat %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x - y, a, b, 16, (True, False), False),
    "vavrg4.s32.s32.s32 %d, %a, %b, %c;": lambda a, b, c: simd(average, a, b, 8, (True, True)),
    "vavrg2.u32.u32.u32 %d, %a, %b, %c;": lambda a, b, c: simd(average, a, b, 16),
    "vmin4.s32.s32.u32 %d, %a, %b, %c;": lambda a, b, c: simd(min, a, b, 8, (True, False)),
    "vmax2.u32.u32.s32.add %d, %a, %b, %c;": lambda a, b, c: simd(max, a, b, 16, (False, True), added=c),
    "vset4.u32.u32.lt %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x < y, a, b, 8),
    "vset4.s32.s32.ge.add %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x >= y, a, b, 8, (True, True), added=c),
    "vset2.u32.s32.ne %d, %a, %b, %c;": lambda a, b, c: simd(lambda x, y: x != y, a, b, 16, (False, True)),
    "vadd2.u32.u32.u32 %d.h1, %a.h30, %b.h12, %c;": lambda a, b, c: (
        ((part(b, 1, 16) + part(a, 1, 16)) & 0xFFFF) << 16 | c & 0xFFFF
    ),
    "vabsdiff4.u32.u32.u32.add %d.b20, %a.b7531, %b.b0246, %c;": lambda a, b, c: (
        abs(part(a, 1, 8) - part(b, 2, 8)) + abs(part(b, 1, 8) - part(a, 2, 8)) + c
    ),
    "vset4.s32.u32.lt %d.b3, %a.b0000, %b.b4444, %c;": lambda a, b, c: (
        int(part(a, 0, 8, True) < part(b, 0, 8)) << 24 | c & 0xFFFFFF
    ),
    "vadd.s32.u32.s32.sat %d, %a.b2, %b.h1;": lambda a, b, c: part(a, 2, 8) + part(b, 1, 16, True),
    "vsub.u32.u32.u32.sat %d, %a, %b;": lambda a, b, c: clamp(a - b, 32, False),
    "vsub.s32.s32.u32.sat %d.b1, %a, %b.b3, %c;": lambda a, b, c: (
        min(signed(a) - part(b, 3, 8) & U64, 0x7F) << 8 | c & 0xFFFF00FF
    ),
    "vabsdiff.u32.s32.s32 %d, %a, %b;": lambda a, b, c: abs(signed(a) - signed(b)),
    "vmin.s32.s32.u32.sat.max %d, %a, %b, %c;": lambda a, b, c: max(saturated(min(signed(a), b)), signed(c)),
    "vmax.s32.s32.s32.add %d, %a.h0, %b.b0, %c;": lambda a, b, c: (
        max(part(a, 0, 16, True), part(b, 0, 8, True)) + signed(c)
    ),
    "vset.s32.u32.ge.add %d, %a, %b.h1, %c;": lambda a, b, c: c + (signed(a) >= part(b, 1, 16)),
    "vset.u32.u32.ne %d.b3, %a.b0, %b.b1, %c;": lambda a, b, c: (part(a, 0, 8) != part(b, 1, 8)) << 24 | c & 0xFFFFFF,
    "vshl.u32.u32.u32.sat.clamp %d, %a, %b;": lambda a, b, c: clamp(signed(a << min(b, 32), 34), 32, False),
    "vshl.s32.s32.u32.wrap.add %d, %a, %b, %c;": lambda a, b, c: (signed(a) << (b & 31)) + c,
    "vshr.s32.s32.u32.clamp %d.h0, %a, %b, %c;": lambda a, b, c: signed(a) >> min(b, 32) & 0xFFFF | c & 0xFFFF0000,
    "vmad.u32.u32.u32.sat %d, %a, %b, %c;": lambda a, b, c: clamp(signed(a) * signed(b) + signed(c), 32, False),
    "vmad.u32.u32.u32.shr15 %d, %a.h0, %b.h1, %c;": lambda a, b, c: (
        (part(a, 0, 16) * part(b, 1, 16) + signed(c) & U64) >> 15
    ),
    "vmad.s32.s32.s32.sat %d, -%a, %b, %c;": lambda a, b, c: saturated(signed(c) - signed(a) * signed(b)),
    "vmad.s32.s32.u32.sat.shr7 %d, %a.b1, %b, -%c;": lambda a, b, c: saturated(
        part(a, 1, 8, True) * signed(b) - signed(c) >> 7
    ),
    "vmad.s32.s32.s32.po %d, %a, %b, %c;": lambda a, b, c: signed(a) * signed(b) + c + 1,
    "vmad.s32.u32.u32 %d, -%a, -%b, %c;": lambda a, b, c: a * b + c,
    "dp4a.u32.u32 %d, %a, %b, %c;": lambda a, b, c: dot(a, b, c, 4, signs=(False, False)),
    "dp4a.s32.s32 %d, %a, %b, %c;": lambda a, b, c: dot(a, b, c, 4, signs=(True, True)),
    "dp4a.u32.s32 %d, %a, %b, %c;": lambda a, b, c: dot(a, b, c, 4, signs=(False, True)),
    "dp2a.lo.s32.u32 %d, %a, %b, %c;": lambda a, b, c: dot(a, b, c, 2, signs=(True, False)),
    "dp2a.hi.s32.s32 %d, %a, %b, %c;": lambda a, b, c: dot(a, b, c, 2, signs=(True, True), start=2),
    "and.b32 %b, %b, 31; and.b32 %c, %c, 7; sub.s32 %c, %c, 3; fns.b32 %d, %a, %b, %c;": lambda a, b, c: find_nth_set(
        a, b & 31, (c & 7) - 3
    ),
    "bfind.shiftamt.u32 %d, %a;": lambda a, b, c: 32 - a.bit_length() if a else U32,
    "shf.l.clamp.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.r.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "and.b32 %c, %c, 63; bmsk.clamp.b32 %d, %b, %c;": lambda a, b, c: (
        ((1 << min(c & 63, 32)) - 1) << b if b < 32 else 0
    ),
    "bmsk.wrap.b32 %d, %b, %c;": lambda a, b, c: ((1 << (c & 31)) - 1) << (b & 31),
    "szext.clamp.s32 %d, %a, %b;": lambda a, b, c: signed(a, min(b, 32)) if b else 0,
    "szext.wrap.u32 %d, %a, %b;": lambda a, b, c: a & ((1 << (b & 31)) - 1),
    "lop3.or.b32 %d|%P, %a, %b, %c, 0x80, %Q; selp.b32 %d, %d, 7, %P;": lambda a, b, c: a & b & c or 7,
    "setp.lt.u32 %Q, %a, %b; lop3.and.b32 _|%P, %a, %b, %c, 0x96, %Q; selp.b32 %d, 1, 0, %P;": lambda a, b, c: int(
        a < b and a ^ b ^ c != 0
    ),
    "add.u16x2 %d, %a, %b;": lambda a, b, c: halves(lambda x, y: x + y, a, b, False),
    "min.s16x2 %d, %a, %b;": lambda a, b, c: halves(min, a, b, True),
    "max.u16x2 %d, %a, %b;": lambda a, b, c: halves(max, a, b, False),
    "max.relu.s16x2 %d, %a, %b;": lambda a, b, c: halves(max, a, b, True, relu=True),
    "min.relu.s32 %d, %a, %b;": lambda a, b, c: max(min(signed(a), signed(b)), 0),
    "cvt.pack.sat.s16.s32 %d, %a, %b;": lambda a, b, c: clamp(signed(a), 16, True) << 16 | clamp(signed(b), 16, True),
    "cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;": lambda a, b, c: (
        (c & 0xFFFF) << 16 | clamp(signed(a), 8, False) << 8 | clamp(signed(b), 8, False)
    ),
    "cvt.pack.sat.s4.s32.b32 %d, %a, %b, %c;": lambda a, b, c: (
        c << 8 | clamp(signed(a), 4, True) << 4 | clamp(signed(b), 4, True)
    ),
    "slct.u32.f32 %d, %a, %b, %fc;": lambda a, b, c: a if c == 1 << 31 or (c < 1 << 31 and c <= 0x7F800000) else b,
    **{
        f"prmt.b32.{mode} %d, %a, %b, %c;": lambda a, b, c, mode=mode: permuted(mode, a, b, c)
        for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    },
}
LONG_CASES = {
    # A sum, a difference and a product of 64 bits in 32-bit parts.
    "cvt.u32.u64 %a, %A; cvt.u32.u64 %b, %B; shr.u64 %A, %A, 32; shr.u64 %B, %B, 32; add.cc.u32 %d, %a, %b;"
    " cvt.u32.u64 %a, %A; cvt.u32.u64 %b, %B; addc.u32 %c, %a, %b; mov.b64 %D, {%d, %c};": lambda a, b, c: a + b,
    "mov.b64 {%a, %c}, %A; mov.b64 {%b, %t}, %B; sub.cc.u32 %d, %a, %b; subc.u32 %c, %c, %t; mov.b64 %D, {%d, %c};": (
        lambda a, b, c: a - b
    ),
    "add.cc.u64 %D, %A, %B; addc.cc.u64 %D, %C, %B; addc.u64 %D, 0, 0;": lambda a, b, c: int(
        c + b + int(a + b > U64) > U64
    ),
    "sub.cc.u64 %D, %A, %B; subc.cc.u64 %D, %C, %B; addc.u64 %D, 0, 0;": lambda a, b, c: int(c - b - int(a < b) < 0),
    "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %c, %a, %b, 0; mov.b64 %D, {%d, %c};": lambda a, b, c: (
        (a & U32) * (b & U32) + (c & U32)
    ),
    # The flag crosses blocks and keeps its value where the guard is false.
    "add.cc.u32 %d, %a, %b; setp.lt.u32 %P, %a, 100; @%P bra L; add.u32 %d, %d, 1; L: addc.u32 %c, 0, 0;"
    " cvt.u64.u32 %D, %c;": lambda a, b, c: (a & U32) + (b & U32) >> 32,
    "add.cc.u32 %d, %a, %b; setp.lt.u32 %P, %c, %a; @%P add.cc.u32 %d, %c, %c; addc.u32 %c, 0, 0;"
    " cvt.u64.u32 %D, %c;": (lambda a, b, c: ((c & U32) * 2 if c & U32 < a & U32 else (a & U32) + (b & U32)) >> 32),
    "mov.b64 {%ha, %hb, %hc, %h}, %A; mov.b64 %D, {%h, %hc, %hb, %ha};": lambda a, b, c: sum(
        (a >> 16 * i & 0xFFFF) << 16 * (3 - i) for i in range(4)
    ),
    "mov.b32 {%byte0, %byte1, %byte2, %byte3}, %a; mov.b32 %d, {%byte3, %byte2, %byte1, %byte0}; cvt.u64.u32 %D, %d;": (
        lambda a, b, c: int.from_bytes((a & U32).to_bytes(4, "little"), "big")
    ),
    "mov.b16 {%byte0, %byte1}, %ha; mov.b16 %ha, {%byte1, %byte0}; cvt.u64.u16 %D, %ha;": lambda a, b, c: (
        (a & 0xFF) << 8 | a >> 8 & 0xFF
    ),
    "mov.b16 {%byte0, %byte1}, %ha; setp.lt.u32 %P, %a, 100; @%P bra L; cvt.u16.u8 %ha, %byte1; bra M;"
    " L: cvt.s16.s8 %ha, %byte1; M: cvt.s64.s16 %D, %ha;": lambda a, b, c: (
        signed(a >> 8, 8) if a & U32 < 100 else a >> 8 & 0xFF
    ),
    "mov.b128 %wide, {%A, %B}; st.global.b128 [%q], %wide; ld.global.b128 %wide, [%q]; mov.b128 {%B, %D}, %wide;"
    " add.u64 %D, %D, %B;": lambda a, b, c: a + b,
    "mov.b128 %wide, {%a, %b, %c, %a}; mov.b128 {%d, %c, %b, %a}, %wide; mov.b64 %D, {%c, %a};": lambda a, b, c: (
        b & U32 | (a & U32) << 32
    ),
    "st.global.v4.b64 [%q], {%A, %B, %C, %A}; ld.global.v4.b64 {%D, %D, %D, %A}, [%q]; add.u64 %D, %D, %A;": (
        lambda a, b, c: c + a
    ),
    "st.global.v8.b32 [%q], {%a, %b, %c, %a, %b, %c, %a, %b}; ld.global.v8.f32 {%fa, _, _, _, %fb, _, _, %fc}, [%q];"
    " mov.b64 %D, {%fb, %fc};": lambda a, b, c: b & U32 | (b & U32) << 32,
    "popc.b64 %d, %A; fns.b32 %d, %a, 0, 1; cvt.s64.s32 %D, %d;": lambda a, b, c: (
        ((a & U32) & -(a & U32)).bit_length() - 1
    ),
    "sad.u64 %D, %A, %B, %C;": lambda a, b, c: abs(a - b) + c,
    "brev.b64 %D, %A;": lambda a, b, c: int(f"{a:064b}"[::-1], 2),
    "bfi.b64 %D, %A, %B, 5, 40;": lambda a, b, c: b & ~(((1 << 40) - 1) << 5) | (a & ((1 << 40) - 1)) << 5,
}


@pytest.mark.parametrize("body", CASES)
def test_words(body):
    inputs = integer_inputs(2)
    if "slct" not in body:
        inputs[20:60, 1:] &= np.uint64(63)  # shifts, positions and widths
    setup = "setp.ne.u32 %Q, %a, %a;"
    expected = [CASES[body](*(int(x) & U32 for x in lane)) & U32 for lane in inputs]
    assert evaluate(setup + body, inputs, 32) == expected


@pytest.mark.parametrize("body", LONG_CASES)
def test_long_words(body):
    inputs = integer_inputs(3)
    expected = [LONG_CASES[body](*(int(x) for x in lane)) & U64 for lane in inputs]
    target = "sm_100" if ".v4.b64" in body or ".v8.b32" in body else "sm_90a"  # which has 32 bytes at once
    assert evaluate("{ .reg .b32 %t; " + body + " }", inputs, 64, target) == expected


@pytest.mark.parametrize(
    ("body", "lane", "expected"),
    [
        ("bfe.u64 %D, %A, %b, %c;", (0x7C9369002D25232E, 0x93A1832E, 0xD3E8EBDB), 0),
        ("bfe.u64 %D, %A, %b, %c;", (0x7C9369002D25232E, 46, 219), 0x1F24D),
        ("bfe.u64 %D, %A, %b, %c;", (0x7C9369002D25232E, 0, 0x100), 0x7C9369002D25232E),
        ("bfe.s64 %D, %A, %b, %c;", (0xDF4C90CCACB512DB, 0xAC5F0E22, 0x721CDEC6), U64),
        ("bfe.s64 %D, %A, %b, %c;", (0xE3739A61DEC4A341, 0xAE2A0A0A, 0x92F96214), U64),
        ("bfe.s64 %D, %A, %b, %c;", (0xE3739A61DEC4A341, 0xAE2A0A0A, 0x92F96200), U64),
        ("bfe.s64 %D, %A, %b, %c;", (0xE3739A61DEC4A341, 64, 0), 0),
        ("bfi.b64 %D, %A, %B, %c, 0x44cea4ce;", (0xF, 1, 0xC2FB503E), 1),
        ("bfi.b64 %D, %A, %B, %c, 0x5735ee01;", (0x7F, 2, 0x9ED03820), 2),
        ("bfi.b64 %D, %A, %B, %c, 200;", (0x7F, 2, 60), 0xF000000000000002),
        # Of 32 bits, where the low bytes count.
        ("bfe.u32 %a, %a, %b, %c; cvt.u64.u32 %D, %a;", (0x2D25232E, 0x93A18304, 0xD3E8EB08), 0x32),
    ],
)
def test_fields_whose_bounds_are_beyond_the_word(body, lane, expected):
    """PTX allows bounds of 0 to 255; what is beyond these was measured on an H200."""
    assert evaluate_one(body, lane, 64) == expected


@pytest.mark.parametrize(
    "instruction",
    [
        "nanosleep.u32 20;", "nanosleep.u32 %d;", "prefetch.global.L2 [%q];", "prefetchu.L1 [%q];",
        "prefetch.global.L2::evict_last [%q];", "applypriority.global.L2::evict_normal [%q], 128;",
        "discard.global.L2 [%q], 128;", "createpolicy.fractional.L2::evict_last.b64 %A, 0f3F800000;",
        "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %A, [%q], 128, 256;",
        "griddepcontrol.wait;", "griddepcontrol.launch_dependents;", "pmevent 3;", "pmevent.mask 7;", "brkpt;",
        "setmaxnreg.inc.sync.aligned.u32 64;", "membar.gl;",
    ],
)  # fmt: skip
def test_hints_change_nothing(instruction):
    assert evaluate(f"mov.u32 %d, %t; {instruction}", integer_inputs(), 32) == list(range(LANES))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("vadd.s32.u32.s32 %d.h0, %a, %b;", "needs a third source"),
        ("vadd.s32.u32.s32.add %d.h0, %a, %b, %c;", "b32 is needed"),
        ("vadd.s32.u32.s32 %d, %a.b10, %b;", "must be .b and 1 of the digits 0 to 3"),
        ("vadd.s32.u32.s32 %d, %a.h2, %b;", "must be .h and 1 of the digits 0 to 1"),
        ("vadd.s32.u32.s32 %d, -%a, %b;", "may not be negated"),
        ("vadd2.s32.s32.s32 %d.h01, %a, %b, %c;", "a mask names each part once, the highest first"),
        ("vadd4.s32.s32.s32 %d, %a.b765, %b, %c;", "must be .b and 4 of the digits 0 to 7"),
        ("vadd4.s32.s32.s32 %d, %a.h10, %b, %c;", "must be .b and 4 of the digits 0 to 7"),
        ("vmad.s32.s32.s32.po %d, -%a, %b, %c;", ".po takes no operand that is negated"),
        ("vmad.s32.s32.s32 %d, -%a, %b, -%c;", "either the product or the third source"),
        ("add.u32 %d, %a.h0, %b;", "u32 is needed"),
    ],
)
def test_selectors_that_ptx_does_not_have(body, message):
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction), match=re.escape(message)):
        evaluate(body, integer_inputs(), 32)
