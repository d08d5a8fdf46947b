"""cvt between every pair of types, and moves that pack and unpack."""

from support.forms.form import forms, written

_INTEGERS = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]
_FLOATS = ("f16", "bf16", "f32", "f64")
_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _holds(to, source):
    """Whether an integer type has all numbers of another, so that nothing saturates."""
    bits, others = int(to[1:]), int(source[1:])
    return bits >= others if to[0] == source[0] else to[0] == "s" and bits > others


def _of_integers():
    for to in _INTEGERS:
        for source in _INTEGERS:
            # A register of 8 bits is one of 16 whose upper half says the sign, which is compared too.
            result = f"b{max(16, int(to[1:]))}"
            yield from forms(f"cvt.{to}.{source}", result, source)
            if not _holds(to, source):
                yield from forms(f"cvt.sat.{to}.{source}", result, source)
    for source in _INTEGERS:
        for to in _FLOATS:
            if (to, source[1:]) == ("bf16", "8"):
                continue
            for mode in ("rn", "rz", "rm", "rp"):
                yield from forms(f"cvt.{mode}.{to}.{source}", to, source)
        yield from forms(f"cvt.rn.sat.f16.{source}", "f16", source)
        yield from forms(f"cvt.rz.sat.f32.{source}", "f32", source)
    for to in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        if to in ("u16", "s16"):
            yield from forms(f"cvt.pack.sat.{to}.s32", "b32", "s32 s32")
        else:
            yield from forms(f"cvt.pack.sat.{to}.s32.b32", "b32", "s32 s32 b32")


def _to_integers():
    for source in _FLOATS:
        for to in _INTEGERS:
            if (source, to[1:]) == ("bf16", "8"):
                continue
            result = f"b{max(16, int(to[1:]))}"
            for mode in ("rni", "rzi", "rmi", "rpi"):
                for ftz in ("", ".ftz") if source == "f32" else ("",):
                    yield from forms(f"cvt.{mode}{ftz}.{to}.{source}", result, source)


def _between_floats():
    for kind in ("f16", "f32", "f64"):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            yield from forms(f"cvt.{mode}.{kind}.{kind} cvt.{mode}.sat.{kind}.{kind}", kind, kind)
    yield from forms("cvt.rzi.ftz.f32.f32 cvt.sat.f32.f32 cvt.ftz.f32.f32 cvt.ftz.sat.f32.f32", "f32", "f32")
    for source in _FLOATS:
        for to in _FLOATS:
            narrows = _FLOAT_BITS[to] < _FLOAT_BITS[source] or {to, source} == {"f16", "bf16"}
            if to == source:
                continue
            if not narrows:
                yield from forms(f"cvt.{to}.{source}", to, source)
                continue
            directed = "" if to == "f16" and source == "bf16" else "rz rm rp"
            for mode in f"rn {directed}".split():
                yield from forms(f"cvt.{mode}.{to}.{source}", to, source)
    yield from forms("cvt.sat.f32.f16 cvt.ftz.f32.f16", "f32", "f16")
    yield from forms("cvt.sat.f64.f32 cvt.ftz.f64.f32", "f64", "f32")
    yield from forms("cvt.rn.ftz.f32.f64 cvt.rz.sat.f32.f64", "f32", "f64")
    yield from forms("cvt.rn.ftz.f16.f32 cvt.rn.sat.f16.f32 cvt.rz.ftz.sat.f16.f32", "f16", "f32")
    for to in ("f16", "bf16"):
        modifiers = (".relu", ".satfinite", ".relu.satfinite")
        single = " ".join(f"cvt.{mode}{extra}.{to}.f32" for mode in ("rn", "rz") for extra in modifiers)
        yield from forms(single, to, "f32")
        pairs = " ".join(f"cvt.{mode}{extra}.{to}x2.f32" for mode in ("rn", "rz") for extra in ("", *modifiers))
        yield from forms(pairs, f"{to}x2", "f32 f32")


def _small_floats():
    for to in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            yield from forms(f"cvt.rn.satfinite{relu}.{to}.f32", to, "f32 f32")
            yield from forms(f"cvt.rn.satfinite{relu}.{to}.f16x2", to, "f16x2")
            yield from forms(f"cvt.rn{relu}.f16x2.{to}", "f16x2", to)
    yield from forms("cvt.rna.tf32.f32 cvt.rna.satfinite.tf32.f32", "tf32", "f32")
    for mode in ("rn", "rz"):
        yield from forms(f"cvt.{mode}.tf32.f32 cvt.{mode}.relu.tf32.f32", "tf32", "f32")


def _moves():
    yield written("mov.b32 %d0, {%a0, %a1};", "b32", "b16 b16")
    yield written("mov.b64 %d0, {%a0, %a1};", "b64", "b32 b32")
    yield written("mov.b64 %d0, {%a0, %a1, %a2, %a3};", "b64", "b16 b16 b16 b16")
    yield written("mov.b32 {%d0, %d1}, %a0;", "b16 b16", "b32")
    yield written("mov.b64 {%d0, %d1}, %a0;", "b32 b32", "b64")
    yield written("mov.b64 {%d0, %d1, %d2, %d3}, %a0;", "b16 b16 b16 b16", "b64")
    yield from forms("mov.f32", "b32", "b32")
    yield from forms("mov.pred", "pred", "pred")


CONVERSIONS = [*_of_integers(), *_to_integers(), *_between_floats(), *_small_floats(), *_moves()]
