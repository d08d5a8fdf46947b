"""PTX integer arithmetic on NumPy arrays; only operations that need more than one NumPy expression.

As in `scalars`, functions take arrays of lanes or scalars alike, and code generation refers to them by name.
"""

import numpy as np

from tilewright.emulator.lanes import Array
from tilewright.emulator.semantics.scalars import Values, i4, i8, u1, u2, u4, u8


def _bits(values: Values) -> int:
    return 8 * int(values.dtype.itemsize)


def divide(a: Values, b: Values) -> Values:
    """Quotient rounded toward zero; division by zero gives all ones, as the hardware does."""
    quotient = np.where(b == 0, a.dtype.type(0), a) // np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "i":
        inexact = quotient * b != a
        quotient = quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def remainder(a: Values, b: Values) -> Values:
    """a - b * divide(a, b), which has the sign of a."""
    return np.where(b == 0, a, a - b * divide(a, np.where(b == 0, b.dtype.type(1), b)))


def multiply_high(a: Values, b: Values) -> Values:
    """The upper half of the double-width product."""
    bits = _bits(a)
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{bits // 4}").type
        return (a.astype(wide) * b.astype(wide) >> wide(bits)).astype(a.dtype)
    mask, half = u8(0xFFFFFFFF), u8(32)
    x, y = a.view(u8), b.view(u8)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    high = x1 * y1 + (middle >> half) + ((middle & mask) + x0 * y1 >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, u8(0)) - np.where(b < 0, x, u8(0))
    return high.view(a.dtype)


def widen(a: Values) -> Values:
    """The same integers in twice the width."""
    return a.astype(np.dtype(f"{a.dtype.kind}{_bits(a) // 4}"))


def shift_left(a: Values, count: Values) -> Values:
    """a << count, zero from the width on. count is unsigned 32 bits."""
    bits = _bits(a)
    return np.where(count < bits, a << np.minimum(count, bits - 1).astype(a.dtype), a.dtype.type(0))


def shift_right(a: Values, count: Values) -> Values:
    """a >> count, arithmetic for signed a, with counts clamped to the width."""
    bits = _bits(a)
    shifted = a >> np.minimum(count, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(count < bits, shifted, a.dtype.type(0))


def funnel_left(low: Values, high: Values, count: Values, wrap: bool) -> Values:
    """shf.l: the upper word of high:low shifted left."""
    amount = (count & u4(31) if wrap else np.minimum(count, u4(32))).astype(u8)
    return (((high.astype(u8) << u8(32)) | low.astype(u8)) << amount >> u8(32)).astype(u4)


def funnel_right(low: Values, high: Values, count: Values, wrap: bool) -> Values:
    """shf.r: the lower word of high:low shifted right."""
    amount = (count & u4(31) if wrap else np.minimum(count, u4(32))).astype(u8)
    return (((high.astype(u8) << u8(32)) | low.astype(u8)) >> amount).astype(u4)


def logic3(a: Values, b: Values, c: Values, table: Values) -> Values:
    """lop3: the bitwise function of three inputs whose truth table is the low byte of `table`."""
    result: Values = u4(0)
    for row in range(8):
        if int(table) >> row & 1:
            x, y, z = (a if row & 4 else ~a), (b if row & 2 else ~b), (c if row & 1 else ~c)
            result = result | (x & y & z)
    return result


def permute(a: Values, b: Values, selector: Values, mode: str = "") -> Values:
    """prmt: four bytes chosen from b:a. Source: PTX ISA, "prmt"."""
    pair = (b.astype(u8) << u8(32)) | a.astype(u8)
    result: Values = u4(0)
    for byte in range(4):
        position = selector & u4(3)
        match mode:
            case "":
                choice = selector >> u4(4 * byte) & u4(15)
            case "f4e":
                choice = position + u4(byte)
            case "b4e":
                choice = position - u4(byte) & u4(7)
            case "rc8":
                choice = position
            case "ecl":
                choice = np.maximum(position, u4(byte))
            case "ecr":
                choice = np.minimum(position, u4(byte))
            case _:  # rc16
                choice = (position & u4(1)) * u4(2) + u4(byte & 1)
        value = (pair >> ((choice & u4(7)) * u4(8)).astype(u8)).astype(u4) & u4(0xFF)
        replicated = (value >> u4(7)) * u4(0xFF)
        result = result | np.where(choice & u4(8), replicated, value) << u4(8 * byte)
    return result


def extract_field(a: Values, position: Values, length: Values) -> Values:
    """bfe: `length` bits of a from bit `position` on, extended by the field's top bit if a is signed."""
    bits = _bits(a)
    unsigned = np.dtype(f"u{bits // 8}").type
    position, length = _field_bound(position, bits), _field_bound(length, bits)
    kept = np.minimum(length, u4(bits) - position)
    mask = shift_left(unsigned(1), kept) - unsigned(1)
    word = a.view(unsigned)
    field = shift_right(word, position) & mask
    if a.dtype.kind == "u":
        return field
    top = np.minimum(position + length - u4(1), u4(bits - 1))
    negative = (length > 0) & ((shift_right(word, top) & unsigned(1)) != 0)
    return np.where(negative, field | ~mask, field).view(a.dtype)


def insert_field(a: Values, b: Values, position: Values, length: Values) -> Values:
    """bfi: b with its `length` bits from bit `position` on replaced by the low bits of a."""
    position, length = _field_bound(position, _bits(b)), _field_bound(length, _bits(b))
    mask = shift_left(shift_left(b.dtype.type(1), length) - b.dtype.type(1), position)
    return (b & ~mask) | (shift_left(a, position) & mask)


def _field_bound(bound: Values, bits: int) -> Values:
    """The position or length of a field, which ends with its word.

    PTX allows 0 to 255. Beyond that, hardware takes the low byte for words of 32 bits and the whole value for those of
    64.
    """
    return np.minimum(bound & u4(0xFF) if bits == 32 else bound, u4(bits))


def reverse_bits(a: Values) -> Values:
    """brev."""
    bits = _bits(a)
    swap = 1
    while swap < bits:
        pattern = a.dtype.type(sum(((1 << swap) - 1) << start for start in range(0, bits, 2 * swap)))
        a = ((a & pattern) << a.dtype.type(swap)) | (a >> a.dtype.type(swap) & pattern)
        swap *= 2
    return a


def population_count(a: Values) -> Values:
    """popc."""
    count: Values = u4(0)
    for byte in range(_bits(a) // 8):
        count = count + _BITS_OF_BYTE.take((a >> a.dtype.type(8 * byte)).astype(u1))
    return count


_BITS_OF_BYTE = np.array([bin(byte).count("1") for byte in range(256)], u4)


def find_nth_set(mask: Values, base: Values, offset: Values) -> Values:
    """fns: the |offset|-th set bit of mask from bit `base` on, up or (offset < 0) down; all ones if it does not exist.

    Offset 0 asks for bit `base` itself.
    """
    position = base.astype(i8)
    step = np.where(offset < 0, i8(-1), i8(1))
    wanted = np.maximum(np.abs(offset.astype(i8)), i8(1))
    reach = np.where(offset == 0, i8(1), i8(32))
    found: Values = np.broadcast_to(u4(0xFFFFFFFF), np.broadcast_shapes(mask.shape, base.shape, offset.shape))
    for turn in range(32):
        inside = (position >= 0) & (position < 32) & (turn < reach)
        is_set = inside & (mask >> (position & i8(31)).astype(u4) & u4(1) != 0)
        found = np.where(is_set & (wanted == 1), position.astype(u4), found)
        wanted = wanted - is_set
        position = position + step
    return found


def find_leading(a: Values) -> Values:
    """bfind: the position of the most significant bit that differs from the sign; all ones if none does."""
    bits = _bits(a)
    unsigned = np.dtype(f"u{bits // 8}").type
    value = np.where(a < 0, ~a, a).view(unsigned) if a.dtype.kind == "i" else a
    smeared = value
    step = 1
    while step < bits:
        smeared = smeared | (smeared >> unsigned(step))
        step *= 2
    return (population_count(smeared) - u4(1)).astype(u4)


def count_leading_zeros(a: Values) -> Values:
    """clz."""
    return u4(_bits(a) - 1) - find_leading(a)


def add_saturated(a: Values, b: Values, sign: int = 1) -> Values:
    """add.sat.s32 and, with sign -1, sub.sat.s32."""
    return np.clip(a.astype(i8) + sign * b.astype(i8), -(1 << 31), (1 << 31) - 1).astype(i4)


def absolute_difference(a: Values, b: Values) -> Values:
    """sad without its sum: |a - b|, wrapping in the type of a."""
    return np.where(a < b, b - a, a - b)


def multiply_24(a: Values, b: Values, part: str) -> Values:
    """mul24: bits 0 to 31 (lo) or 16 to 47 (hi) of the product of the low 24 bits."""

    def operand(x: Values) -> Values:
        return (x << x.dtype.type(8)).astype(np.dtype(f"{x.dtype.kind}8")) >> x.dtype.type(8)

    product = operand(a) * operand(b)
    return (product >> product.dtype.type(16 if part == "hi" else 0)).astype(a.dtype)


def multiply_add_high_saturated(a: Values, b: Values, c: Values) -> Values:
    """mad.hi.sat.s32."""
    return add_saturated(multiply_high(a, b), c)


def carry_of(total: Values, a: Values, carry: Values) -> Values:
    """Whether a + ... + carry, wrapped to `total`, overflowed its unsigned type; sums have two terms and a carry."""
    return (total < a) | (carry & (total == a))


def borrow_of(a: Values, b: Values, borrow: Values) -> Values:
    """Whether a - b - borrow is negative, of unsigned integers."""
    return (a < b) | (borrow & (a == b))


def dot_product(a: Values, b: Values, c: Values, bits_a: int, start_b: int = 0) -> Values:
    """dp4a and dp2a: c plus the products of the parts of a with the bytes of b from start_b on.

    a, b: words whose sign tells how their parts extend; parts of a have bits_a bits.
    c: uint32.
    """
    total = c
    for index in range(32 // bits_a):
        total = total + part_of(a, index, bits_a).view(u4) * part_of(b, start_b + index, 8).view(u4)
    return total


def part_of(word: Values, index: int, bits: int) -> Array:
    """A field of a word, extended as the word's sign says."""
    top, low = word.dtype.type(32 - bits * (index + 1)), word.dtype.type(32 - bits)
    return np.asarray(word << top >> low)


def bit_mask(position: Values, width: Values, wraps: bool) -> Values:
    """bmsk: `width` ones from bit `position` on."""
    if wraps:
        position, width = position & u4(31), width & u4(31)
    return shift_left(shift_left(u4(1), width) - u4(1), position)


def extend_low_bits(a: Values, width: Values, wraps: bool) -> Values:
    """szext: the low `width` bits of a, extended as the type of a says."""
    width = width & u4(31) if wraps else np.minimum(width, u4(32))
    return extract_field(a, u4(0), width)


def combine_halves(function: str, a: Values, b: Values, is_signed: bool) -> Values:
    """add, min and max of u16x2 and s16x2."""
    halves = np.int16 if is_signed else u2
    operation = {"add": np.add, "min": np.minimum, "max": np.maximum}[function]

    def half(shift: int) -> Values:
        parts = (np.asarray((word >> u4(shift)).astype(u2)).view(halves) for word in (a, b))
        return np.asarray(operation(*parts)).view(u2).astype(u4)

    return half(0) | (half(16) << u4(16))


def pack_saturated(a: Values, b: Values, rest: Values, bits: int, is_signed: bool) -> Values:
    """cvt.pack: a above b above the low part of `rest`, a and b clamped to `bits` bits."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    part_a, part_b = (np.asarray(np.clip(x, low, high).astype(i4)).view(u4) & u4((1 << bits) - 1) for x in (a, b))
    packed = part_a << u4(bits) | part_b
    return packed | shift_left(rest, u4(2 * bits))
