"""wgmma in PTX: every type, A in shared memory and in registers, every swizzle and major, against NumPy."""

import itertools

import numpy as np
import pytest

from emulate.fragment_tables import BITS, DTYPES, bits_of, integers
from emulate.operand_tiles import SPANS, place_operand
from tilewright.emulator import Device

SHARED_START = 1024
"""Where the PTX below puts the operands: a tile that is aligned to the period of every swizzle."""
A_PLACE, B_PLACE, TILE_BYTES = 0, 0x4000, 0x8000


def kernel(instruction, registers, a_registers):
    """PTX that copies a tile to shared memory, runs wgmma with {d} and {a}, and writes the accumulators back."""
    d = "{" + ", ".join(f"%d{i}" for i in range(registers)) + "}"
    a = "{" + ", ".join(f"%a{i}" for i in range(4)) + "}"
    moves = {"load": [], "store": []}
    for i in range(registers):
        moves["load"].append(f"ld.global.b32 %d{i}, [%c+{4 * i}];")
        moves["store"].append(f"st.global.b32 [%c+{4 * i}], %d{i};")
    loads_of_a = [f"ld.global.b32 %a{i}, [%ap+{4 * i}];" for i in range(4)]
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry op(.param .u64 tile_, .param .u64 a_, .param .u64 c_, .param .u64 a_low, .param .u64 b_low) {{
  .reg .b32 %d<{registers}>, %a<4>, %x, %t, %s, %o;
  .reg .b64 %p, %c, %ap, %da, %db, %base;
  .reg .pred %keep, %more;
  .shared .align 1024 .b8 tile[{TILE_BYTES}];
  mov.u32 %t, %tid.x;
  ld.param.u64 %p, [tile_]; ld.param.u64 %ap, [a_]; ld.param.u64 %c, [c_];
  ld.param.u64 %da, [a_low]; ld.param.u64 %db, [b_low];
  mul.wide.u32 %base, %t, {4 * registers}; add.u64 %c, %c, %base;
  mul.wide.u32 %base, %t, 16; add.u64 %ap, %ap, %base;
  mul.wide.u32 %base, %t, 4; add.u64 %p, %p, %base;
  mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s;
  mov.u32 %o, 0;
Copy:
  ld.global.b32 %x, [%p]; st.shared.b32 [%s], %x;
  add.u64 %p, %p, 512; add.u32 %s, %s, 512; add.u32 %o, %o, 512;
  setp.lt.u32 %more, %o, {TILE_BYTES};
  @%more bra Copy;
  fence.proxy.async;
  bar.sync 0;
  mov.u32 %s, tile; shr.u32 %s, %s, 4; cvt.u64.u32 %base, %s;
  add.u64 %da, %da, %base; add.u64 %db, %db, %base;
  {" ".join(moves["load"])} {" ".join(loads_of_a) if a_registers else ""}
  setp.ne.u32 %keep, 1, 0;
  wgmma.fence.sync.aligned;
  {instruction.replace("{d}", d).replace("{a}", a if a_registers else "%da")}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  {" ".join(moves["store"])}
  ret;
}}
"""


def accumulator_place(i, thread):
    """PTX ISA, accumulator D of wgmma: row and column of element i of a thread of the warpgroup."""
    warp, lane = divmod(thread, 32)
    return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def a_place(i, thread, per):
    """Row and column of element i of A in registers, `per` to a register."""
    warp, lane = divmod(thread, 32)
    register, e = divmod(i, per)
    return 16 * warp + lane // 4 + 8 * (register % 2), lane % 4 * per + e + 4 * per * (register // 2)


def run(n, a_type, b_type, d_type, *, span, a_major="k", b_major="k", from_registers=False, values=None, flag=""):
    """One product through PTX. Returns what it stored and the exact result."""
    generator = np.random.default_rng(n)
    depth = 256 // BITS[a_type]
    a, b, c = values or (
        integers(generator, a_type, 64, depth),
        integers(generator, b_type, n, depth),
        generator.integers(-64, 65, (64, n)),
    )
    tile = np.zeros(SHARED_START + TILE_BYTES, np.uint8)
    at_a = place_operand(tile, SHARED_START, A_PLACE, a.astype(DTYPES[a_type]), a_major, span)
    at_b = place_operand(tile, SHARED_START, B_PLACE, b.astype(DTYPES[b_type]), b_major, span)
    per = 32 // BITS[a_type]
    fragments = np.zeros((128, 4), np.uint32)
    for thread, i in itertools.product(range(128), range(4 * per)):
        value = bits_of(a[a_place(i, thread, per)], a_type)
        fragments[thread, i // per] |= np.uint32(value << i % per * BITS[a_type])
    accumulators = np.zeros((128, n // 2), DTYPES[d_type])
    for thread, i in itertools.product(range(128), range(n // 2)):
        accumulators[thread, i] = c[accumulator_place(i, thread)]
    transposes = ""
    if a_type in ("f16", "bf16"):
        majors = [b_major] if from_registers else [a_major, b_major]
        transposes = "".join(f", {int(major == 'mn')}" for major in majors)
    signs = "" if d_type == "s32" else ", 1, 1"
    instruction = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}{flag}.{d_type}.{a_type}.{b_type} {{d}}, {{a}}, %db, %keep"
        f"{signs}{transposes};"
    )
    words = accumulators.view(np.uint32)
    device = Device(memory_bytes=1 << 20)
    out = device.upload(words)
    arguments = [device.upload(tile[SHARED_START:]), device.upload(fragments), out, at_a(0), at_b(0)]
    compiled = device.load(kernel(instruction, words.shape[1], from_registers))
    device.launch(compiled, (1,), (128,), arguments)
    stored = device.read(out, words.nbytes).view(DTYPES[d_type]).reshape(accumulators.shape)
    result = np.zeros((64, n))
    for thread, i in itertools.product(range(128), range(n // 2)):
        result[accumulator_place(i, thread)] = stored[thread, i]
    return result, a @ b.T + c


TYPES = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f16"), ("e5m2", "e4m3", "f32"), ("e5m2", "e5m2", "f16"),
    ("s8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "s8", "s32"), ("u8", "u8", "s32"),
]  # fmt: skip


@pytest.mark.parametrize("from_registers", [False, True])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("a_type", "b_type", "d_type"), TYPES)
def test_types_and_swizzles(a_type, b_type, d_type, span, from_registers):
    result, expected = run(16, a_type, b_type, d_type, span=span, from_registers=from_registers)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(
    ("a_major", "b_major", "from_registers"),
    [("mn", "k", False), ("k", "mn", False), ("mn", "mn", False), ("k", "mn", True)],
)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_mn_major_operands(kind, a_major, b_major, from_registers, span):
    options = {"span": span, "a_major": a_major, "b_major": b_major, "from_registers": from_registers}
    result, expected = run(64, kind, kind, "f32", **options)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_widths(n):
    result, expected = run(n, "s8", "s8", "s32", span=32)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("saturates", [False, True])
def test_integer_sums_wrap_or_saturate(saturates):
    a, b = np.full((64, 32), 127), np.full((16, 32), 127)
    b[8:] = -128
    c = np.where(np.arange(16) < 8, 2**31 - 1000, -(2**31) + 1000) * np.ones((64, 1), int)
    flag = ".satfinite" if saturates else ""
    result, exact = run(16, "s8", "s8", "s32", span=32, values=(a, b, c), flag=flag)
    expected = np.clip(exact, -(2**31), 2**31 - 1) if saturates else (exact + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(result, expected)
