"""mma.sync of every shape and type: whole numbers exactly, others within the bound of the hardware's accumulation.

Among the whole numbers some infinities and NaN, so that it shows which elements are multiplied at all.
"""

from support.forms.form import Form

REGISTERS = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32", "e4m3": "e4m3x4", "e5m2": "e5m2x4", "f64": "f64"}
# Shape, type of A and B, registers of A, of B and of an accumulator without pairs.
FLOATS = (
    ("m8n8k4", "f16", 2, 2, 8), ("m16n8k8", "f16", 2, 1, 4), ("m16n8k16", "f16", 4, 2, 4),
    ("m16n8k8", "bf16", 2, 1, 4), ("m16n8k16", "bf16", 4, 2, 4), ("m16n8k4", "tf32", 2, 1, 4),
    ("m16n8k8", "tf32", 4, 2, 4), ("m16n8k32", "e4m3", 4, 2, 4), ("m16n8k32", "e5m2", 4, 2, 4),
    ("m8n8k4", "f64", 1, 1, 2), ("m16n8k4", "f64", 2, 1, 4), ("m16n8k8", "f64", 4, 2, 4),
    ("m16n8k16", "f64", 8, 4, 4),
)  # fmt: skip
SPARSE_FLOATS = (
    ("m16n8k16", "f16", 2, 2, 4), ("m16n8k32", "f16", 4, 4, 4), ("m16n8k16", "bf16", 2, 2, 4),
    ("m16n8k32", "bf16", 4, 4, 4), ("m16n8k8", "tf32", 2, 2, 4), ("m16n8k16", "tf32", 4, 4, 4),
    ("m16n8k64", "e4m3", 4, 4, 4), ("m16n8k64", "e5m2", 4, 4, 4),
)  # fmt: skip
_INTEGERS = {
    "8": (("m8n8k16", 1, 1, 2), ("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4)),
    "4": (("m8n8k32", 1, 1, 2), ("m16n8k32", 2, 1, 4), ("m16n8k64", 4, 2, 4)),
}
_BITS = (("m8n8k128", 1, 1, 2), ("m16n8k128", 2, 1, 4), ("m16n8k256", 4, 2, 4))
_SPARSE_INTEGERS = (("m16n8k32", "8", 2, 2), ("m16n8k64", "8", 4, 4), ("m16n8k64", "4", 2, 2), ("m16n8k128", "4", 4, 4))


def _accumulators(a):
    return {"f16": ("f32", "f16"), "f64": ("f64",)}.get(a, ("f32",))


def _unit(a, accumulator):
    """What one addition may lose, relative to the largest addend: sums of float8 keep 13 bits, others at least 23.

    Those of float64 nothing: an H200 rounds every product and sum as one, in the order of k.
    """
    if accumulator == "f64":
        return 0.0
    return 2.0**-10 if accumulator == "f16" else 2.0**-12 if a.startswith("e") else 2.0**-23


def product_of(opcode, a, b, c, metadata=(), selector="", d=None, **bounds):
    """A form from the kinds of the registers of A, B, C and D, which are those of C if left out."""
    results = tuple(kind.split(":")[0] for kind in (d or c))
    names = iter(f"%a{index}" for index in range(len(a) + len(b) + len(c) + len(metadata)))
    vectors = [[f"%d{index}" for index in range(len(results))], *([next(names) for _ in kinds] for kinds in (a, b, c))]
    operands = [f"{{{', '.join(vector)}}}" for vector in vectors]
    operands += [*names, *filter(None, [selector])]
    return Form(f"{opcode} {', '.join(operands)};", results, (*a, *b, *c, *metadata), **bounds)


def _of_floats():
    for sparse, rows in ((False, FLOATS), (True, SPARSE_FLOATS)):
        for shape, a, of_a, of_b, of_c in rows:
            for b in ("e4m3", "e5m2") if a.startswith("e") else (a,):
                for accumulator in _accumulators(a):
                    yield from _each(sparse, shape, a, b, accumulator, (of_a, of_b, of_c))


def _each(sparse, shape, a, b, accumulator, registers):
    """Products of whole numbers, without and with infinities and NaN, and one of any numbers."""
    bound = (int(shape.split("k")[1]) + 1) * _unit(a, accumulator)
    for choice, magnitude in (("integers", 0.0), ("spiked", 0.0), ("numbers", bound)):
        yield product_of_floats(sparse, shape, a, b, accumulator, registers, choice, magnitude=magnitude)


def product_of_floats(sparse, shape, a, b, accumulator, registers, choice, layouts="row.col", **bounds):
    """A form of mma or mma.sp with such values (see `values`), given the registers of A, B and an accumulator."""
    of_a, of_b, of_c = registers
    kind, of_c = ("f16x2", of_c // 2) if accumulator == "f16" else (accumulator, of_c)
    types = f"{accumulator}.{a}.{b}.{accumulator}"
    metadata = ["b32:whole" if a == "tf32" else "b32:halved"] if sparse else []
    return product_of(
        f"mma{'.sp::ordered_metadata' if sparse else ''}.sync.aligned.{shape}.{layouts}.{types}",
        [f"{REGISTERS[a]}:{choice}"] * of_a,
        [f"{REGISTERS[b]}:{choice}"] * of_b,
        [f"{kind}:{choice}"] * of_c,
        metadata,
        "0" if sparse else "",
        **bounds,
    )


def _of_rounded_doubles():
    """Directed rounding, of each multiply-add."""
    for shape, _, of_a, of_b, of_c in (row for row in FLOATS if row[1] == "f64"):
        for rounding in ("rz", "rm", "rp"):
            kinds = [["f64:numbers"] * count for count in (of_a, of_b, of_c)]
            yield product_of(f"mma.sync.aligned.{shape}.row.col.{rounding}.f64.f64.f64.f64", *kinds)


def _of_integers():
    for bits, rows in _INTEGERS.items():
        for shape, of_a, of_b, of_c in rows:
            for types in (f"{a}{bits}.{b}{bits}" for a in "su" for b in "su"):
                for saturate in ("", ".satfinite"):
                    opcode = f"mma.sync.aligned.{shape}.row.col{saturate}.s32.{types}.s32"
                    yield product_of(opcode, ["b32"] * of_a, ["b32"] * of_b, ["s32"] * of_c)
    for shape, of_a, of_b, of_c in _BITS:
        for operation in ("xor", "and"):
            opcode = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc"
            yield product_of(opcode, ["b32"] * of_a, ["b32"] * of_b, ["s32"] * of_c)
    for shape, bits, of_a, of_b in _SPARSE_INTEGERS:
        for types in (f"{a}{bits}.{b}{bits}" for a in "su" for b in "su"):
            opcode = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.s32.{types}.s32"
            yield product_of(opcode, ["b32"] * of_a, ["b32"] * of_b, ["s32"] * 4, ["b32:halved"], "0")


PRODUCTS = [*_of_floats(), *_of_rounded_doubles(), *_of_integers()]
