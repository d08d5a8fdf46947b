"""Arithmetic and comparisons of 16-bit floating point and pairs of it, approximations within bounds chosen here."""

from support.forms.form import forms, written

_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _arithmetic():
    for kind in ("f16", "f16x2"):
        two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
        for modifiers in ("", ".ftz", ".sat", ".ftz.sat"):
            for rounding in ("", ".rn"):
                yield from forms(
                    " ".join(f"{opcode}{rounding}{modifiers}.{kind}" for opcode in ("add", "sub", "mul")), kind, two
                )
            yield from forms(f"fma.rn{modifiers}.{kind}", kind, three)
        yield from forms(f"fma.rn.relu.{kind} fma.rn.ftz.relu.{kind}", kind, three)
    for modifiers in ("", ".ftz", ".ftz.sat"):
        # All products and sums about the smallest normal number, which .ftz flushes or not.
        smallest = "mov.b16 %d0, 0x0400; "
        yield written(f"{smallest}mul{modifiers}.f16 %d0, %a0, %d0;", "f16", "f16")
        yield written(f"{smallest}fma.rn{modifiers}.f16 %d0, %a0, %d0, %d0;", "f16", "f16")
    for kind in ("bf16", "bf16x2"):
        yield from forms(f"add.{kind} sub.{kind} mul.{kind} add.rn.{kind} mul.rn.{kind}", kind, f"{kind} {kind}")
        yield from forms(f"fma.rn.{kind} fma.rn.relu.{kind}", kind, f"{kind} {kind} {kind}")
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        for ftz in ("", ".ftz") if kind.startswith("f") else ("",):
            yield from forms(f"abs{ftz}.{kind} neg{ftz}.{kind}", kind, kind)
            yield from forms(
                " ".join(
                    f"{opcode}{ftz}{modifiers}.{kind}"
                    for opcode in ("min", "max")
                    for modifiers in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
                ),
                kind,
                f"{kind} {kind}",
            )


def _approximate():
    """One rounding to the type on either side comes on top of the bounds."""
    for kind in ("f16", "f16x2"):
        yield from forms(f"ex2.approx.{kind}", kind, kind, relative=2**-9.8 + 2**-10, absolute=2**-24)
        yield from forms(f"tanh.approx.{kind}", kind, kind, absolute=2**-10.9 + 2**-11)
    for kind in ("bf16", "bf16x2"):
        yield from forms(f"ex2.approx.ftz.{kind}", kind, kind, relative=2**-6.9 + 2**-7, absolute=2**-126)
        yield from forms(f"tanh.approx.{kind}", kind, kind, absolute=2**-7.9 + 2**-8)


def _comparisons():
    for kind in ("f16", "bf16"):
        for ftz in ("", ".ftz") if kind == "f16" else ("",):
            for relation in _RELATIONS:
                yield from forms(f"setp.{relation}{ftz}.{kind}", "pred", f"{kind} {kind}")
                pair = f"{kind}x2"
                yield written(f"setp.{relation}{ftz}.{pair} %d0|%d1, %a0, %a1;", "pred pred", f"{pair} {pair}")
                yield from forms(f"set.{relation}{ftz}.{kind}.{kind}", kind, f"{kind} {kind}")
                yield from forms(f"set.{relation}{ftz}.u32.{kind}", "b32", f"{kind} {kind}")
                yield from forms(f"set.{relation}{ftz}.u16.{kind}", "b16", f"{kind} {kind}")
                yield from forms(f"set.{relation}{ftz}.{pair}.{pair}", pair, f"{pair} {pair}")
        for operation in ("and", "or", "xor"):
            yield from forms(f"setp.le.{operation}.{kind}", "pred", f"{kind} {kind} pred")


HALVES = [*_arithmetic(), *_approximate(), *_comparisons()]
