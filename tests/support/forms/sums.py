"""Products whose sums show how tensor cores add: the emulator's hardware arithmetic must have the GPU's bits.

Their operands lose bits in every way that the table of adders knows; see `values`.
"""

from itertools import product

from support.forms.fragments import product_of_fragments
from support.forms.products import FLOATS, REGISTERS, SPARSE_FLOATS, product_of, product_of_floats
from support.forms.warpgroups import WarpgroupProduct

_BYTES = (("m16n8k16", "e4m3", 2, 1, 4), ("m16n8k16", "e5m2", 2, 1, 4))
"""Shapes of fp8 that sums of f16 need too, beside those of FLOATS."""


def _choices(accumulator):
    return ("mild" if accumulator == "f16" else "adverse", "special", "finite", "tiny")


def _of_warps():
    dense = [row for row in FLOATS if row[1] != "f64"]
    for sparse, rows in ((False, [*dense, *_BYTES]), (True, SPARSE_FLOATS)):
        for shape, a, *registers in rows:
            narrow = a == "f16" or (a.startswith("e") and not sparse)
            types = product(("e4m3", "e5m2") if a.startswith("e") else (a,), ("f32", "f16") if narrow else ("f32",))
            for b, accumulator in types:
                for choice in _choices(accumulator):
                    yield product_of_floats(sparse, shape, a, b, accumulator, registers, choice, hardware=True)


def _of_quad_pairs():
    for a_layout, b_layout, (d, c), choice in product(
        ("row", "col"), ("row", "col"), (("f32", "f32"), ("f32", "f16"), ("f16", "f16")), _choices("f16")
    ):
        kinds = {"f32": [f"f32:{choice}"] * 8, "f16": [f"f16x2:{choice}"] * 4}
        opcode = f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d}.f16.f16.{c}"
        operands = [f"{REGISTERS['f16']}:{choice}"] * 2
        yield product_of(opcode, operands, operands, kinds[c], d=kinds[d], hardware=True)


def _of_fragments():
    shapes = {
        **dict.fromkeys(("f16", "bf16"), ("m16n16k16", "m32n8k16", "m8n32k16")), "tf32": ("m16n16k8",),
    }  # fmt: skip
    for kind, of_kind in shapes.items():
        sums = product(("f32", "f16"), repeat=2) if kind == "f16" else (("f32", "f32"),)
        for (d, c), shape in product(sums, of_kind):
            for choice, layouts in zip(_choices("f16"), product(("row", "col"), repeat=2), strict=True):
                layouts = (*layouts, layouts[0])
                yield product_of_fragments(kind, shape, d, layouts, c_type=c, choice=choice)


def _of_warpgroups():
    types = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    types += list(product(("f32", "f16"), ("e4m3", "e5m2"), ("e4m3", "e5m2")))
    for kinds in types:
        for choice in _choices(kinds[0]):
            yield WarpgroupProduct(256, *kinds, choice=choice)
            yield WarpgroupProduct(32, *kinds, from_registers=True, negate=(-1, 1), choice=choice)
        yield WarpgroupProduct(256, *kinds, keep=0, choice="tiny")


SUMS = {"mma": [*_of_warps(), *_of_quad_pairs()], "wmma": list(_of_fragments()), "wgmma": list(_of_warpgroups())}
"""By kind of instruction."""
