"""Emitters of arithmetic, logic, comparison, conversion and data movement between registers."""

from tilewright.emulator.codegen import DTYPES, BlockWriter, emits, pair_of
from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.memory import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW
from tilewright.emulator.ptx import Instruction, Integer, Register, Sink, Symbol, Vector

_FLOAT = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "fma": "{0} * {1} + {2}",
    "mad": "{0} * {1} + {2}", "min": "np.fmin({0}, {1})", "max": "np.fmax({0}, {1})", "abs": "np.abs({0})",
    "neg": "-{0}", "rcp": "np.reciprocal({0})", "sqrt": "np.sqrt({0})", "rsqrt": "np.reciprocal(np.sqrt({0}))",
    "ex2": "np.exp2({0})",
    "lg2": "np.log2({0})", "sin": "np.sin({0})", "cos": "np.cos({0})", "tanh": "np.tanh({0})",
    "copysign": "np.copysign({1}, {0})",
}  # fmt: skip
_FLOAT_NAN = {"min": "np.minimum({0}, {1})", "max": "np.maximum({0}, {1})"}
_FLOAT_MODIFIERS = {"rn", "rz", "rm", "rp", "ftz", "sat", "relu", "NaN", "approx", "full"}
_HALVES = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16"}
_INTEGER = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "min": "np.minimum({0}, {1})", "max": "np.maximum({0}, {1})",
    "abs": "np.abs({0})", "neg": "-{0}", "div": "divide({0}, {1})", "rem": "remainder({0}, {1})",
}  # fmt: skip
_LOGIC = {"and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}"}
_UNARY = {
    "brev": "reverse_bits({0})", "popc": "population_count({0})", "clz": "count_leading_zeros({0})",
    "bfind": "find_leading({0})",
}  # fmt: skip
_RELATIONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_WINDOWS = {"global": GLOBAL_BASE, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def check_modifiers(instruction: Instruction, allowed: set[str], types: int = 1) -> None:
    """Refuse a modifier that is neither allowed nor one of the last `types`."""
    unknown = set(instruction.modifiers[: len(instruction.modifiers) - types]) - allowed
    if unknown:
        raise UnsupportedInstruction(f"no emulation of .{', .'.join(sorted(unknown))} in {instruction}")


def _unsigned(dtype: str) -> str:
    return "u" + dtype[1:]


@emits(*_FLOAT, "rem")
def _arithmetic(w: BlockWriter, i: Instruction) -> None:
    kind = i.modifiers[-1]
    if kind in ("f32", "f64"):
        _float(w, i, kind)
    elif kind in _HALVES:
        _half(w, i, kind)
    elif i.opcode in ("mul", "mad"):
        _multiply(w, i)
    else:
        check_modifiers(i, {"sat"})
        dtype = DTYPES[kind]
        if "sat" in i.modifiers:
            a, b = w.read(i.operands[1], "i4"), w.read(i.operands[2], "i4")
            return w.assign(i.operands[0], f"add_saturated({a}, {b}, {1 if i.opcode == 'add' else -1})", "i4")
        if i.opcode in ("add", "sub"):
            dtype = _unsigned(dtype)
        _apply(w, i, _INTEGER[i.opcode], dtype)
    return None


def _apply(w: BlockWriter, i: Instruction, template: str, dtype: str, result: str | None = None) -> None:
    """Assign a template filled with the sources."""
    sources = [w.read(operand, dtype) for operand in i.operands[1:]]
    w.assign(i.operands[0], template.format(*sources), result or dtype)


def _float_template(i: Instruction) -> str:
    check_modifiers(i, _FLOAT_MODIFIERS)
    return _FLOAT_NAN[i.opcode] if "NaN" in i.modifiers else _FLOAT[i.opcode]


def _float(w: BlockWriter, i: Instruction, kind: str) -> None:
    dtype = DTYPES[kind]
    template = _float_template(i)
    sources = [w.read(operand, dtype) for operand in i.operands[1:]]
    flushed = "ftz" in i.modifiers and kind == "f32"
    if flushed:
        sources = [w.variable(f"flush({source})") for source in sources]
    mode = next((mode for mode in ("rz", "rm", "rp") if mode in i.modifiers), "rn")
    if mode != "rn":
        if kind == "f64":
            raise UnsupportedInstruction(f"no directed rounding of {i}")
        exact = template.format(*(f"{source}.astype(f8)" for source in sources))
        expression = f"rounded({exact}, {mode!r})"
    elif i.opcode in ("fma", "mad") and kind == "f32":
        expression = f"fused({', '.join(sources)})"
    else:
        expression = template.format(*sources)
    expression = _clamp(i, expression)
    w.assign(i.operands[0], f"flush({expression})" if flushed else expression, dtype)


def _clamp(i: Instruction, expression: str) -> str:
    if "sat" in i.modifiers:
        return f"saturate({expression})"
    return f"np.maximum({expression}, 0)" if "relu" in i.modifiers else expression


def _half(w: BlockWriter, i: Instruction, kind: str) -> None:
    """16-bit floats compute in float64 and round once; pairs do so for each half."""
    form, template = _HALVES[kind], _float_template(i)
    sources = [w.read(operand, DTYPES[kind]) for operand in i.operands[1:]]

    def compute(parts: list[str]) -> str:
        wide = [f"{form}_to_float({part}).astype(f8)" for part in parts]
        return w.variable(f"float_to_{form}({_clamp(i, template.format(*wide))})")

    if kind.endswith("x2"):
        low = compute([f"low_half({source})" for source in sources])
        high = compute([f"high_half({source})" for source in sources])
        w.assign(i.operands[0], f"pack_halves({low}, {high})", "u4")
    else:
        w.assign(i.operands[0], compute(sources), "u2")


def _multiply(w: BlockWriter, i: Instruction) -> None:
    """Integer mul and mad: the low, the high or the whole product."""
    check_modifiers(i, {"lo", "hi", "wide"})
    part, dtype = i.modifiers[0], DTYPES[i.modifiers[-1]]
    if part == "lo":
        dtype = _unsigned(dtype)
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype)
    product = {"lo": f"{a} * {b}", "hi": f"multiply_high({a}, {b})", "wide": f"widen({a}) * widen({b})"}[part]
    if part == "wide":
        dtype = f"{dtype[0]}{2 * int(dtype[1:])}"
    if i.opcode == "mad":
        product = f"{product} + {w.read(i.operands[3], dtype)}"
    w.assign(i.operands[0], product, dtype)


