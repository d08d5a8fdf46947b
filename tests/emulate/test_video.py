"""The scalar video instructions where an H200 does something else than the manual has."""

import pytest

from emulate.lane_programs import evaluate_one

MEASURED = [
    # The upper half of d is that of the result.
    ("vadd.s32.u32.u32 %d.h1, %a, %b.h1, %c;", (0x1, 0x0, 0xE68B78AE), 0x78AE),
    ("vadd.s32.u32.s32.sat %d.h1, %a, %b.h1, %c;", (0x1, 0x0, 0xE68B78AE), 0x78AE),
    ("vabsdiff.u32.s32.s32 %d.h1, %a, %b.h1, %c;", (0x2, 0x0, 0xFFFFFFFC), 0xFFFC),
    ("vmin.s32.u32.s32 %d.h1, %a, %b.h1, %c;", (0xF496488F, 0x8EC0070D, 0xDB88662F), 0xFFFF662F),
    ("vset.s32.s32.lt %d.h1, %a, %b.h1, %c;", (0x80000000, 0x0, 0xD025EB9A), 0xEB9A),
    ("vshl.s32.s32.u32.clamp %d.h1, %a, %b.h1, %c;", (0x58A2B424, 0x3F, 0x1F), 0x58A2001F),
    ("vshr.u32.s32.u32.wrap %d.h1, %a, %b.h1, %c;", (0xC152EAEE, 0x99E8F956, 0xBD1EFC36), 0xFFC1FC36),
    # A part that saturates gets its largest value also for what is negative.
    ("vadd.s32.s32.s32.sat %d.b2, %a, %b.b2, %c;", (0x80000000, 0x0, 0xD025EB9A), 0xD07FEB9A),
    ("vadd.s32.u32.s32.sat %d.b0, %a, %b.b0, %c;", (0x1, 0x80, 0xD46C77CB), 0xD46C777F),
    ("vadd.u32.s32.s32.sat %d.b3, %a, %b.b3, %c;", (0x80000000, 0x0, 0xD025EB9A), 0xFF25EB9A),
    ("vsub.s32.u32.u32.sat %d.b2, %a, %b.b2, %c;", (0x18, 0xC08429F4, 0x192F8D96), 0x197F8D96),
    ("vsub.u32.u32.s32.sat %d.h0, %a, %b.h0, %c;", (0x0, 0x1, 0x8), 0xFFFF),
    ("vmax.s32.s32.s32.sat %d.h0, %a, %b.h0, %c;", (0xDC0056E6, 0xAE49C5C7, 0x4E490956), 0x4E497FFF),
    ("vmin.s32.s32.u32.sat %d.h1, %a, %b.h1, %c;", (0x80000000, 0x0, 0xD025EB9A), 0xEB9A),
    # An unsigned sum or difference saturates only below.
    ("vadd.u32.u32.s32.sat %d, %a, %b;", (0xFFFFFFFF, 0x1), 0x0),
    ("vadd.u32.s32.u32.sat %d, %a.b1, %b;", (0xB7905C33, 0xFFFFFFE1), 0x3D),
    ("vabsdiff.u32.s32.u32.sat %d, %a.b3, %b;", (0x8A478206, 0xFFFFFFC0), 0x36),
    # A minimum or maximum extends a sum by its sign, and compares it without one if it is unsigned.
    ("vadd.u32.s32.u32.sat.min %d, %a, %b, %c;", (0x7FFFFFFF, 0xF, 0xDE4C8F2E), 0xDE4C8F2E),
    ("vadd.u32.s32.s32.sat.max %d, %a, %b, %c;", (0x7FFFFFFF, 0xF, 0xDE4C8F2E), 0x8000000E),
    ("vsub.u32.u32.u32.sat.max %d, %a, %b, %c;", (0x80000000, 0x0, 0xD025EB9A), 0x80000000),
    ("vabsdiff.u32.s32.u32.sat.max %d, %a, %b, %c;", (0xD1F1EBAE, 0xF5F1A5C2, 0x307B557A), 0x23FFBA14),
    ("vshl.s32.u32.u32.sat.wrap.min %d, %a, %b, %c;", (0xC152EAEE, 0x99E8F956, 0xBD1EFC36), 0x80000000),
    ("vshl.u32.s32.u32.sat.clamp.min %d, %a, %b, %c;", (0xE53DA71C, 0x10, 0xF66B44D0), 0xF66B44D0),
    ("vshr.u32.u32.u32.sat.wrap.max %d, %a, %b, %c;", (0x9801E3D1, 0x40, 0xE8751D62), 0x9801E3D1),
    # Shifts have 34 bits, and saturate to 32 whatever they replace.
    ("vshl.s32.s32.u32.sat.clamp %d, %a.h1, %b;", (0x2C0A9EFB, 0x8C773356), 0x80000000),
    ("vshl.u32.u32.u32.sat.clamp %d, %a, %b;", (0x2C0A9EFB, 0x8C773356), 0x0),
    ("vshl.u32.s32.u32.sat.wrap.add %d, %a.h1, %b, %c;", (0xC152EAEE, 0x99E8F956, 0xBD1EFC36), 0x119EFC36),
    ("vshl.u32.s32.u32.sat.clamp %d.b2, %a, %b.b2, %c;", (0x58A2B424, 0x3F, 0x1F), 0x24001F),
    ("vshr.s32.u32.u32.sat.wrap %d.b0, %a, %b.b0, %c;", (0xC152EAEE, 0x99E8F956, 0xBD1EFC36), 0xBD1EFC05),
    ("vshr.u32.s32.u32.sat.wrap %d.h0, %a, %b.h0, %c;", (0x55F3C339, 0x2C, 0x90943B94), 0x90945F3C),
    # vmad takes words as signed ones, and an unsigned result shifts as 64 unsigned bits.
    ("vmad.u32.u32.u32.po.sat %d, %a.h1, %b.h1, %c;", (0x0, 0x0, 0xBE75462F), 0x0),
    ("vmad.u32.u32.u32.po.sat.shr15 %d, %a.b2, %b.b2, %c;", (0x0, 0x0, 0xBE75462F), 0xFFFFFFFF),
    ("vmad.u32.u32.u32.shr7 %d, %a, %b, %c;", (0x0, 0x0, 0xBE75462F), 0xFF7CEA8C),
    ("vmad.s32.s32.u32.sat %d, %a, %b, -%c;", (0x7A95E11C, 0xFFFFFFFE, 0x8D790536), 0x80000000),
    ("vmad.s32.u32.s32.sat.shr7 %d, %a, %b, -%c;", (0x80000000, 0x1, 0x36E23BB7), 0xFE923B88),
    ("vmad.s32.u32.u32.sat %d, -%a, %b, %c;", (0x80000001, 0x1, 0x3F), 0x7FFFFFFF),
]
WRITTEN_OUT = [
    # A second minimum or maximum of what does not fit 32 bits, by the SASS of ptxas 13.0.
    ("vabsdiff.u32.u32.u32.min %d, %a, %b, %c;", (0x7A95E11C, 0xFFFFFFFE, 0x8D790536), 0x856A1EE2),
    ("vmax.s32.u32.u32.min %d, %a, %b, %c;", (0x80000000, 0x0, 0xD025EB9A), 0xD025EB9A),
    ("vset.s32.u32.eq.min %d, %a, %b, %c;", (0x20, 0x100, 0xC736472C), 0xC736472C),
    ("vset.u32.s32.lt.max %d, %a, %b, %c;", (0x20, 0x100, 0xC736472C), 0xC736472C),
    ("vshl.u32.s32.u32.clamp.min %d, %a, %b, %c;", (0x58A2B424, 0x3F, 0x1F), 0x1F),
    ("vshl.s32.u32.u32.clamp.max %d, %a, %b, %c;", (0x4B886470, 0x15, 0x4219C62B), 0x8E000000),
]


@pytest.mark.parametrize(("body", "words", "expected"), [*MEASURED, *WRITTEN_OUT])
def test_a_scalar_video_instruction(body, words, expected):
    assert evaluate_one(body, (*words, 0)[:3], 32) == expected
