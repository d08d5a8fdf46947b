"""Values for the operands of instructions: random bits among the values where mistakes are made.

A kind is a type of a register, such as "f16x2", with the values it gets after a colon where these are not any:

    (nothing)   special values of the type, random bits and numbers of moderate size
    integers    small whole numbers, which every floating-point type and sum of products holds exactly
    spiked      whole numbers, and one in 48 is an infinity or a NaN
    numbers     normally distributed numbers
    unit        floating-point numbers of moderate size, without special values
    adverse     numbers whose sums lose bits: some far larger than others, of few bits, so that they often cancel
    mild        the same with fewer sizes, so that a sum of f16 does not overflow
    special     adverse numbers, and one in 96 is an infinity or a NaN
    finite      random bits without infinities and NaN, and zeros
    tiny        numbers whose products are at the lower end of float32's range, or of the type's, and zeros
    count       0 to 70, and some larger: shifts, positions and lengths
    few         0 to 2, so that lanes agree by chance
    lane        0 to 31
    halved      metadata of sparse matrices: pairs of places among four, the lower first
    whole       the same of tf32, where a place among two counts as such a pair
"""

import zlib

import ml_dtypes
import numpy as np

ELEMENTS = {
    "pred": (np.uint32, 1),
    **{f"{sign}{bits}": (np.dtype(f"u{bits // 8}"), 1) for sign in "usb" for bits in (8, 16, 32, 64)},
    "u16x2": (np.uint16, 2), "s16x2": (np.uint16, 2), "f16": (np.float16, 1), "f16x2": (np.float16, 2),
    "bf16": (ml_dtypes.bfloat16, 1), "bf16x2": (ml_dtypes.bfloat16, 2), "f32": (np.float32, 1),
    "tf32": (np.float32, 1), "f64": (np.float64, 1),
    "e4m3x2": (np.uint8, 2), "e5m2x2": (np.uint8, 2),
    "e4m3x4": (ml_dtypes.float8_e4m3fn, 4), "e5m2x4": (ml_dtypes.float8_e5m2, 4),
}  # fmt: skip
"""The NumPy type of the elements of a register, and how many it holds."""

REGISTER_BITS = {kind: max(16, 8 * np.dtype(dtype).itemsize * count) for kind, (dtype, count) in ELEMENTS.items()}
REGISTER_BITS["pred"] = 1

_INTEGERS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF,
             1 << 16, 1 << 24, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63]  # fmt: skip
_NUMBERS = [0, 1, 0.5, 1.5, 2, 2.5, 3, 3.999, 10, 127.5, 256.5, 448, 464, 57344, 61440, 65504, 65519, 65520, 65536,
            0.1, 1 / 3, 1e-4, 1e-6, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 6e-8, 2e-8, 1e-40, 3e38]  # fmt: skip


