"""wmma on matrices in shared memory: their fragments have no documented layout, what is loaded and stored has."""

from support.forms.form import Form

# Registers of A and of B by shape.
_SHAPES = {
    "f16": {"m16n16k16": (8, 8), "m32n8k16": (8, 8), "m8n32k16": (8, 8)},
    "bf16": {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)},
    "tf32": {"m16n16k8": (4, 4)},
    "s8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "u8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
}
_WORDS = {"f16": "f16x2:integers", "bf16": "bf16x2:integers", "tf32": "tf32:integers", "s8": "b32", "u8": "b32"}
_SUMS = {"f16": (("f32", 8), ("f16", 4)), "s8": (("s32", 8),), "u8": (("s32", 8),)}
_THREES = {"f32": "0f40400000", "f16": "0x42004200", "s32": "3"}


def _vector(letter, count):
    return f"{{{', '.join(f'%{letter}{index}' for index in range(count))}}}"


def _product(kind, shape, sum_type, count, layouts):
    """Both operands are what a warp has in its 1024 bytes of shared memory; to their product 3 is added."""
    of_a, of_b = _SHAPES[kind][shape]
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    a_layout, b_layout, d_layout = layouts
    pitches = (k if a_layout == "row" else m, n if b_layout == "row" else k, n if d_layout == "row" else m)
    types = f"{sum_type}.{sum_type}" if kind == "f16" else f"{sum_type}.{kind}.{kind}.{sum_type}"
    text = [
        ".reg .b32 %m<8>, %n<8>, %c<8>, %e<8>, %warp; shr.u32 %warp, %word, 5;",
        "mov.u32 %word, rows; mad.lo.u32 %warp, %warp, 1024, %word;",
        "st.shared.v4.b32 [%row], {%a0, %a1, %a2, %a3}; st.shared.v4.b32 [%row+16], {%a4, %a5, %a6, %a7}; bar.sync 0;",
        f"wmma.load.a.sync.aligned.{a_layout}.{shape}.shared.{kind} {_vector('m', of_a)}, [%warp], {pitches[0]};",
        f"wmma.load.b.sync.aligned.{b_layout}.{shape}.shared.{kind} {_vector('n', of_b)}, [%warp], {pitches[1]};",
        *(f"mov.b32 %c{index}, {_THREES[sum_type]};" for index in range(count)),
        f"wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{types}",
        f"{_vector('e', count)}, {_vector('m', of_a)}, {_vector('n', of_b)}, {_vector('c', count)};",
        "bar.sync 0; st.shared.v4.b32 [%row], {%c0, %c0, %c0, %c0}; st.shared.v4.b32 [%row+16], {%c0, %c0, %c0, %c0};",
        "bar.sync 0;",
        f"wmma.store.d.sync.aligned.{d_layout}.{shape}.shared.{sum_type} [%warp], {_vector('e', count)}, {pitches[2]};",
        "bar.sync 0; ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%row];",
        "ld.shared.v4.b32 {%d4, %d5, %d6, %d7}, [%row+16];",
    ]
    return Form(" ".join(text), (_result(sum_type),) * 8, (_WORDS[kind],) * 8)


def _result(sum_type):
    return "f16x2" if sum_type == "f16" else sum_type


def _all():
    for kind, shapes in _SHAPES.items():
        for shape in shapes:
            for sum_type, count in _SUMS.get(kind, (("f32", 8),)):
                for a_layout in ("row", "col"):
                    for b_layout in ("row", "col"):
                        d_layout = "row" if a_layout == b_layout else "col"
                        yield _product(kind, shape, sum_type, count, (a_layout, b_layout, d_layout))


FRAGMENTS = list(_all())
