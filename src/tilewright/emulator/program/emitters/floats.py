"""Emitters of arithmetic on numbers and of comparisons. Sources: PTX ISA, the instructions of these names."""

from collections.abc import Callable

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.emitters.integers import add_with_carry, arithmetic_of_halves, multiply, unsigned
from tilewright.emulator.program.emitters.operands import HALVES, is_float
from tilewright.emulator.program.writer import BlockWriter, emits, pair_of
from tilewright.emulator.ptx.syntax import Instruction, Operand, Sink

_FLOAT = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "min": "minimum({0}, {1})",
    "max": "maximum({0}, {1})", "abs": "np.abs({0})", "neg": "-{0}", "rcp": "np.reciprocal({0})",
    "sqrt": "np.sqrt({0})", "rsqrt": "np.reciprocal(np.sqrt({0}))", "ex2": "np.exp2({0})", "lg2": "np.log2({0})",
    "sin": "np.sin({0})", "cos": "np.cos({0})", "tanh": "np.tanh({0})", "copysign": "np.copysign({1}, {0})",
}  # fmt: skip
_FUSED = {"f32": "fused({0}, {1}, {2})", "f64": "fused_double({0}, {1}, {2})"}
_EXACT = {**_FLOAT, "add": "sum_to_odd({0}, {1})", "sub": "sum_to_odd({0}, -{1})"}
"""Expressions in float64, for a later rounding."""
_EXACT |= dict.fromkeys(("fma", "mad"), "sum_to_odd({0} * {1}, {2})")
_EXACT_DOWN = {
    **_EXACT, "add": "-sum_to_odd(-{0}, -{1})", "sub": "-sum_to_odd(-{0}, {1})",
    **dict.fromkeys(("fma", "mad"), "-sum_to_odd(-{0} * {1}, -{2})"),
}  # fmt: skip
"""The same for .rm, where a sum of zero is -0 unless both of its terms are +0."""
_BITS_OF_HALVES = {
    "abs": {"f16": 0x7FFF, "f16x2": 0x7FFF7FFF, "bf16": 0x7FFF, "bf16x2": 0x7FFF7FFF},
    "neg": {"f16": 0x8000, "f16x2": 0x80008000, "bf16": 0x8000, "bf16x2": 0x80008000},
}
_INTEGER = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "min": "np.minimum({0}, {1})", "max": "np.maximum({0}, {1})",
    "abs": "np.abs({0})", "neg": "-{0}", "div": "divide({0}, {1})", "rem": "remainder({0}, {1})",
}  # fmt: skip
_LOGIC = {"and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}"}
_RELATIONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_UNORDERED = {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}
_ONES = {
    "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80,
    **dict.fromkeys(("u16", "s16"), 0xFFFF), **dict.fromkeys(("u32", "s32"), 0xFFFFFFFF),
}  # fmt: skip


@emits(*_FLOAT, "fma", "mad", "rem")
def _arithmetic(w: BlockWriter, i: Instruction) -> None:
    kind = i.modifiers[-1]
    if kind in ("f32", "f64"):
        _float(w, i, kind)
    elif kind in HALVES:
        _half(w, i, kind)
    elif kind in ("u16x2", "s16x2"):
        arithmetic_of_halves(w, i)
    elif i.opcode in ("mul", "mad"):
        multiply(w, i)
    elif "cc" in i.modifiers:
        add_with_carry(w, i)
    else:
        _integer(w, i)


