"""mma.sync, mma.sp, wmma and movmatrix in PTX against the fragment tables of the PTX ISA, as plain loops."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from emulate.fragment_tables import BITS, DTYPES, bits_of, from_registers, integers, run_warp, to_registers
from tilewright.emulator import Device, UnsupportedInstruction
from tilewright.emulator.semantics.matrices.accumulation import MODES


def tables(kind, m, depth):
    """Elements per lane and positions of A and B, for rows of `kind` (PTX ISA, "Matrix Fragments for mma...")."""
    per = 1 if kind == "f64" else 32 // BITS[kind]
    halves = m // 8

    def of_a(i, lane):
        register, e = divmod(i, per)
        return lane // 4 + 8 * (register % halves), lane % 4 * per + e + 4 * per * (register // halves)

    def of_b(i, lane):
        register, e = divmod(i, per)
        return lane % 4 * per + e + 4 * per * register, lane // 4

    return (m * depth // 32, of_a), (8 * depth // 32, of_b)


def of_d(m):
    """Elements per lane and positions of accumulators."""
    return m // 4, lambda i, lane: (lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2)


DENSE = [
    ("m16n8k8", "f16", "f16", "f32"), ("m16n8k16", "f16", "f16", "f16"), ("m16n8k16", "bf16", "bf16", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"), ("m16n8k8", "tf32", "tf32", "f32"), ("m16n8k16", "s8", "u8", "s32"),
    ("m16n8k32", "u8", "s8", "s32"), ("m16n8k32", "e4m3", "e5m2", "f32"), ("m16n8k16", "e5m2", "e4m3", "f16"),
    ("m8n8k16", "s8", "s8", "s32"), ("m8n8k32", "s4", "u4", "s32"), ("m16n8k32", "u4", "s4", "s32"),
    ("m16n8k64", "s4", "s4", "s32"), ("m8n8k4", "f64", "f64", "f64"), ("m16n8k4", "f64", "f64", "f64"),
    ("m16n8k8", "f64", "f64", "f64"), ("m16n8k16", "f64", "f64", "f64"),
]  # fmt: skip


def extents(shape):
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    return m, n, k


def accumulator_width(kind):
    """Bits of an accumulator's register, and accumulators in it."""
    return (64, 1) if kind == "f64" else (32, 32 // BITS[kind])


@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize(("shape", "a_type", "b_type", "d_type"), DENSE)
def test_dense_products(shape, a_type, b_type, d_type, arithmetic):
    generator = np.random.default_rng(1)
    m, n, k = extents(shape)
    a, b = integers(generator, a_type, m, k), integers(generator, b_type, k, n)
    c = generator.integers(-64, 65, (m, n))
    table_a, table_b = tables(a_type, m, k)
    width, packed = accumulator_width(d_type)
    d = run_warp(
        f"mma.sync.aligned.{shape}.row.col.{d_type}.{a_type}.{b_type}.{d_type} {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, a_type, *table_a),
        to_registers(b, b_type, *table_b),
        to_registers(c, d_type, *of_d(m)),
        outputs=(of_d(m)[0] // packed, width),
        tensor_cores=arithmetic,
    )
    np.testing.assert_array_equal(from_registers(d, d_type, *of_d(m), (m, n)), a @ b + c)


ROUNDINGS = ("rn", "rz", "rm", "rp")


def rounded(exact, mode):
    """A fraction as float64."""
    nearest = float(exact)
    if mode == "rn" or nearest == exact:
        return nearest
    other = np.nextafter(nearest, np.inf if exact > nearest else -np.inf)
    below, above = sorted((nearest, other))
    return {"rm": below, "rp": above, "rz": min(below, above, key=abs)}[mode]


def fused(a, b, c, mode):
    """A B + C, rounded at each multiply-add in the order of k: what an H200 does in float64."""
    total = c.copy()
    for m, n in np.ndindex(c.shape):
        for k in range(a.shape[1]):
            exact = Fraction(a[m, k]) * Fraction(b[k, n]) + Fraction(total[m, n])
            total[m, n] = rounded(exact, mode)
    return total


@pytest.mark.parametrize("kinds", ["rounding.f64.f64.f64.f64", "f64.f64.f64.f64.rounding"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("shape", [shape for shape, kind, *_ in DENSE if kind == "f64"])
def test_products_of_f64_are_rounded_as_asked(shape, rounding, kinds):
    generator = np.random.default_rng(7)
    m, n, k = extents(shape)
    a, b, c = (generator.standard_normal(extent) for extent in ((m, k), (k, n), (m, n)))
    table_a, table_b = tables("f64", m, k)
    d = run_warp(
        f"mma.sync.aligned.{shape}.row.col.{kinds.replace('rounding', rounding)} {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, "f64", *table_a),
        to_registers(b, "f64", *table_b),
        to_registers(c, "f64", *of_d(m)),
        outputs=(of_d(m)[0], 64),
    )
    np.testing.assert_array_equal(from_registers(d, "f64", *of_d(m), (m, n)), fused(a, b, c, rounding))


@pytest.mark.parametrize("operation", ["and", "xor"])
@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
def test_products_of_bits(shape, operation):
    generator = np.random.default_rng(2)
    m, n, k = extents(shape)
    a, b = integers(generator, "b1", m, k), integers(generator, "b1", k, n)
    c = generator.integers(-64, 65, (m, n))
    table_a, table_b = tables("b1", m, k)
    d = run_warp(
        f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, "b1", *table_a),
        to_registers(b, "b1", *table_b),
        to_registers(c, "s32", *of_d(m)),
        outputs=(of_d(m)[0], 32),
    )
    combined = {"and": np.bitwise_and, "xor": np.bitwise_xor}[operation](a[:, :, None], b[None])
    np.testing.assert_array_equal(from_registers(d, "s32", *of_d(m), (m, n)), combined.sum(1) + c)


@pytest.mark.parametrize("saturates", [False, True])
def test_integer_sums_wrap_or_saturate(saturates):
    a, b = np.full((16, 32), 127), np.full((32, 8), 127)
    b[:, 4:] = -128
    c = np.where(np.arange(8) < 4, 2**31 - 1000, -(2**31) + 1000) * np.ones((16, 1), int)
    (table_a, table_b), flag = tables("s8", 16, 32), ".satfinite" if saturates else ""
    d = run_warp(
        f"mma.sync.aligned.m16n8k32.row.col{flag}.s32.s8.s8.s32 {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, "s8", *table_a),
        to_registers(b, "s8", *table_b),
        to_registers(c, "s32", *of_d(16)),
        outputs=(4, 32),
    )
    exact = a @ b + c
    expected = np.clip(exact, -(2**31), 2**31 - 1) if saturates else (exact + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(from_registers(d, "s32", *of_d(16), (16, 8)), expected)


# Volta: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
QUAD_A = {
    "row": lambda i, lane: (lane % 4 if lane < 16 else lane % 4 + 4, i),
    "col": lambda i, lane: (i % 4 if lane < 16 else i % 4 + 4, lane % 4),
}
QUAD_B = {
    "row": lambda i, lane: (lane % 4, i if lane < 16 else i + 4),
    "col": lambda i, lane: (i, lane % 4 if lane < 16 else lane % 4 + 4),
}
QUAD_C = {
    "f16": lambda i, lane: (lane % 4 if lane < 16 else lane % 4 + 4, i),
    "f32": lambda i, lane: (
        (lane & 1) + (i & 2) + (0 if lane < 16 else 4),
        (i & 4) + (lane & 2) + (i & 1),
    ),
}


def of_product(position):
    """A position in a stack of four matrices; the product of a lane is the quarter of its half-warp."""
    return lambda i, lane: (lane % 16 // 4, *position(i, lane))


@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize(("d_type", "c_type"), [("f16", "f16"), ("f32", "f32"), ("f32", "f16")])
@pytest.mark.parametrize("b_layout", ["row", "col"])
@pytest.mark.parametrize("a_layout", ["row", "col"])
def test_products_of_quad_pairs(a_layout, b_layout, d_type, c_type, arithmetic):
    generator = np.random.default_rng(3)
    a, b = integers(generator, "f16", 4, 8, 4), integers(generator, "f16", 4, 4, 8)
    c = generator.integers(-64, 65, (4, 8, 8))
    d = run_warp(
        f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{c_type} {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, "f16", 4, of_product(QUAD_A[a_layout])),
        to_registers(b, "f16", 4, of_product(QUAD_B[b_layout])),
        to_registers(c, c_type, 8, of_product(QUAD_C[c_type])),
        outputs=(8 * BITS[d_type] // 32, 32),
        tensor_cores=arithmetic,
    )
    np.testing.assert_array_equal(from_registers(d, d_type, 8, of_product(QUAD_C[d_type]), (4, 8, 8)), a @ b + c)


SPARSE = [
    ("m16n8k16", "f16", "f16"), ("m16n8k32", "f16", "f32"), ("m16n8k16", "bf16", "f32"), ("m16n8k32", "bf16", "f32"),
    ("m16n8k8", "tf32", "f32"), ("m16n8k16", "tf32", "f32"), ("m16n8k32", "s8", "s32"), ("m16n8k64", "u8", "s32"),
    ("m16n8k64", "e4m3", "f32"), ("m16n8k64", "s4", "s32"), ("m16n8k128", "u4", "s32"),
]  # fmt: skip


def sparse_matrix(generator, kind, depth):
    """A (16, depth), its kept half (16, depth / 2), and per row the 2-bit codes of the kept units."""
    dense, kept, codes = np.zeros((16, depth), int), np.zeros((16, depth // 2), int), []
    for row in range(16):
        row_codes = []
        if kind == "tf32":
            for pair in range(depth // 2):
                place = int(generator.integers(2))
                kept[row, pair] = dense[row, 2 * pair + place] = generator.integers(1, 9)
                row_codes += [2, 3] if place else [0, 1]
        else:
            unit = 2 if kind in ("s4", "u4") else 1
            for chunk in range(depth // (4 * unit)):
                first, second = sorted(generator.choice(4, 2, replace=False).tolist())
                row_codes += [first, second]
                for number, place in enumerate((first, second)):
                    values = integers(generator, kind, unit)
                    start = (4 * chunk + place) * unit
                    dense[row, start : start + unit] = values
                    kept[row, (2 * chunk + number) * unit :][:unit] = values
        codes.append(row_codes)
    return dense, kept, codes


def metadata(kind, codes, selector):
    """A word per lane: words of which the instruction reads only those of the selected lanes."""
    words = np.full((32, 1), 0xE4E4E4E4, np.uint32)
    rows = [sum(code << 2 * i for i, code in enumerate(row)) for row in codes]
    row_bits = 2 * len(codes[0])
    for g in range(8):
        if BITS[kind] >= 16:  # each lane has 16 bits of both rows
            count = row_bits // 16
            for j in range(count):
                low, high = rows[g] >> 16 * j & 0xFFFF, rows[g + 8] >> 16 * j & 0xFFFF
                words[4 * g + selector * count + j] = low | high << 16
        else:  # each lane has 32 bits of one row
            count = row_bits // 16
            for j, half in itertools.product(range(count // 2), range(2)):
                words[4 * g + selector * count + 2 * j + half] = rows[g + 8 * half] >> 32 * j & 0xFFFFFFFF
    return words


@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize("name", ["mma.sp", "mma.sp::ordered_metadata"])
@pytest.mark.parametrize(("shape", "kind", "d_type"), SPARSE)
def test_sparse_products(shape, kind, d_type, name, arithmetic):
    generator = np.random.default_rng(4)
    m, n, k = extents(shape)
    dense, kept, codes = sparse_matrix(generator, kind, k)
    b, c = integers(generator, kind, k, n), generator.integers(-64, 65, (m, n))
    table_a, _ = tables(kind, m, k // 2)
    _, table_b = tables(kind, m, k)
    for selector in range(64 // (2 * len(codes[0]))):
        d = run_warp(
            f"{name}.sync.aligned.{shape}.row.col.{d_type}.{kind}.{kind}.{d_type} {{d}}, {{0}}, {{1}}, {{2}}, {{r3}},"
            f" {selector};",
            to_registers(kept, kind, *table_a),
            to_registers(b, kind, *table_b),
            to_registers(c, d_type, *of_d(m)),
            metadata(kind, codes, selector),
            outputs=(4 * BITS[d_type] // 32, 32),
            tensor_cores=arithmetic,
        )
        np.testing.assert_array_equal(from_registers(d, d_type, *of_d(m), (m, n)), dense @ b + c)


@pytest.mark.parametrize(("row", "expected"), [(2, 8.0), (1, np.inf)])
def test_of_b_only_rows_that_meet_a_kept_element_count(row, expected):
    codes, kept, b = [[0, 1] * 4] * 16, np.ones((16, 8)), np.ones((16, 8))
    b[row] = np.inf
    d = run_warp(
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {0}, {1}, {2}, {r3}, 0;",
        to_registers(kept, "f16", *tables("f16", 16, 8)[0]),
        to_registers(b, "f16", *tables("f16", 16, 16)[1]),
        to_registers(np.zeros((16, 8)), "f32", *of_d(16)),
        metadata("f16", codes, 0),
        outputs=(4, 32),
    )
    np.testing.assert_array_equal(from_registers(d, "f32", *of_d(16), (16, 8)), np.full((16, 8), expected))


def test_sparse_metadata_come_from_lanes_that_exist():
    registers = np.zeros((32, 4), np.uint32)
    with pytest.raises(UnsupportedInstruction, match="sparsity selector is 2; of this shape and type it is below 2"):
        run_warp(
            "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, {0}, {0}, {0}, {r0}, 2;",
            registers,
            outputs=(4, 32),
        )


def test_movmatrix_transposes():
    matrix = np.random.default_rng(5).integers(0, 1 << 16, (8, 8), np.uint16)
    words = np.ascontiguousarray(matrix).view(np.uint32).reshape(32, 1)
    d = run_warp("movmatrix.sync.aligned.m8n8.trans.b16 %d0, {r0};", words, outputs=(1, 32))
    np.testing.assert_array_equal(d.view(np.uint16).reshape(8, 8), matrix.T)


WMMA = [
    *((shape, kind, d_type, d_type) for shape in ("m16n16k16", "m32n8k16", "m8n32k16")
      for kind, d_type in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"), ("u8", "s32"))),
    ("m16n16k16", "f16", "f32", "f16"), ("m16n16k16", "f16", "f16", "f32"),
    ("m16n16k8", "tf32", "f32", "f32"), ("m8n8k4", "f64", "f64", "f64"),
]  # fmt: skip


def wmma_registers(kind, matrix, elements):
    if kind == "f16" and matrix in "ab":
        return 8
    return elements // 32 // max(32 // BITS[kind], 1)


def run_wmma(
    shape, kind, d_type, c_type, layouts, strides, space, matrices, multiply="wmma.mma", kinds=None, arithmetic="exact"
):
    """Load A, B and C from one buffer in `space`, multiply, and store D after them. Returns the buffer."""
    m, n, k = extents(shape)
    types = {"a": kind, "b": kind, "c": c_type, "d": d_type}
    sizes = {"a": m * k, "b": k * n, "c": m * n, "d": m * n}
    counts = {name: wmma_registers(types[name], name, sizes[name]) for name in "abcd"}
    lists = {name: "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}" for name, count in counts.items()}
    width = 64 if kind == "f64" else 32
    offsets, total, parts = {}, 0, []
    for name in "abcd":
        offsets[name] = total
        parts.append(matrices[name].reshape(-1).view(np.uint8))
        total += -(-parts[-1].size // 256) * 256
    buffer = np.zeros(total, np.uint8)
    for name, part in zip("abcd", parts, strict=True):
        buffer[offsets[name] : offsets[name] + part.size] = part
    where = {"global": ".global", "shared": ".shared", "generic": ""}[space]
    base = "%s" if space == "shared" else "%p"
    copies = [f"ld.global.b32 %x, [%g+{i}]; st.shared.b32 [%l+{i}], %x;" for i in range(0, total, 128)]
    back = [f"ld.shared.b32 %x, [%l+{i}]; st.global.b32 [%g+{i}], %x;" for i in range(0, total, 128)]
    loads = [
        f"wmma.load.{name}.sync.aligned.{layouts[name]}.{shape}{where}.{types[name]} {lists[name]},"
        f" [{base}+{offsets[name]}], %stride{name};"
        for name in "abc"
    ]
    kinds = kinds or (f"{d_type}.{c_type}" if kind == "f16" else f"{d_type}.{kind}.{kind}.{c_type}")
    ptx = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry op(.param .u64 in) {{
  .reg .b64 %p, %g; .reg .b32 %s, %x, %l;
  .reg .b32 %stridea, %strideb, %stridec, %strided;
  .shared .align 256 .b8 tile[{total}];
  {" ".join(f".reg .b{width} %{name}<{count}>;" for name, count in counts.items())}
  ld.param.u64 %p, [in];
  mov.u32 %s, tile;
  mov.u32 %l, %tid.x; mul.wide.u32 %g, %l, 4; add.u64 %g, %g, %p; mad.lo.u32 %l, %l, 4, %s;
  {" ".join(f"mov.u32 %stride{name}, {stride};" for name, stride in strides.items())}
  {" ".join(copies) if space == "shared" else ""} bar.sync 0;
  {" ".join(loads)}
  {multiply}.sync.aligned.{layouts["a"]}.{layouts["b"]}.{shape}.{kinds} {lists["d"]}, {lists["a"]},
    {lists["b"]}, {lists["c"]};
  wmma.store.d.sync.aligned.{layouts["d"]}.{shape}{where}.{d_type} [{base}+{offsets["d"]}], {lists["d"]}, %strided;
  bar.sync 0; {" ".join(back) if space == "shared" else ""}
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20, tensor_cores=arithmetic)
    place = device.upload(buffer)
    device.launch(device.load(ptx), (1,), (32,), [place])
    return device.read(place, total)[offsets["d"] :]


@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize(("shape", "kind", "d_type", "c_type"), WMMA)
def test_wmma(shape, kind, d_type, c_type, space, arithmetic):
    generator = np.random.default_rng(6)
    m, n, k = extents(shape)
    values = {
        "a": integers(generator, kind, m, k),
        "b": integers(generator, kind, k, n),
        "c": generator.integers(-64, 65, (m, n)),
        "d": np.zeros((m, n), int),
    }
    if d_type == "f16":
        values["a"] //= 2
    types = {"a": kind, "b": kind, "c": c_type, "d": d_type}
    orders = [
        dict(zip("abcd", order, strict=True)) for order in (("row", "col", "row", "col"), ("col", "row", "col", "row"))
    ]
    for layouts in orders:
        padded, strides = {}, {}
        for name, matrix in values.items():
            lines = matrix if layouts[name] == "row" else matrix.T
            strides[name] = lines.shape[1] + 8
            padded[name] = np.zeros((lines.shape[0], strides[name]), DTYPES[types[name]])
            padded[name][:, : lines.shape[1]] = lines
        stored = run_wmma(shape, kind, d_type, c_type, layouts, strides, space, padded, arithmetic=arithmetic)
        lines = stored[: padded["d"].nbytes].view(DTYPES[d_type]).reshape(padded["d"].shape)
        result = lines[:, : n if layouts["d"] == "row" else m]
        result = result if layouts["d"] == "row" else result.T
        np.testing.assert_array_equal(result.astype(float), values["a"] @ values["b"] + values["c"])


def lines_of(matrix, kind, padding):
    """Lines of a matrix of elements that are parts of a byte, as bytes, with so many of 0xff behind each."""
    elements = (matrix & (1 << BITS[kind]) - 1).astype(np.uint8)
    bits = np.unpackbits(elements[..., None], axis=-1, count=BITS[kind], bitorder="little")
    packed = np.packbits(bits.reshape(len(matrix), -1), axis=-1, bitorder="little")
    return np.pad(packed, ((0, 0), (0, padding)), constant_values=0xFF)


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("d_layout", ["row", "col"])
@pytest.mark.parametrize(
    ("shape", "kind", "multiply"),
    [
        ("m8n8k128", "b1", "wmma.mma.xor.popc"), ("m8n8k128", "b1", "wmma.mma.and.popc"),
        ("m8n8k32", "s4", "wmma.mma"), ("m8n8k32", "u4", "wmma.mma"),
    ],
)  # fmt: skip
def test_wmma_of_parts_of_bytes(shape, kind, multiply, d_layout, space):
    generator = np.random.default_rng(8)
    m, n, k = extents(shape)
    a, b = integers(generator, kind, m, k), integers(generator, kind, k, n)
    c = generator.integers(-64, 65, (m, n))
    matrices = {
        "a": lines_of(a, kind, 16),
        "b": lines_of(b.T, kind, 48),
        "c": c.astype(np.int32),
        "d": np.zeros((8, 12), np.int32),
    }
    strides = {"a": k + 128 // BITS[kind], "b": k + 384 // BITS[kind], "c": 8, "d": 12}
    layouts = {"a": "row", "b": "col", "c": "row", "d": d_layout}
    stored = run_wmma(shape, kind, "s32", "s32", layouts, strides, space, matrices, multiply)
    result = stored[: matrices["d"].nbytes].view(np.int32).reshape(8, 12)[:, :8]
    product = (a[:, :, None] ^ b[None]).sum(1) if "xor" in multiply else a @ b
    np.testing.assert_array_equal(result if d_layout == "row" else result.T, product + c)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_wmma_of_f64_is_rounded_as_asked(rounding):
    generator = np.random.default_rng(8)
    a, b, c = (generator.standard_normal(extent) for extent in ((8, 4), (8, 4), (8, 8)))
    matrices = {"a": a, "b": b, "c": c, "d": np.zeros((8, 8))}
    layouts, strides = {"a": "row", "b": "col", "c": "row", "d": "row"}, {"a": 4, "b": 4, "c": 8, "d": 8}
    for kinds in (f"{rounding}.f64.f64.f64.f64", f"f64.f64.f64.f64.{rounding}"):
        stored = run_wmma("m8n8k4", "f64", "f64", "f64", layouts, strides, "global", matrices, kinds=kinds)
        result = stored[: c.nbytes].view(float).reshape(8, 8)
        np.testing.assert_array_equal(result, fused(a, b.T, c, rounding))


def test_unknown_shapes_are_named():
    registers = np.zeros((32, 4), np.uint32)
    with pytest.raises(UnsupportedInstruction, match=r"m16n8k64.*PTX line \d+.*shapes, with the registers"):
        run_warp("mma.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 {d}, {0}, {0}, {0};", registers, outputs=(4, 32))
    with pytest.raises(UnsupportedInstruction, match="A by rows and B by columns"):
        run_warp("mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32 {d}, {0}, {0}, {0};", registers, outputs=(4, 32))


def test_bits_of_a_number():
    assert bits_of(-1, "s4") == 15
    assert bits_of(1, "bf16") == 0x3F80
