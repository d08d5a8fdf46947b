"""Integer arithmetic, logic, bits and comparisons."""

from itertools import islice, product

from support.forms.form import forms, written

_WIDTHS = (16, 32, 64)
_WORDS = ("u32", "s32")
_SIGNED = [f"{sign}{bits}" for sign in "us" for bits in _WIDTHS]


def _arithmetic():
    for kind in _SIGNED:
        two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
        yield from forms(f"add.{kind} sub.{kind} mul.lo.{kind} mul.hi.{kind} min.{kind} max.{kind}", kind, two)
        yield from forms(f"mad.lo.{kind} mad.hi.{kind}", kind, three)
        yield from forms(f"sad.{kind}", kind, three)
        divisor = f"max.u{kind[1:]} %a1, %a1, 1; " if kind[0] == "u" else ""
        for opcode in ("div", "rem"):
            # Division by zero, and of the least number by -1, is not defined.
            guard = divisor or f"shr.u{kind[1:]} %a1, %a1, 1; max.u{kind[1:]} %a1, %a1, 1; "
            yield written(f"{guard}{opcode}.{kind} %d0, %a0, %a1;", kind, two)
        if kind[0] == "s":
            yield from forms(f"abs.{kind} neg.{kind}", kind, kind)
    for kind in ("u16", "s16", "u32", "s32"):
        wide = f"{kind[0]}{2 * int(kind[1:])}"
        yield from forms(f"mul.wide.{kind}", wide, f"{kind} {kind}")
        yield from forms(f"mad.wide.{kind}", wide, f"{kind} {kind} {wide}")
    yield from forms("add.sat.s32 sub.sat.s32 min.relu.s32 max.relu.s32", "s32", "s32 s32")
    yield from forms("mad.hi.sat.s32 mad24.hi.sat.s32", "s32", "s32 s32 s32")
    for kind in ("u32", "s32"):
        yield from forms(f"mul24.lo.{kind} mul24.hi.{kind}", kind, f"{kind} {kind}")
        yield from forms(f"mad24.lo.{kind} mad24.hi.{kind}", kind, f"{kind} {kind} {kind}")
    for kind in ("u16x2", "s16x2"):
        yield from forms(f"add.{kind} min.{kind} max.{kind}", kind, f"{kind} {kind}")
    yield from forms("min.relu.s16x2 max.relu.s16x2", "s16x2", "s16x2 s16x2")


def _carries():
    for kind in ("u32", "s32", "u64", "s64"):
        for opcode in ("add", "sub"):
            yield written(
                f"{opcode}.cc.{kind} %d0, %a0, %a1; {opcode}c.cc.{kind} %d1, %a2, %a3; {opcode}c.{kind} %d2, %a0, %a3;",
                f"{kind} {kind} {kind}",
                f"{kind} {kind} {kind} {kind}",
            )
        for part in ("lo", "hi"):
            yield written(
                f"mad.{part}.cc.{kind} %d0, %a0, %a1, %a2; madc.{part}.cc.{kind} %d1, %a1, %a2, %a3; "
                f"madc.{part}.{kind} %d2, %a0, %a2, %a3;",
                f"{kind} {kind} {kind}",
                f"{kind} {kind} {kind} {kind}",
            )


def _bits():
    for bits in _WIDTHS:
        kind = f"b{bits}"
        yield from forms(f"and.{kind} or.{kind} xor.{kind}", kind, f"{kind} {kind}")
        yield from forms(f"not.{kind} cnot.{kind}", kind, kind)
        yield from forms(f"shl.{kind} shr.{kind} shr.u{bits} shr.s{bits}", kind, f"{kind} b32:count")
    for opcode in ("and", "or", "xor"):
        yield from forms(f"{opcode}.pred", "pred", "pred pred")
    yield from forms("not.pred", "pred", "pred")
    for bits in (32, 64):
        yield from forms(f"brev.b{bits}", f"b{bits}", f"b{bits}")
        yield from forms(f"popc.b{bits} clz.b{bits}", "u32", f"b{bits}")
        for kind in (f"u{bits}", f"s{bits}"):
            yield from forms(f"bfind.{kind} bfind.shiftamt.{kind}", "u32", kind)
            yield from forms(f"bfe.{kind}", kind, f"{kind} u32:count u32:count")
        yield from forms(f"bfi.b{bits}", f"b{bits}", f"b{bits} b{bits} u32:count u32:count")
    for direction in "lr":
        for overflow in ("wrap", "clamp"):
            yield from forms(f"shf.{direction}.{overflow}.b32", "b32", "b32 b32 b32:count")
    for overflow in ("wrap", "clamp"):
        yield from forms(f"szext.{overflow}.u32 szext.{overflow}.s32", "b32", "b32 u32:count")
        yield from forms(f"bmsk.{overflow}.b32", "b32", "u32:count u32:count")
    for table in (0x00, 0x01, 0x1B, 0x3C, 0x69, 0x80, 0x96, 0xCA, 0xE8, 0xF8, 0xFE, 0xFF):
        yield written(f"lop3.b32 %d0, %a0, %a1, %a2, {table:#x};", "b32", "b32 b32 b32")
    for operation in ("and", "or"):
        yield written(
            f"lop3.{operation}.b32 %d0|%d1, %a0, %a1, %a2, 0x80, %a3;", "b32 pred", "b32:few b32:few b32:few pred"
        )
    yield from forms("prmt.b32", "b32", "b32 b32 b32")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield from forms(f"prmt.b32.{mode}", "b32", "b32 b32 b32")
    for offset in (-3, -1, 0, 1, 2, 7):
        yield written(f"and.b32 %a1, %a1, 31; fns.b32 %d0, %a0, %a1, {offset};", "b32", "b32 b32")
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            yield from forms(f"dp4a.{a}.{b} dp2a.lo.{a}.{b} dp2a.hi.{a}.{b}", "b32", "b32 b32 b32")


