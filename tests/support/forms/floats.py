"""Arithmetic and comparisons of float32 and float64, approximations within bounds chosen here."""

from support.forms.form import forms, written

_ORDERED = "eq ne lt le gt ge"
_UNORDERED = "equ neu ltu leu gtu geu num nan"


def _exact():
    for modifiers in ("", ".ftz", ".sat", ".ftz.sat"):
        for mode in ("rn", "rz", "rm", "rp"):
            two = " ".join(f"{opcode}.{mode}{modifiers}.f32" for opcode in ("add", "sub", "mul"))
            yield from forms(two, "f32", "f32 f32")
            yield from forms(f"fma.{mode}{modifiers}.f32", "f32", "f32 f32 f32")
    for ftz in ("", ".ftz"):
        for mode in ("rn", "rz", "rm", "rp"):
            yield from forms(f"div.{mode}{ftz}.f32", "f32", "f32 f32")
            yield from forms(f"rcp.{mode}{ftz}.f32 sqrt.{mode}{ftz}.f32", "f32", "f32")
        yield from forms(f"abs{ftz}.f32 neg{ftz}.f32", "f32", "f32")
        yield from forms(
            " ".join(
                f"{opcode}{ftz}{modifiers}.f32"
                for opcode in ("min", "max")
                for modifiers in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
            ),
            "f32",
            "f32 f32",
        )
    for ftz in ("", ".ftz"):
        # Products and sums about the smallest normal number, which .ftz flushes or not.
        smallest = "mov.b32 %d0, 0x00800000; "
        yield written(f"{smallest}mul.rn{ftz}.f32 %d0, %a0, %d0;", "f32", "f32")
        yield written(f"{smallest}fma.rn{ftz}.f32 %d0, %a0, %d0, %d0;", "f32", "f32")
    yield from forms("copysign.f32", "f32", "f32 f32")
    yield from forms("copysign.f64 min.f64 max.f64", "f64", "f64 f64")
    for mode in ("rn", "rz", "rm", "rp"):
        two = " ".join(f"{opcode}.{mode}.f64" for opcode in ("add", "sub", "mul", "div"))
        yield from forms(two, "f64", "f64 f64")
        yield from forms(f"fma.{mode}.f64", "f64", "f64 f64 f64")
        yield from forms(f"rcp.{mode}.f64 sqrt.{mode}.f64", "f64", "f64")
    yield from forms("abs.f64 neg.f64", "f64", "f64")
    for kind in ("f32", "f64"):
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield written(f"testp.{test}.{kind} %d0, %a0;", "pred", kind)


def _approximate():
    for ftz in ("", ".ftz"):
        yield from forms(f"ex2.approx{ftz}.f32", "f32", "f32", relative=2**-22, absolute=2**-126)
        yield from forms(f"lg2.approx{ftz}.f32", "f32", "f32", relative=2**-22, absolute=2**-22)
        yield from forms(f"rcp.approx{ftz}.f32", "f32", "f32", relative=2**-22.5, absolute=2**-126)
        yield from forms(f"sqrt.approx{ftz}.f32", "f32", "f32", relative=2**-22.5)
        yield from forms(f"rsqrt.approx{ftz}.f32", "f32", "f32", relative=2**-22.4)
        # Beyond 100 pi there is no bound: a quarter of a number of moderate size stays within.
        for function in ("sin", "cos"):
            text = f"mul.f32 %a0, %a0, 0f3E800000; {function}.approx{ftz}.f32 %d0, %a0;"
            yield written(text, "f32", "f32:unit", absolute=2**-14.5)
        # The bound of 2 units in the last place holds for divisors of 2^-126 to 2^126.
        yield from forms(f"div.approx{ftz}.f32 div.full{ftz}.f32", "f32", "f32:unit f32:unit", relative=2**-21.9)
    yield from forms("tanh.approx.f32", "f32", "f32", relative=2**-10.9, absolute=2**-126)


def _comparisons():
    for kind in ("f32", "f64"):
        two = f"{kind} {kind}"
        for ftz in ("", ".ftz") if kind == "f32" else ("",):
            for relation in f"{_ORDERED} {_UNORDERED}".split():
                yield written(f"setp.{relation}{ftz}.{kind} %d0|%d1, %a0, %a1;", "pred pred", two)
                yield from forms(f"set.{relation}{ftz}.u32.{kind}", "b32", two)
                yield from forms(f"set.{relation}{ftz}.f32.{kind}", "f32", two)
            for operation in ("and", "or", "xor"):
                yield written(f"setp.gtu.{operation}{ftz}.{kind} %d0|%d1, %a0, %a1, %a2;", "pred pred", f"{two} pred")
        yield from forms(f"selp.{kind}", kind, f"{two} pred")
        yield from forms(f"slct.{kind}.f32 slct.ftz.{kind}.f32", kind, f"{two} f32")
        yield from forms(f"slct.{kind}.s32", kind, f"{two} s32")


FLOATS = [*_exact(), *_approximate(), *_comparisons()]