@emits("and", "or", "xor", "not")
def _logic(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, set())
    dtype = DTYPES[i.modifiers[-1]]
    _apply(w, i, _LOGIC[i.opcode], dtype)


@emits("cnot")
def _logical_not(w: BlockWriter, i: Instruction) -> None:
    dtype = _unsigned(DTYPES[i.modifiers[-1]])
    w.assign(i.operands[0], f"({w.read(i.operands[1], dtype)} == 0).astype({dtype})", dtype)


@emits("shl", "shr")
def _shift(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, set())
    dtype = DTYPES[i.modifiers[-1]]
    value, count = w.read(i.operands[1], dtype), i.operands[2]
    bits = 8 * int(dtype[1:])
    if isinstance(count, Integer) and 0 <= count.value < bits:
        operator = "<<" if i.opcode == "shl" else ">>"
        w.assign(i.operands[0], f"{value} {operator} {w.constant(count.value, dtype)}", dtype)
    else:
        function = "shift_left" if i.opcode == "shl" else "shift_right"
        w.assign(i.operands[0], f"{function}({value}, {w.read(count, 'u4')})", dtype)


@emits("shf")
def _funnel_shift(w: BlockWriter, i: Instruction) -> None:
    direction, overflow = i.modifiers[:2]
    function = {"l": "funnel_left", "r": "funnel_right"}[direction]
    sources = ", ".join(w.read(operand, "u4") for operand in i.operands[1:])
    w.assign(i.operands[0], f"{function}({sources}, {overflow == 'wrap'})", "u4")


@emits("lop3")
def _logic_of_three(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, set())
    _apply(w, i, "logic3({0}, {1}, {2}, {3})", "u4")


@emits("prmt")
def _permute(w: BlockWriter, i: Instruction) -> None:
    mode = i.modifiers[1] if len(i.modifiers) > 1 else ""
    if mode not in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        raise UnsupportedInstruction(f"no emulation of mode {mode} in {i}")
    _apply(w, i, f"permute({{0}}, {{1}}, {{2}}, {mode!r})", "u4")


