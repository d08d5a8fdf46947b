"""Emitters of moves and conversions between registers, address arithmetic, and hints."""

from tilewright.emulator.memory import LOCAL_WINDOW, SHARED_WINDOW
from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.emitters.floats import clamped
from tilewright.emulator.program.emitters.integers import unsigned
from tilewright.emulator.program.emitters.operands import HALVES, is_float
from tilewright.emulator.program.writer import BlockWriter, emits
from tilewright.emulator.ptx.syntax import Instruction, Operand, Register, Symbol, Vector

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
_ROUNDINGS = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"}
_FLOAT8 = ("e4m3x2", "e5m2x2")


@emits("mov")
def _move(w: BlockWriter, i: Instruction) -> None:
    destination, source = i.operands
    if isinstance(destination, Vector) and isinstance(source, Vector):  # of b128: registers that are halves
        _repack(w, destination, source)
        return
    if i.modifiers[-1] == "b128":
        raise ValueError("b128 moves between registers of 128 bits and vectors")
    dtype = DTYPES[i.modifiers[-1]]
    if isinstance(destination, Vector):
        _unpack(w, destination.elements, w.read(source, unsigned(dtype)), dtype)
    elif isinstance(source, Vector):
        w.assign(destination, _packed(w, source.elements, dtype), unsigned(dtype))
    elif isinstance(source, Register) and isinstance(destination, Register) and not w.active:
        if source.bits != destination.bits:
            raise ValueError("registers of different widths")
        w.alias(destination, source)
    else:
        w.assign(destination, w.read(source, dtype), dtype)


def _unpack(w: BlockWriter, targets: tuple[Operand, ...], whole: str, dtype: str) -> None:
    """Assign the parts of a value to registers, the lowest first."""
    part = f"u{int(dtype[1:]) // len(targets)}"
    for index, target in enumerate(targets):
        shift = w.constant(8 * int(part[1:]) * index, unsigned(dtype))
        w.assign(target, f"({whole} >> {shift}).astype({part})", part)


def _packed(w: BlockWriter, parts: tuple[Operand, ...], dtype: str) -> str:
    """A value made of its parts, the lowest first."""
    whole, part = unsigned(dtype), f"u{int(dtype[1:]) // len(parts)}"
    shifts = [w.constant(8 * int(part[1:]) * index, whole) for index in range(len(parts))]
    terms = [f"({w.read(x, part)}.astype({whole}) << {shift})" for x, shift in zip(parts, shifts, strict=True)]
    return w.variable(" | ".join(terms))


def _repack(w: BlockWriter, destination: Vector, source: Vector) -> None:
    """mov.b128 between its two halves and two or four registers."""
    if len(source.elements) == 4:
        low, high = source.elements[:2], source.elements[2:]
        halves = [_packed(w, low, "u8"), _packed(w, high, "u8")]
    else:
        halves = [w.read(element, "u8") for element in source.elements]
    if len(destination.elements) == 4:
        _unpack(w, destination.elements[:2], halves[0], "u8")
        _unpack(w, destination.elements[2:], halves[1], "u8")
    else:
        for target, half in zip(destination.elements, halves, strict=True):
            w.assign(target, half, "u8")


@emits("cvta")
def _convert_address(w: BlockWriter, i: Instruction) -> None:
    """Convert an address: shared, local and parameter addresses are offsets; constants have generic ones already."""
    dtype = DTYPES[i.modifiers[-1]]
    space = i.modifiers[-2].split("::")[0]
    value = w.read(i.operands[1], dtype)
    if space in ("global", "const"):
        expression = value
    elif space == "param":
        sign = "-" if i.modifiers[0] == "to" else "+"
        expression = f"{value} {sign} m.parameters_address.astype({dtype})"
    elif isinstance(i.operands[1], Symbol) and i.modifiers[0] == "to":
        raise ValueError("a symbol as a generic address")
    else:
        sign = "-" if i.modifiers[0] == "to" else "+"
        expression = f"{value} {sign} {w.constant(_WINDOWS[space], dtype)}"
    w.assign(i.operands[0], expression, dtype)


@emits("isspacep")
def _is_in_space(w: BlockWriter, i: Instruction) -> None:
    """Whether an address is in a space; shared memory means the CTA's own, unless .shared::cluster is given.

    Addresses outside the windows of constants, local and shared memory are global, including those of parameters.
    """
    space, address = i.modifiers[0], w.read(i.operands[1], "u8")
    match space.split("::")[0]:
        case "const":
            inside = _in_constants(w, address)
        case "param":
            inside = _between(w, address, "m.parameters_address", w.program.entry.parameter_bytes)
        case "global":
            others = (_in_constants(w, address), *(_in_window(w, address, window) for window in _WINDOWS))
            inside = f"~({' | '.join(others)})"
        case window:
            inside = _in_window(w, address, window)
    if space in ("shared", "shared::cta"):
        own = "m.specials.of_lanes('cluster_ctarank', g)"
        inside = f"{inside} & (m.access.rank_of({address}, g) == {own})"
    w.assign(i.operands[0], inside, "b1")


def _in_window(w: BlockWriter, address: str, space: str) -> str:
    return f"({address} >> {w.constant(44, 'u8')} == {w.constant(_WINDOWS[space] >> 44, 'u8')})"


def _in_constants(w: BlockWriter, address: str) -> str:
    """Whether it is an address of a constant: their window is as large as they are."""
    constants = w.program.entry.constants.values()
    starts = [f"m.variable_address({w.constant(constant.name)})" for constant in constants]
    within = [_between(w, address, start, constant.size) for start, constant in zip(starts, constants, strict=True)]
    return f"({' | '.join(within)})" if within else w.constant(False, "b1")


