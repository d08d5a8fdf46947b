"""Atomics and reductions of every type and vector length."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.emulator import Device, Misaligned

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def run(body, cells, declarations=""):
    """Run a body that acts on the cells at %p, a 32-bit lane number %t and shared memory %s, by 64 threads."""
    ptx = f"""{HEADER}
.visible .entry op(.param .u64 cells) {{
  .reg .b64 %p; .reg .b32 %t, %s; {declarations}
  .shared .align 16 .b8 tile[64];
  ld.param.u64 %p, [cells]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
  {body}
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    place = device.upload(cells)
    device.launch(device.load(ptx), (1,), (64,), [place])
    return device.read(place, cells.nbytes).view(cells.dtype)


def bits(number, kind):
    return int.from_bytes(np.array(number).astype(DTYPES[kind]).tobytes(), "little")


VECTORS = [
    ("add", "f32", 1), ("add", "f32", 2), ("add", "f32", 4), ("add.noftz", "f16x2", 1), ("add.noftz", "f16x2", 2),
    ("add.noftz", "f16x2", 4), ("add.noftz", "bf16x2", 4), ("add", "f64", 1), ("add.noftz", "f16", 1),
    ("min.noftz", "f16", 8), ("max.noftz", "bf16", 4), ("max.noftz", "bf16x2", 2),
]  # fmt: skip


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize(("operation", "kind", "length"), VECTORS)
def test_floating_point(operation, kind, length, returns):
    """Each lane adds, or compares with, a small number of its own, so that every sum is exact."""
    dtype, halves = DTYPES[kind], 2 if kind.endswith("x2") else 1
    width = 8 * np.dtype(dtype).itemsize * halves
    suffix = f".v{length}.{kind}" if length > 1 else f".{kind}"
    # Lane t contributes (t & 7) - 4 + element.
    contributions = np.array([[(t & 7) - 4 + e % 3 for e in range(length * halves)] for t in range(64)])
    cells = np.full(length * halves, 2, dtype)
    tables = [int(c) for c in contributions[:8].reshape(-1)]
    moves = []
    for lane in range(8):
        for e in range(length):
            numbers = tables[(lane * length + e) * halves :][:halves]
            word = sum(bits(number, kind) << (i * 8 * np.dtype(dtype).itemsize) for i, number in enumerate(numbers))
            moves.append(f"@%q{lane} mov.b{width} %v{e}, {word};")
    guards = " ".join(f"and.b32 %x, %t, 7; setp.eq.u32 %q{lane}, %x, {lane};" for lane in range(8))
    values = ", ".join(f"%v{e}" for e in range(length))
    values = "{" + values + "}" if length > 1 else values
    old = values.replace("%v", "%o")
    opcode = f"atom.global.{operation}{suffix} {old}," if returns else f"red.global.{operation}{suffix}"
    declarations = f".reg .b{width} %v<{length}>, %o<{length}>; .reg .pred %q<8>; .reg .b32 %x;"
    result = run(f"{guards} {' '.join(moves)} {opcode} [%p], {values};", cells, declarations)
    combined = {"add": contributions.sum(0) + 2, "min": np.minimum(contributions.min(0), 2),
                "max": np.maximum(contributions.max(0), 2)}[operation.split(".")[0]]  # fmt: skip
    np.testing.assert_array_equal(result.astype(float), combined)


@pytest.mark.planted_fault
@pytest.mark.parametrize("opcode", ["red.global", "red", "atom.global"])
@pytest.mark.parametrize(("kind", "length"), [("add.v2.f32", 2), ("add.v4.f32", 4), ("max.noftz.v8.f16", 8)])
def test_a_vector_is_aligned_as_a_whole(kind, length, opcode):
    width = 32 if kind.endswith("f32") else 16
    values = "{" + ", ".join(f"%v{e}" for e in range(length)) + "}"
    old = values.replace("%v", "%o") + "," if opcode.startswith("atom") else ""
    declarations = f".reg .b{width} %v<{length}>, %o<{length}>;"
    zeros = " ".join(f"mov.b{width} %v{e}, 0;" for e in range(length))
    run(f"{zeros} {opcode}.{kind} {old} [%p], {values};", np.zeros(8, np.uint32), declarations)
    with pytest.raises(Misaligned, match=rf"accesses {width * length // 8} bytes at global address .* not a multiple"):
        run(f"{zeros} {opcode}.{kind} {old} [%p+4], {values};", np.zeros(8, np.uint32), declarations)


def test_a_vector_is_one_request():
    ptx = f"""{HEADER}
.visible .entry op(.param .u64 cells) {{
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [cells]; mov.b32 %v, 0;
  red.global.add.v4.f32 [%p], {{%v, %v, %v, %v}};
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20, count_memory=True)
    counters = device.launch(device.load(ptx), 1, 64, [device.upload(np.zeros(8, np.float32))])
    assert (counters.global_requests, counters.global_sectors) == ({"atom": 2}, {"atom": 2})


INTEGERS = {
    "add.u32": lambda old, t: old + t, "add.u64": lambda old, t: old + t, "min.s64": lambda old, t: min(old, t),
    "max.u32": lambda old, t: max(old, t), "and.b64": lambda old, t: old & t, "or.b32": lambda old, t: old | t,
    "xor.b64": lambda old, t: old ^ t, "exch.b64": lambda old, t: t, "exch.b32": lambda old, t: t,
    "inc.u32": lambda old, t: 0 if old >= t else old + 1,
    "dec.u32": lambda old, t: t if old == 0 or old > t else old - 1,
}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_in_the_order_of_lanes(name, space):
    width = int(name[-2:])
    address = "%p" if space == "global" else "%s"
    setup = f"cvt.u{width}.u32 %w, %t;" if width == 64 else "mov.u32 %w, %t;"
    copy = f"ld.global.b{width} %v, [%p]; setp.eq.u32 %q, %t, 0; @%q st.shared.b{width} [%s], %v; bar.sync 0;"
    back = f"bar.sync 0; ld.shared.b{width} %v, [%s]; @%q st.global.b{width} [%p], %v;"
    body = f"{setup} {copy} atom.{space}.{name} %o, [{address}], %w; {back if space == 'shared' else ''}"
    cells = np.array([37], f"u{width // 8}")
    result = run(body, cells, f".reg .b{width} %v, %w, %o; .reg .pred %q;")
    expected = 37
    for lane in range(64):
        expected = INTEGERS[name](expected, lane)
    assert int(result[0]) == expected


TINY = 0x000116C2  # a subnormal number
ADDITIONS = [
    (TINY, 0, 0), (TINY | 1 << 31, 0x80000000, 0x80000000), (0, TINY, 0), (0x00800000, TINY, 0x00800000),
    (0x00C00000, 0x80800000, 0), (0x80C00000, 0x00800000, 0x80000000), (0x3F800000, 0x3F800000, 0x40000000),
]  # fmt: skip


@pytest.mark.parametrize("opcode", ["atom", "red"])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize(("old", "added", "flushed"), ADDITIONS)
def test_float32_additions_flush_subnormals_in_global_memory_only(old, added, flushed, space, opcode):
    """PTX ISA, "atom" and "red". What atom returns is what it found."""
    address = "%s" if space == "shared" else "%p"
    suffix = "" if space == "generic" else f".{space}"
    result = "%o, " if opcode == "atom" else ""
    body = f"""
      setp.eq.u32 %q, %t, 0; mov.b32 %v, {added}; mov.b32 %o, {old}; @%q ld.global.b32 %w, [%p];
      @%q st.shared.b32 [%s], %w;
      @%q {opcode}{suffix}.add.f32 {result}[{address}], %v;
      {"@%q ld.shared.b32 %w, [%s]; @%q st.global.b32 [%p], %w;" if space == "shared" else ""}
      @%q st.global.b32 [%p+4], %o;
    """
    cells = run(body, np.array([old, 0], np.uint32), ".reg .b32 %v, %w, %o; .reg .pred %q;")
    exact = np.array([old, added], np.uint32).view(np.float32).sum(dtype=np.float32).view(np.uint32)
    assert cells.tolist() == [int(exact) if space == "shared" else flushed, old]


@pytest.mark.parametrize("width", [16, 32, 64])
def test_compare_and_swap(width):
    """Lane t replaces t by t + 1, so the last lane leaves 64."""
    declarations = f".reg .b{width} %v, %w, %o;"
    body = f"cvt.u{width}.u32 %v, %t; add.u{width} %w, %v, 1; atom.global.cas.b{width} %o, [%p], %v, %w;"
    assert run(body, np.zeros(1, f"u{width // 8}"), declarations)[0] == 64