def _video():
    """Arithmetic on the halves and bytes of words."""
    for parts, name, a, b in product("24", ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), _WORDS, _WORDS):
        for d in _WORDS:
            text = f"{name}{parts}.{d}.{a}.{b}"
            yield from forms(f"{text} {text}.sat {text}.add", "b32", "b32 b32 b32")
    for parts, a, b, relation in product("24", _WORDS, _WORDS, ("eq", "ne", "lt", "le", "gt", "ge")):
        text = f"vset{parts}.{a}.{b}.{relation}"
        yield from forms(f"{text} {text}.add", "b32", "b32 b32 b32")
    for text, mask, a, b in (
        ("vadd2.s32.s32.u32.sat", "h0", "h31", "h20"),
        ("vsub2.s32.u32.s32.add", "h1", "h02", "h13"),
        ("vset2.s32.s32.lt", "h10", "h33", "h01"),
        ("vabsdiff4.u32.u32.u32", "b310", "b7531", "b0246"),
        ("vmax4.s32.s32.s32.add", "b2", "b7777", "b0123"),
        ("vset4.u32.u32.ne", "b21", "b4567", "b3210"),
    ):
        yield written(f"{text} %d0.{mask}, %a0.{a}, %a1.{b}, %a2;", "b32", "b32 b32 b32")


_FIELDS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")


def _scalar_video():
    """Arithmetic on a word or a part of one, of each sign, with every way to treat the result: some 2,100 forms."""
    for name, d, a, b in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), _WORDS, _WORDS, _WORDS):
        yield from _treated(f"{name}.{d}.{a}.{b}", ".sat", "b32 b32")
    for relation, a, b in product(("eq", "ne", "lt", "le", "gt", "ge"), _WORDS, _WORDS):
        yield from _treated(f"vset.{a}.{b}.{relation}", "", "b32 b32")
    for name, mode, d, a in product(("vshl", "vshr"), ("clamp", "wrap"), _WORDS, _WORDS):
        yield from _treated(f"{name}.{d}.{a}.u32", f".{mode}", "b32 b32:count")
    for a, b in product(_WORDS, _WORDS):
        d = "s32" if "s32" in (a, b) else "u32"
        for sat, scale in product(("", ".sat"), ("", ".shr7", ".shr15")):
            for field in _FIELDS[::3]:
                sources = f"%a0{field}, %a1{field}"
                yield written(f"vmad.{d}.{a}.{b}{sat}{scale} %d0, {sources}, %a2;", "b32", "b32 b32 b32")
                yield written(f"vmad.s32.{a}.{b}{sat}{scale} %d0, -{sources}, %a2;", "b32", "b32 b32 b32")
                yield written(f"vmad.s32.{a}.{b}{sat}{scale} %d0, {sources}, -%a2;", "b32", "b32 b32 b32")
                yield written(f"vmad.{d}.{a}.{b}.po{sat}{scale} %d0, {sources}, %a2;", "b32", "b32 b32 b32")


def _treated(text, mode, sources):
    """A scalar instruction on whole words and on parts, saturated, merged, and with second operations.

    mode: the modifiers of shifts; .sat for those that may saturate without one.
    """
    may_saturate = mode == ".sat" or text.startswith("vsh")
    mode = "" if mode == ".sat" else mode
    for sat in ("", ".sat") if may_saturate else ("",):
        for field in _FIELDS[::2]:
            yield written(f"{text}{sat}{mode} %d0, %a0{field}, %a1;", "b32", sources)
        for field in _FIELDS[1:]:
            yield written(f"{text}{sat}{mode} %d0{field}, %a0, %a1{field}, %a2;", "b32", f"{sources} b32")
        yield written(f"{text}{sat}{mode}.add %d0, %a0.h1, %a1, %a2;", "b32", f"{sources} b32")
        yield written(f"{text}{sat}{mode}.min %d0, %a0, %a1, %a2;", "b32", f"{sources} b32")
        yield written(f"{text}{sat}{mode}.max %d0, %a0, %a1, %a2;", "b32", f"{sources} b32")


def _choices():
    for kind in _SIGNED:
        two = f"{kind} {kind}"
        unsigned = "lo ls hi hs" if kind[0] == "u" else ""
        for relation in f"eq ne lt le gt ge {unsigned}".split():
            yield written(f"setp.{relation}.{kind} %d0|%d1, %a0, %a1;", "pred pred", two)
            yield from forms(f"set.{relation}.u32.{kind} set.{relation}.s32.{kind}", "b32", two)
            yield from forms(f"set.{relation}.f32.{kind}", "f32", two)
        for operation in ("and", "or", "xor"):
            yield written(f"setp.lt.{operation}.{kind} %d0|%d1, %a0, %a1, %a2;", "pred pred", f"{two} pred")
            yield written(f"set.ge.{operation}.u32.{kind} %d0, %a0, %a1, !%a2;", "b32", f"{two} pred")
        yield from forms(f"selp.{kind}", kind, f"{two} pred")
        yield from forms(f"slct.{kind}.s32", kind, f"{two} s32")
        yield from forms(f"slct.{kind}.f32 slct.ftz.{kind}.f32", kind, f"{two} f32")
    for bits in _WIDTHS:
        yield written(f"setp.ne.b{bits} %d0, %a0, %a1;", "pred", f"b{bits} b{bits}")


INTEGERS = [*_arithmetic(), *_carries(), *_bits(), *_video(), *islice(_scalar_video(), None, None, 5), *_choices()]
