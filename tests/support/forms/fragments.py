"""wmma on matrices in shared memory: their fragments have no documented layout, what is loaded and stored has."""

from itertools import product

from support.forms.form import Form

# Registers of A and of B by shape.
_SHAPES = {
    "f16": {"m16n16k16": (8, 8), "m32n8k16": (8, 8), "m8n32k16": (8, 8)},
    "bf16": {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)},
    "tf32": {"m16n16k8": (4, 4)},
    "s8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "u8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "f64": {"m8n8k4": (1, 1)},
    "s4": {"m8n8k32": (1, 1)},
    "u4": {"m8n8k32": (1, 1)},
    "b1": {"m8n8k128": (1, 1)},
}
_WORDS = {"f16": "f16x2:integers", "bf16": "bf16x2:integers", "tf32": "tf32:integers", "f64": "f64:numbers"}
# Accumulators' type, and their registers.
_SUMS = {
    "f16": {"f32": 8, "f16": 4},
    "bf16": {"f32": 8},
    "tf32": {"f32": 8},
    "f64": {"f64": 2},
    "s8": {"s32": 8},
    "u8": {"s32": 8},
    **{kind: {"s32": 2} for kind in ("s4", "u4", "b1")},
}
_THREES = {"f32": "0f40400000", "f64": "0d4008000000000000", "f16": "0x42004200", "s32": "3"}


def _vector(letter, count):
    return f"{{{', '.join(f'%{letter}{index}' for index in range(count))}}}"


def _row(opcode, names, bits):
    """The thread's 32 bytes of shared memory, by two instructions."""
    half = len(names) // 2
    texts = []
    for start, place in ((0, "[%row]"), (half, "[%row+16]")):
        registers = f"{{{', '.join(names[start : start + half])}}}"
        operands = f"{place}, {registers}" if opcode == "st" else f"{registers}, {place}"
        texts.append(f"{opcode}.shared.v{half}.b{bits} {operands};")
    return " ".join(texts)


def product_of_fragments(kind, shape, sum_type, layouts, operation="", rounding="", *, c_type=None, choice=None):
    """Both operands are what a warp has in its 1024 bytes of shared memory; to their product 3 is added.

    c_type: of an accumulator that differs. choice: values (see `values`) that show how sums are rounded; then B is the
    end of the memory, and the product is added to itself and 3.
    """
    of_a, of_b = _SHAPES[kind][shape]
    c_type = c_type or sum_type
    counts = {"d": _SUMS[kind][sum_type], "c": _SUMS[kind][c_type]}
    bits = 64 if kind == "f64" else 32
    words = 256 // bits
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    a_layout, b_layout, d_layout = layouts
    start_of_b = 1024 - int(n) * int(k) * (4 if kind == "tf32" else 2) if choice else 0
    pitches = (k if a_layout == "row" else m, n if b_layout == "row" else k, n if d_layout == "row" else m)

    def multiply(d_type, d, c):
        types = f"{d_type}.{c_type}" if kind == "f16" else f"{d_type}.{kind}.{kind}.{c_type}"
        return [
            f"wmma.mma{operation}.sync.aligned.{a_layout}.{b_layout}.{shape}{rounding}.{types}",
            f"{_vector(d, _SUMS[kind][d_type])}, {_vector('m', of_a)}, {_vector('n', of_b)},",
            f"{_vector(c, counts['c'])};",
        ]

    text = [
        f".reg .b{bits} %m<8>, %n<8>, %c<8>, %e<8>, %f<8>; .reg .b32 %warp; shr.u32 %warp, %word, 5;",
        "mov.u32 %word, rows; mad.lo.u32 %warp, %warp, 1024, %word;",
        f"{_row('st', [f'%a{index}' for index in range(words)], bits)} bar.sync 0;",
        f"wmma.load.a.sync.aligned.{a_layout}.{shape}.shared.{kind} {_vector('m', of_a)}, [%warp], {pitches[0]};",
        f"wmma.load.b.sync.aligned.{b_layout}.{shape}.shared.{kind} {_vector('n', of_b)},",
        f"[%warp+{start_of_b}], {pitches[1]};",
        *(f"mov.b{bits} %c{index}, {_THREES[c_type]};" for index in range(counts["c"])),
        *(multiply(c_type, "f", "c") if choice else ()),
        *multiply(sum_type, "e", "f" if choice else "c"),
        f"bar.sync 0; {_row('st', ['%c0'] * words, bits)} bar.sync 0;",
        f"wmma.store.d.sync.aligned.{d_layout}.{shape}.shared.{sum_type} [%warp], {_vector('e', counts['d'])},",
        f"{pitches[2]}; bar.sync 0; {_row('ld', [f'%d{index}' for index in range(words)], bits)}",
    ]
    word = _WORDS.get(kind, "b32")
    source = f"{word.partition(':')[0]}:{choice}" if choice else word
    return Form(" ".join(text), (_result(sum_type),) * words, (source,) * words, hardware=choice is not None)


def _result(sum_type):
    return "f16x2" if sum_type == "f16" else sum_type


def _all():
    for kind, shapes in _SHAPES.items():
        choices = ("row",), ("col",)
        if kind not in ("s4", "u4", "b1"):  # A by rows and B by columns is all that these have
            choices = ("row", "col"), ("row", "col")
        operations = (".xor.popc", ".and.popc") if kind == "b1" else ("",)
        roundings = ("", ".rn", ".rz", ".rm", ".rp") if kind == "f64" else ("",)
        for shape, sum_type, a_layout, b_layout, operation, rounding in product(
            shapes, _SUMS[kind], *choices, operations, roundings
        ):
            layouts = (a_layout, b_layout, "row" if a_layout == b_layout else "col")
            yield product_of_fragments(kind, shape, sum_type, layouts, operation, rounding)


FRAGMENTS = list(_all())
