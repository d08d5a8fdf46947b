"""Runs PTX on three inputs per lane, for tests of single instructions."""

import math

import numpy as np

from tilewright.emulator import Device

U32, U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
LANES = 96

WORDS = [0, 1, 2, 3, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, 0x7FFFFFFF, 1 << 31, U32 - 1, U32]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.999, 1e-40, -1e-40, 1e38, -3e38, 65504.0, 65536.0, 1e10, -1e10,
          math.inf, -math.inf, math.nan, 2147483648.0, 0.1, 1 / 3, 256.5]  # fmt: skip


def evaluate(body, inputs, width, target="sm_90a"):
    """Run PTX on three 64-bit inputs per lane.

    The body computes %d (of `width` bits, %h for 16) from %a, %b, %c (32 bits), %A, %B, %C (64 bits) and
    %fa, %fb, %fc (f32). %q is the address of 32 bytes of the lane's own.
    """
    result = {16: "%h", 32: "%d", 64: "%D"}[width]
    ptx = f"""
.version 9.0
.target {target}
.address_size 64
.visible .entry op(.param .u64 out, .param .u64 in) {{
  .reg .b16 %h, %ha, %hb, %hc;
  .reg .b32 %a, %b, %c, %d, %t;
  .reg .f32 %fa, %fb, %fc;
  .reg .b64 %A, %B, %C, %D, %p, %q, %o;
  .reg .f64 %da, %db, %dc;
  .reg .pred %P, %Q;
  .reg .b8 %byte0, %byte1, %byte2, %byte3;
  .reg .b128 %wide;
  mov.u32 %t, %tid.x;
  ld.param.u64 %p, [in];
  ld.param.u64 %q, [out];
  mul.wide.u32 %o, %t, 24;
  add.s64 %p, %p, %o;
  ld.global.b64 %A, [%p];
  ld.global.b64 %B, [%p+8];
  ld.global.b64 %C, [%p+16];
  mul.wide.u32 %o, %t, 32;
  add.s64 %q, %q, %o;
  cvt.u32.u64 %a, %A; cvt.u32.u64 %b, %B; cvt.u32.u64 %c, %C;
  cvt.u16.u64 %ha, %A; cvt.u16.u64 %hb, %B; cvt.u16.u64 %hc, %C;
  mov.b32 %fa, %a; mov.b32 %fb, %b; mov.b32 %fc, %c;
  mov.b64 %da, %A; mov.b64 %db, %B; mov.b64 %dc, %C;
  {body}
  st.global.b{width} [%q], {result};
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(LANES * 32)
    device.launch(device.load(ptx), (1,), (LANES,), [out, device.upload(inputs)])
    return device.read(out, LANES * 32).view(f"u{width // 8}")[:: 256 // width].tolist()


def evaluate_one(body, lane, width):
    """The result for three inputs, which all lanes have."""
    results = set(evaluate(body, np.tile(np.array(lane, np.uint64), (LANES, 1)), width))
    assert len(results) == 1
    return results.pop()


def integer_inputs(seed=0):
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 1 << 63, (LANES, 3), np.uint64) * 2 + generator.integers(0, 2, (LANES, 3), np.uint64)
    special = np.array(WORDS, np.uint64)
    for column in range(3):
        chosen = generator.permutation(LANES)[:60]
        values[chosen, column] = special[generator.integers(0, special.size, 60)]
    values[:10, 1] = values[:10, 0]
    values[10:20] |= np.uint64(0xFFFFFFFF00000000)
    return values


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def float_inputs(dtype=np.float32):
    generator = np.random.default_rng(3)
    values = (generator.standard_normal((LANES, 3)) * 10.0 ** generator.integers(-3, 4, (LANES, 3))).astype(dtype)
    for column in range(3):
        values[: 2 * len(FLOATS) : 2, column] = np.roll(FLOATS, 5 * column).astype(dtype)
    return values


def as_inputs(values):
    """Float values as the low bits of 64-bit lanes."""
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