def values_of(kinds, lanes):
    """(lanes, kinds) values of 64 bits; the first lanes combine all special values of the first two operands."""
    generator = np.random.default_rng(zlib.crc32(" ".join(kinds).encode()))
    values = np.zeros((lanes, len(kinds)), np.uint64)
    specials = [_specials(kind) for kind in kinds]
    first, *others = [special.size for special in specials] or [0]
    crossed = min(lanes // 2, first * others[0] if others else first)
    for index, (kind, special) in enumerate(zip(kinds, specials, strict=True)):
        values[:, index] = _random(kind, lanes, generator)
        if special.size:
            chosen = generator.random(lanes) < 0.25
            values[chosen, index] = generator.choice(special, np.count_nonzero(chosen))
            if index < 2:
                order = np.arange(crossed)
                values[:crossed, index] = special[(order // first if index else order) % special.size]
    if len(kinds) == 1 and lanes == 1 << 16:
        values[:, 0] = np.arange(lanes)
    return values


def _parts(kind):
    name, _, choice = kind.partition(":")
    return (*ELEMENTS[name], choice)


def _packed(elements):
    """(lanes, elements) as words of 64 bits."""
    width = 8 * elements.itemsize
    words = np.ascontiguousarray(elements).view(f"u{elements.itemsize}").astype(np.uint64)
    shifts = np.arange(elements.shape[1], dtype=np.uint64) * np.uint64(width)
    return np.bitwise_or.reduce(words << shifts, axis=1)


def _specials(kind):
    dtype, count, choice = _parts(kind)
    if choice or kind == "pred":
        return np.zeros(0, np.uint64)
    if np.dtype(dtype).kind in "ui":
        bits = 8 * np.dtype(dtype).itemsize
        numbers = {value & (1 << bits) - 1 for value in (*_INTEGERS, *(-value for value in _INTEGERS))}
        return np.array(sorted(numbers), np.uint64) * np.uint64(sum(1 << bits * part for part in range(count)))
    special = _special_floats(dtype)
    return _packed(np.stack([np.roll(special, 5 * part) for part in range(count)], axis=1))


def _special_floats(dtype):
    """Signed: zero, numbers at borders of conversions, extremes, subnormals, infinity, NaN."""
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        numbers = np.array(_NUMBERS, np.float64).astype(dtype)
        extremes = [info.max, info.smallest_normal, info.smallest_subnormal, 3 * float(info.smallest_subnormal)]
        one = np.array([1], dtype)
        bits = one.view(f"u{one.itemsize}")
        neighbors = np.concatenate([bits + 1, bits - 1]).astype(bits.dtype).view(dtype)
        below = (np.array([info.smallest_normal], dtype).view(bits.dtype) - 1).astype(bits.dtype).view(dtype)
        positive = np.concatenate([numbers, np.array(extremes).astype(dtype), neighbors, below])
        positive = np.concatenate([positive, np.array([np.inf, np.nan]).astype(dtype)])
    return np.concatenate([positive, -positive])


def _random(kind, lanes, generator):
    dtype, count, choice = _parts(kind)
    if choice in ("halved", "whole"):
        pairs = np.array((0x4, 0x8, 0x9, 0xC, 0xD, 0xE) if choice == "halved" else (0x4, 0xE), np.uint64)
        shifts = np.arange(0, 32, 4, dtype=np.uint64)
        return np.bitwise_or.reduce(generator.choice(pairs, (lanes, shifts.size)) << shifts, axis=1)
    if kind == "pred" or choice in ("count", "few", "lane"):
        limit = {"count": 71, "few": 3, "lane": 32}.get(choice, 2)
        values = generator.integers(0, limit, lanes).astype(np.uint64)
        if choice == "count":
            values[::17] = generator.integers(0, 1 << 32, values[::17].size)
        return values
    if np.dtype(dtype).kind in "ui":
        return _packed(generator.integers(0, np.iinfo(dtype).max, (lanes, count), dtype, endpoint=True))
    if choice in ("integers", "spiked"):
        limit = 4 if np.dtype(dtype).itemsize < 4 else 16
        whole = generator.integers(-limit, limit + 1, (lanes, count)).astype(dtype)
        if choice == "spiked":
            chosen = generator.random((lanes, count)) < 1 / 48
            whole[chosen] = generator.choice([np.inf, -np.inf, np.nan], np.count_nonzero(chosen)).astype(dtype)
        return _packed(whole)
    if choice in HARD_TO_ADD:
        return _packed(hard_to_add(kind.partition(":")[0].partition("x")[0], dtype, choice, (lanes, count), generator))
    numbers = generator.standard_normal((lanes, count))
    if choice == "numbers":
        return _packed(numbers.astype(dtype))
    moderate = (numbers * 2.0 ** generator.integers(-8, 9, (lanes, count))).astype(dtype)
    if choice == "unit":
        return _packed(moderate)
    size = np.dtype(dtype).itemsize
    bits = generator.integers(0, 1 << 63, (lanes, count), np.uint64) >> np.uint64(63 - 8 * size + (size == 8))
    mixed = np.where(generator.random((lanes, count)) < 0.5, moderate.view(f"u{size}"), bits.astype(f"u{size}"))
    return _packed(mixed.astype(f"u{size}"))


HARD_TO_ADD = ("adverse", "mild", "special", "finite", "tiny")
_SPREADS = {"adverse": 12, "mild": 6, "special": 12}
_TINY = {
    "f16": (-24, -4), "bf16": (-80, -70), "tf32": (-80, -70), "f32": (-149, -129), "e4m3": (-9, 2), "e5m2": (-16, 2),
}  # fmt: skip
"""The exponents of tiny numbers, from and up to."""


def hard_to_add(kind, dtype, choice, shape, generator):
    """Numbers of a type, such as "bf16", with which sums show how they are rounded: see the module's HARD_TO_ADD."""
    dtype = np.dtype(dtype)
    info = ml_dtypes.finfo(dtype)
    if choice == "finite":
        bits = generator.integers(0, 1 << 8 * dtype.itemsize, shape, np.uint64).astype(f"u{dtype.itemsize}")
        with np.errstate(invalid="ignore"):
            made = np.where(np.isfinite(bits.view(dtype)), bits.view(dtype), np.zeros(1, dtype))
    else:
        if choice == "tiny":
            exponents = generator.integers(*_TINY[kind], shape)
        else:
            most = min(_SPREADS[choice], -info.minexp)
            exponents = generator.choice([-most, -most // 2, -1, 0, 0, 1, most // 2, most], shape)
        fractions = generator.choice([1, 1, 1, 1.5, 1.25, 2 - float(info.eps), 1 + float(info.eps)], shape)
        made = (np.ldexp(fractions, exponents) * generator.choice([-1, 1], shape)).astype(dtype)
    if choice == "special":
        specials = np.array([np.inf, -np.inf, np.nan]).astype(dtype)
        made = np.where(generator.random(shape) < 1 / 96, generator.choice(specials, shape), made)
    zeros = 1 / 2 if kind == "f32" else 1 / 12
    return np.where(generator.random(shape) < zeros, np.zeros(1, dtype), made)