def _integer(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    if "sat" in i.modifiers:
        a, b = w.read(i.operands[1], "i4"), w.read(i.operands[2], "i4")
        w.assign(i.operands[0], f"add_saturated({a}, {b}, {1 if i.opcode == 'add' else -1})", "i4")
        return
    if i.opcode in ("add", "sub"):
        dtype = unsigned(dtype)
    expression = _fill(w, i, _INTEGER[i.opcode], dtype)
    if "relu" in i.modifiers:
        expression = f"np.maximum({expression}, {w.constant(0, dtype)})"
    w.assign(i.operands[0], expression, dtype)


def _fill(w: BlockWriter, i: Instruction, template: str, dtype: str) -> str:
    """A template filled with the sources."""
    return template.format(*(w.read(operand, dtype) for operand in i.operands[1:]))


def _extremum(w: BlockWriter, i: Instruction, sources: list[str]) -> str:
    """min and max with their modifiers."""
    function = {"min": "minimum", "max": "maximum"}[i.opcode]
    propagate = "NaN" in i.modifiers
    if "abs" not in i.modifiers:
        return f"{function}({', '.join(sources)}, {propagate})"
    magnitudes = ", ".join(f"np.abs({source})" for source in sources)
    return f"xorsign({function}({magnitudes}, {propagate}), {', '.join(sources)})"


def _float(w: BlockWriter, i: Instruction, kind: str) -> None:
    dtype = DTYPES[kind]
    sources = [w.read(operand, dtype) for operand in i.operands[1:]]
    flushed = "ftz" in i.modifiers and kind == "f32"
    if flushed:
        sources = [w.variable(f"flush({source})") for source in sources]
    mode = next((mode for mode in ("rz", "rm", "rp") if mode in i.modifiers), "rn")
    if mode != "rn" and kind == "f64":
        expression = f"rounded_double({i.opcode!r}, {mode!r}, {', '.join(sources)})"
    elif mode != "rn":
        wide = [w.variable(f"{source}.astype(f8)") for source in sources]
        exact = (_EXACT_DOWN if mode == "rm" else _EXACT)[i.opcode].format(*wide)
        expression = f"rounded({exact}, {mode!r})"
    elif i.opcode in ("fma", "mad"):
        expression = _FUSED[kind].format(*sources)
    elif i.opcode in ("min", "max"):
        expression = _extremum(w, i, sources)
    else:
        expression = _FLOAT[i.opcode].format(*sources)
    if flushed and mode == "rn" and i.opcode in ("mul", "fma", "mad"):
        exact = _EXACT[i.opcode].format(*(w.variable(f"{source}.astype(f8)") for source in sources))
        expression = f"flush_rounded({expression}, {exact})"
    elif flushed:
        expression = f"flush({expression})"
    w.assign(i.operands[0], clamped(i, expression), dtype)


def clamped(i: Instruction, expression: str) -> str:
    """A floating-point value after .sat or .relu."""
    if "sat" in i.modifiers:
        return f"saturate({expression})"
    return f"np.maximum({expression}, 0)" if "relu" in i.modifiers else expression


def _half(w: BlockWriter, i: Instruction, kind: str) -> None:
    """16-bit floats compute in wider ones and round once; pairs do so for each half."""
    form, dtype = HALVES[kind], DTYPES[kind]
    flushed = "ftz" in i.modifiers and form == "f16"
    if i.opcode in _BITS_OF_HALVES:
        value, bits = w.read(i.operands[1], dtype), w.constant(_BITS_OF_HALVES[i.opcode][kind], dtype)
        if not flushed:
            w.assign(i.operands[0], f"{value} {'&' if i.opcode == 'abs' else '^'} {bits}", dtype)
            return

    def compute(parts: list[str]) -> str:
        parts = [f"flush_f16({part})" for part in parts] if flushed else parts
        wide = [w.variable(f"{form}_to_float({part})") for part in parts]
        if i.opcode in ("min", "max"):
            exact = _extremum(w, i, wide)
        elif i.opcode == "fma":
            exact = _EXACT["fma"].format(*(f"{value}.astype(f8)" for value in wide))
        else:  # of two numbers: float32 is wide enough that rounding twice equals rounding once
            exact = _FLOAT[i.opcode].format(*wide)
        return w.variable(f"float_to_{form}{'_flushed' if flushed else ''}({clamped(i, exact)})")

    w.assign(i.operands[0], each_half(w, i.operands[1:], kind, compute), dtype)


def each_half(w: BlockWriter, operands: tuple[Operand, ...], kind: str, compute: Callable[[list[str]], str]) -> str:
    """The result of `compute` for 16-bit sources; for pairs, of each half."""
    sources = [w.read(operand, DTYPES[kind]) for operand in operands]
    if not kind.endswith("x2"):
        return compute(sources)
    low, high = (compute([f"{half}_half({source})" for source in sources]) for half in ("low", "high"))
    return f"pack_halves({low}, {high})"


@emits("and", "or", "xor", "not")
def _logic(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    w.assign(i.operands[0], _fill(w, i, _LOGIC[i.opcode], dtype), dtype)


@emits("setp")
def _set_predicate(w: BlockWriter, i: Instruction) -> None:
    first, second = pair_of(i.operands[0])
    comparisons = [w.variable(f"({comparison})") for comparison in _comparisons(w, i)]
    if len(comparisons) == 1 and not isinstance(second, Sink):
        comparisons.append(w.variable(f"~{comparisons[0]}"))
    w.suspects.join(i, zip((first, second), comparisons, strict=False))
    results = [_combined(w, i, comparison) for comparison in comparisons]  # before the first target is assigned
    for target, result in zip((first, second), results, strict=False):
        w.assign(target, result, "b1")


def _combined(w: BlockWriter, i: Instruction, comparison: str) -> str:
    """A comparison joined with the predicate that the instruction may have as its third source."""
    combine = next((_LOGIC[name] for name in ("and", "or", "xor") if name in i.modifiers), None)
    return comparison if combine is None else combine.format(comparison, w.read(i.operands[3], "b1"))


def _comparisons(w: BlockWriter, i: Instruction) -> list[str]:
    """The comparison, or those of the low and the high halves."""
    relation, kind = i.modifiers[0], i.modifiers[-1]
    if kind not in HALVES:
        values = [w.read(operand, DTYPES[kind]) for operand in i.operands[1:3]]
        if "ftz" in i.modifiers:
            values = [w.variable(f"flush({value})") for value in values]
        return [_compare(relation, values, is_float(kind))]

    comparisons = []
    form, flushed = HALVES[kind], "ftz" in i.modifiers and HALVES[kind] == "f16"

    def compute(parts: list[str]) -> str:
        parts = [f"flush_f16({part})" for part in parts] if flushed else parts
        comparisons.append(_compare(relation, [f"{form}_to_float({part})" for part in parts], True))
        return ""

    each_half(w, i.operands[1:3], kind, compute)
    return comparisons


def _compare(relation: str, values: list[str], floating: bool) -> str:
    if relation in _RELATIONS and not (floating and relation == "ne"):
        return f"{values[0]} {_RELATIONS[relation]} {values[1]}"
    return f"compare({values[0]}, {relation!r}, {values[1]})"


@emits("set")
def _set_value(w: BlockWriter, i: Instruction) -> None:
    """All bits or a 1.0; of pairs, in each half, also where the result is an integer of 32 bits."""
    kind, comparisons = i.modifiers[-2], _comparisons(w, i)
    half = "u16" if len(comparisons) == 2 else kind
    part = HALVES.get(kind, half)
    yes, no = w.constant(_ONES[part], unsigned(DTYPES[part])), w.constant(0, unsigned(DTYPES[part]))
    chosen = [f"np.where({_combined(w, i, f'({comparison})')}, {yes}, {no})" for comparison in comparisons]
    expression = f"pack_halves({', '.join(chosen)})" if len(chosen) == 2 else chosen[0]
    w.assign(i.operands[0], expression, unsigned(DTYPES[kind]))


@emits("selp")
def _select(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype)
    w.assign(i.operands[0], f"np.where({w.read(i.operands[3], 'b1')}, {a}, {b})", dtype)


@emits("slct")
def _select_by_sign(w: BlockWriter, i: Instruction) -> None:
    dtype, selector = DTYPES[i.modifiers[-2]], DTYPES[i.modifiers[-1]]
    a, b, c = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype), w.read(i.operands[3], selector)
    c = f"flush({c})" if "ftz" in i.modifiers else c
    w.assign(i.operands[0], f"np.where({c} >= 0, {a}, {b})", dtype)


@emits("testp")
def _test_property(w: BlockWriter, i: Instruction) -> None:
    value = w.read(i.operands[1], DTYPES[i.modifiers[-1]])
    w.assign(i.operands[0], f"test_property({value}, {w.constant(i.modifiers[0])})", "b1")