def _between(w: BlockWriter, address: str, start: str, size: int) -> str:
    return f"(({address} >= {start}) & ({address} < {start} + {w.constant(size, 'u8')}))"


@emits("cvt")
def _convert(w: BlockWriter, i: Instruction) -> None:
    if i.modifiers[0] == "pack":
        _convert_and_pack(w, i)
        return
    to, source = i.modifiers[-2:]
    mode = next((mode for mode in i.modifiers if mode in _ROUNDINGS), "rn")
    if to.endswith("x2") or source.endswith("x2"):
        _convert_pair(w, i, to, source, mode)
    elif to == "tf32":
        value = _limited(i, clamped(i, w.read(i.operands[1], "f4")), "tf32")
        w.assign(i.operands[0], f"float_to_tf32({value}, {mode!r})", "u4")
    elif is_float(source):
        _convert_float(w, i, to, source, mode)
    elif is_float(to):
        value = w.read(i.operands[1], DTYPES[source])
        if to == "f64":
            expression = clamped(i, f"integer_to_double({value}, {mode!r})")
        else:
            expression = _to_float_type(clamped(i, f"integer_to_float({value})"), to, mode)
        w.assign(i.operands[0], expression, DTYPES[to])
    else:
        value, dtype = w.read(i.operands[1], DTYPES[source]), DTYPES[to]
        convert = f"integer_to_integer({value}, {dtype})" if "sat" in i.modifiers else f"{value}.astype({dtype})"
        w.assign(i.operands[0], convert, dtype)


def _convert_pair(w: BlockWriter, i: Instruction, to: str, source: str, mode: str) -> None:
    """Convert two values into one register."""
    sources = i.operands[1:]
    if to in HALVES and source == "f32":
        high, low = (_limited(i, clamped(i, w.read(operand, "f4")), HALVES[to]) for operand in sources)
        convert = f"float_to_{HALVES[to]}"
        w.assign(i.operands[0], f"pack_halves({convert}({low}, {mode!r}), {convert}({high}, {mode!r}))", "u4")
    elif to in _FLOAT8 and source in ("f32", "f16x2"):
        if source == "f32":
            high, low = (w.read(operand, "f4") for operand in sources)
        else:
            word = w.read(sources[0], "u4")
            high, low = (f"f16_to_float({half}_half({word}))" for half in ("high", "low"))
        w.assign(i.operands[0], f"floats_to_float8({clamped(i, high)}, {clamped(i, low)}, {to!r})", "u2")
    elif to == "f16x2" and source in _FLOAT8:
        pair = w.read(sources[0], "u2")
        w.assign(i.operands[0], f"float8_to_halves({pair}, {source!r}, {'relu' in i.modifiers})", "u4")
    else:
        raise ValueError(f"from {source} to {to}")


def _convert_float(w: BlockWriter, i: Instruction, to: str, source: str, mode: str) -> None:
    value = w.read(i.operands[1], DTYPES[source])
    if source in HALVES:
        value = w.variable(f"{source}_to_float({value})")
    elif "ftz" in i.modifiers and source == "f32":
        value = w.variable(f"flush({value})")
    if not is_float(to):
        w.assign(i.operands[0], f"float_to_integer({value}, {mode!r}, {DTYPES[to]})", DTYPES[to])
        return
    if mode.endswith("i"):
        value, mode = w.variable(f"float_to_whole({value}, {mode!r})"), "rn"
    value = w.variable(_limited(i, clamped(i, value), to))
    flushed = "ftz" in i.modifiers and to == "f32"
    expression = _to_float_type(value, to, mode)
    w.assign(i.operands[0], f"flush({expression})" if flushed else expression, DTYPES[to])


def _limited(i: Instruction, expression: str, kind: str) -> str:
    return f"clamp_finite({expression}, {kind!r})" if "satfinite" in i.modifiers else expression


def _to_float_type(value: str, to: str, mode: str) -> str:
    """A float32 or float64 expression in another floating-point type."""
    if to in HALVES:
        return f"float_to_{to}({value}, {mode!r})"
    return f"rounded({value}, {mode!r}, {DTYPES[to]})"


def _convert_and_pack(w: BlockWriter, i: Instruction) -> None:
    """cvt.pack.sat: two s32 into the low part of a word, above the low part of a third."""
    to = i.modifiers[2]
    a, b = (w.read(operand, "i4") for operand in i.operands[1:3])
    rest = w.read(i.operands[3], "u4") if len(i.operands) > 3 else w.constant(0, "u4")
    w.assign(i.operands[0], f"pack_saturated({a}, {b}, {rest}, {int(to[1:])}, {to[0] == 's'})", "u4")


@emits("brx")
def _require_target(w: BlockWriter, i: Instruction) -> None:
    """The part of brx.idx that remains besides its branches."""
    index, count = (w.read(operand, "u4") for operand in i.operands)
    w.emit(f"m.require_target({w.site}, g, {index}, {count})")


@emits("createpolicy")
def _create_policy(w: BlockWriter, i: Instruction) -> None:
    """Create a cache policy, which is opaque and changes no result."""
    w.assign(i.operands[0], w.constant(0, "u8"), "u8")


@emits("nanosleep", "prefetch", "prefetchu", "discard", "applypriority", "pmevent", "brkpt")
def _no_operation(w: BlockWriter, i: Instruction) -> None:
    """Do nothing: memory here is always coherent, and a hint, an event or a breakpoint changes no result."""