@emits("bfe")
def _extract(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    position, length = w.read(i.operands[2], "u4"), w.read(i.operands[3], "u4")
    w.assign(i.operands[0], f"extract_field({w.read(i.operands[1], dtype)}, {position}, {length})", dtype)


@emits("bfi")
def _insert(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype)
    position, length = w.read(i.operands[3], "u4"), w.read(i.operands[4], "u4")
    w.assign(i.operands[0], f"insert_field({a}, {b}, {position}, {length})", dtype)


@emits("brev", "popc", "clz", "bfind")
def _bit_functions(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, set())
    dtype = DTYPES[i.modifiers[-1]]
    _apply(w, i, _UNARY[i.opcode], dtype, dtype if i.opcode == "brev" else "u4")


@emits("setp")
def _set_predicate(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, {*_RELATIONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "ftz", "and", "or", "xor"})
    expression = _comparison(w, i)
    first, second = pair_of(i.operands[0])
    combine = next((_LOGIC[name] for name in ("and", "or", "xor") if name in i.modifiers), None)
    if combine is None:
        w.assign(first, expression, "b1")
        if not isinstance(second, Sink):
            w.assign(second, f"~({expression})", "b1")
        return
    condition = w.read(i.operands[3], "b1")
    w.assign(first, combine.format(f"({expression})", condition), "b1")
    if not isinstance(second, Sink):
        w.assign(second, combine.format(f"~({expression})", condition), "b1")


def _comparison(w: BlockWriter, i: Instruction) -> str:
    relation, kind = i.modifiers[0], i.modifiers[-1]
    a, b = (_as_number(w, operand, kind, "ftz" in i.modifiers) for operand in i.operands[1:3])
    is_float = kind[0] == "f" or kind == "bf16"
    if relation in _RELATIONS and not (is_float and relation == "ne"):
        return f"{a} {_RELATIONS[relation]} {b}"
    return f"compare({a}, {relation!r}, {b})"


def _as_number(w: BlockWriter, operand: object, kind: str, flushed: bool) -> str:
    """A source as something NumPy compares: 16-bit floats as float32."""
    if kind.endswith("x2"):
        raise ValueError(f"a comparison of {kind}")
    value = w.read(operand, DTYPES[kind])  # type: ignore[arg-type]
    if kind in _HALVES:
        return w.variable(f"{kind}_to_float({value})")
    return w.variable(f"flush({value})") if flushed and kind == "f32" else value


@emits("set")
def _set_value(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, {*_RELATIONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "ftz"}, types=2)
    kind = i.modifiers[-2]
    dtype = DTYPES[kind]
    yes = w.constant({"f32": 0x3F800000, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF}[kind], dtype)
    w.assign(i.operands[0], f"np.where({_comparison(w, i)}, {yes}, {w.constant(0, dtype)})", dtype)


@emits("selp")
def _select(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype)
    w.assign(i.operands[0], f"np.where({w.read(i.operands[3], 'b1')}, {a}, {b})", dtype)


@emits("slct")
def _select_by_sign(w: BlockWriter, i: Instruction) -> None:
    dtype, selector = DTYPES[i.modifiers[-2]], DTYPES[i.modifiers[-1]]
    a, b, c = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype), w.read(i.operands[3], selector)
    w.assign(i.operands[0], f"np.where({c} >= 0, {a}, {b})", dtype)


@emits("testp")
def _test_property(w: BlockWriter, i: Instruction) -> None:
    value = w.read(i.operands[1], DTYPES[i.modifiers[-1]])
    w.assign(i.operands[0], f"test_property({value}, {w.constant(i.modifiers[0])})", "b1")


@emits("mov")
def _move(w: BlockWriter, i: Instruction) -> None:
    destination, source = i.operands
    dtype = DTYPES[i.modifiers[-1]]
    if isinstance(destination, Vector):
        whole = w.read(source, _unsigned(dtype))
        part = f"u{int(dtype[1:]) // len(destination.elements)}"
        for index, element in enumerate(destination.elements):
            shift = w.constant(8 * int(part[1:]) * index, _unsigned(dtype))
            w.assign(element, f"({whole} >> {shift}).astype({part})", part)
    elif isinstance(source, Vector):
        whole = _unsigned(dtype)
        part = f"u{int(dtype[1:]) // len(source.elements)}"
        terms = []
        for index, element in enumerate(source.elements):
            shift = w.constant(8 * int(part[1:]) * index, whole)
            terms.append(f"({w.read(element, part)}.astype({whole}) << {shift})")
        w.assign(destination, " | ".join(terms), whole)
    elif isinstance(source, Register) and isinstance(destination, Register) and not w.active:
        if source.bits != destination.bits:
            raise ValueError("registers of different widths")
        w.alias(destination, source)
    else:
        w.assign(destination, w.read(source, dtype), dtype)


@emits("cvta")
def _convert_address(w: BlockWriter, i: Instruction) -> None:
    """Shared and local addresses are window offsets; those of parameters and constants are generic already."""
    dtype = DTYPES[i.modifiers[-1]]
    space = i.modifiers[1] if i.modifiers[0] == "to" else i.modifiers[0]
    value = w.read(i.operands[1], dtype)
    if space in ("global", "const", "param"):
        expression = value
    elif isinstance(i.operands[1], Symbol) and i.modifiers[0] == "to":
        raise ValueError("a symbol as a generic address")
    else:
        sign = "-" if i.modifiers[0] == "to" else "+"
        expression = f"{value} {sign} {w.constant(_WINDOWS[space.split('::')[0]], dtype)}"
    w.assign(i.operands[0], expression, dtype)


@emits("isspacep")
def _is_in_space(w: BlockWriter, i: Instruction) -> None:
    window = _WINDOWS[i.modifiers[0].split("::")[0]]
    address = w.read(i.operands[1], "u8")
    w.assign(i.operands[0], f"{address} >> {w.constant(44, 'u8')} == {w.constant(window >> 44, 'u8')}", "b1")


@emits("cvt")
def _convert(w: BlockWriter, i: Instruction) -> None:
    modes = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "relu", "satfinite"}
    check_modifiers(i, modes, types=2)
    to, source = i.modifiers[-2:]
    mode = next((mode for mode in i.modifiers if mode in modes and mode[0] == "r" and mode != "relu"), "rn")
    if to in ("f16x2", "bf16x2") and source == "f32":
        high, low = (f"float_to_{_HALVES[to]}({_clamp(i, w.read(x, 'f4'))}, {mode!r})" for x in i.operands[1:3])
        w.assign(i.operands[0], f"pack_halves({low}, {high})", "u4")
    elif to in ("e4m3x2", "e5m2x2") and source == "f32":
        high, low = (w.read(operand, "f4") for operand in i.operands[1:3])
        w.assign(i.operands[0], f"floats_to_float8({high}, {low}, {to!r})", "u2")
    elif to == "f16x2" and source in ("e4m3x2", "e5m2x2"):
        w.assign(i.operands[0], f"float8_to_halves({w.read(i.operands[1], 'u2')}, {source!r})", "u4")
    elif to == "tf32":
        w.assign(i.operands[0], f"float_to_tf32({w.read(i.operands[1], 'f4')})", "u4")
    elif _is_float(source):
        _convert_float(w, i, to, source, mode)
    elif _is_float(to):
        value = w.read(i.operands[1], DTYPES[source])
        if source[1:] == "64" and (to, mode) != ("f64", "rn"):
            if mode != "rn" or to != "f32":
                raise ValueError(f"rounding {mode} from 64 bits")
            expression = f"{value}.astype(f4)"
        else:
            expression = _to_float_type(f"{value}.astype(f8)", to, mode)
        w.assign(i.operands[0], expression, DTYPES[to])
    else:
        value, dtype = w.read(i.operands[1], DTYPES[source]), DTYPES[to]
        convert = f"integer_to_integer({value}, {dtype})" if "sat" in i.modifiers else f"{value}.astype({dtype})"
        w.assign(i.operands[0], convert, dtype)


def _convert_float(w: BlockWriter, i: Instruction, to: str, source: str, mode: str) -> None:
    value = w.read(i.operands[1], DTYPES[source])
    if source in _HALVES:
        value = w.variable(f"{source}_to_float({value})")
    elif "ftz" in i.modifiers and source == "f32":
        value = w.variable(f"flush({value})")
    if not _is_float(to):
        w.assign(i.operands[0], f"float_to_integer({value}, {mode!r}, {DTYPES[to]})", DTYPES[to])
        return
    if mode.endswith("i"):
        value, mode = w.variable(f"float_to_whole({value}, {mode!r})"), "rn"
    value = w.variable(_clamp(i, value))
    flushed = "ftz" in i.modifiers and to == "f32"
    expression = _to_float_type(value, to, mode)
    w.assign(i.operands[0], f"flush({expression})" if flushed else expression, DTYPES[to])


def _to_float_type(value: str, to: str, mode: str) -> str:
    """A float32 or float64 expression in another floating-point type."""
    if to in _HALVES:
        return f"float_to_{to}({value}, {mode!r})"
    return f"{value}.astype(f8)" if to == "f64" else f"rounded({value}, {mode!r})"


def _is_float(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64")


@emits("createpolicy")
def _create_policy(w: BlockWriter, i: Instruction) -> None:
    """A cache policy is opaque and changes no result."""
    w.assign(i.operands[0], w.constant(0, "u8"), "u8")


@emits("griddepcontrol", "nanosleep", "setmaxnreg", "prefetch", "prefetchu", "discard", "applypriority")
def _no_operation(w: BlockWriter, i: Instruction) -> None:
    """Memory here is always coherent, and a hint changes no result."""
