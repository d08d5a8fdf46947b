"""Emitters of integer arithmetic, shifts and bits. Sources: PTX ISA, the instructions of these names."""

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.writer import BlockWriter, emits, pair_of
from tilewright.emulator.ptx.syntax import CARRY, Instruction, Integer, Sink

_OF_BITS = {
    "brev": "reverse_bits({0})", "popc": "population_count({0})", "clz": "count_leading_zeros({0})",
    "bfind": "find_leading({0})",
}  # fmt: skip


def unsigned(dtype: str) -> str:
    """The unsigned type of the same width: sums wrap in it without a warning."""
    return "u" + dtype[1:]


def arithmetic_of_halves(w: BlockWriter, i: Instruction) -> None:
    """add, min and max of u16x2 and s16x2."""
    a, b = w.read(i.operands[1], "u4"), w.read(i.operands[2], "u4")
    is_signed = i.modifiers[-1] == "s16x2"
    result = f"combine_halves({i.opcode!r}, {a}, {b}, {is_signed})"
    if "relu" in i.modifiers:
        result = f"combine_halves('max', {result}, u4(0), True)"
    w.assign(i.operands[0], result, "u4")


def multiply(w: BlockWriter, i: Instruction) -> None:
    """mul and mad: the low, the high or the whole product."""
    if "cc" in i.modifiers:
        add_with_carry(w, i)
        return
    part, dtype = i.modifiers[0], DTYPES[i.modifiers[-1]]
    if "sat" in i.modifiers:
        sources = ", ".join(w.read(operand, "i4") for operand in i.operands[1:])
        w.assign(i.operands[0], f"multiply_add_high_saturated({sources})", "i4")
        return
    product, dtype = _product(w, i, part, dtype)
    if i.opcode == "mad":
        product = f"{product} + {w.read(i.operands[3], dtype)}"
    w.assign(i.operands[0], product, dtype)


def _product(w: BlockWriter, i: Instruction, part: str, dtype: str) -> tuple[str, str]:
    """A part of the product of the first two sources, and its type."""
    if part == "lo":
        dtype = unsigned(dtype)
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], dtype)
    if part == "wide":
        return f"widen({a}) * widen({b})", f"{dtype[0]}{2 * int(dtype[1:])}"
    return (f"{a} * {b}" if part == "lo" else f"multiply_high({a}, {b})"), dtype


@emits("addc", "subc", "madc")
def add_with_carry(w: BlockWriter, i: Instruction) -> None:
    """add, sub and mad with .cc, which write the carry flag, and addc, subc and madc, which read it."""
    dtype = DTYPES[i.modifiers[-1]]
    if i.opcode in ("mad", "madc"):
        product, of_product = _product(w, i, i.modifiers[0], dtype)
        a = w.variable(f"({product}).view({unsigned(of_product)})")
        b = w.read(i.operands[3], unsigned(dtype))
    else:
        a, b = (w.read(operand, unsigned(dtype)) for operand in i.operands[1:3])
    carry = w.read(CARRY, "b1") if i.opcode.endswith("c") else w.constant(0, "b1")
    sign = "-" if i.opcode.startswith("sub") else "+"
    total = w.variable(f"{a} {sign} {b} {sign} {carry}.astype({unsigned(dtype)})")
    flag = f"borrow_of({a}, {b}, {carry})" if sign == "-" else f"carry_of({total}, {a}, {carry})"
    w.assign(i.operands[0], total, unsigned(dtype))
    if "cc" in i.modifiers:
        w.assign(CARRY, flag, "b1")


@emits("mul24", "mad24")
def _multiply_24(w: BlockWriter, i: Instruction) -> None:
    part, dtype = i.modifiers[0], DTYPES[i.modifiers[-1]]
    a, b = (w.read(operand, dtype) for operand in i.operands[1:3])
    result = f"multiply_24({a}, {b}, {part!r})"
    if i.opcode == "mad24":
        c = w.read(i.operands[3], dtype)
        result = f"add_saturated({result}, {c})" if "sat" in i.modifiers else f"{result} + {c}"
    w.assign(i.operands[0], result, dtype)


@emits("sad")
def _sum_of_difference(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    a, b, c = (w.read(operand, dtype) for operand in i.operands[1:])
    w.assign(i.operands[0], f"absolute_difference({a}, {b}) + {c}", dtype)


@emits("dp4a", "dp2a")
def _dot_product(w: BlockWriter, i: Instruction) -> None:
    a, b = (w.read(operand, DTYPES[kind]) for operand, kind in zip(i.operands[1:3], i.modifiers[-2:], strict=True))
    parts = "8" if i.opcode == "dp4a" else f"16, {2 if 'hi' in i.modifiers else 0}"
    w.assign(i.operands[0], f"dot_product({a}, {b}, {w.read(i.operands[3], 'u4')}, {parts})", "u4")


@emits("cnot")
def _logical_not(w: BlockWriter, i: Instruction) -> None:
    dtype = unsigned(DTYPES[i.modifiers[-1]])
    w.assign(i.operands[0], f"({w.read(i.operands[1], dtype)} == 0).astype({dtype})", dtype)


@emits("shl", "shr")
def _shift(w: BlockWriter, i: Instruction) -> None:
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
    first, second = pair_of(i.operands[0])
    sources = ", ".join(w.read(operand, "u4") for operand in i.operands[1:5])
    result = w.variable(f"logic3({sources})")
    w.assign(first, result, "u4")
    if not isinstance(second, Sink):
        condition = w.read(i.operands[5], "b1")
        operator = {"and": "&", "or": "|", "xor": "^"}[i.modifiers[0]]
        w.assign(second, f"({result} != 0) {operator} {condition}", "b1")


@emits("prmt")
def _permute(w: BlockWriter, i: Instruction) -> None:
    mode = i.modifiers[1] if len(i.modifiers) > 1 else ""
    sources = ", ".join(w.read(operand, "u4") for operand in i.operands[1:])
    w.assign(i.operands[0], f"permute({sources}, {mode!r})", "u4")


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


@emits("szext", "bmsk")
def _low_bits(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    function = {"szext": "extend_low_bits", "bmsk": "bit_mask"}[i.opcode]
    a, b = w.read(i.operands[1], dtype), w.read(i.operands[2], "u4")
    w.assign(i.operands[0], f"{function}({a}, {b}, {'wrap' in i.modifiers})", dtype)


@emits("brev", "popc", "clz", "bfind")
def _bit_functions(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    result = _OF_BITS[i.opcode].format(w.read(i.operands[1], dtype))
    if "shiftamt" in i.modifiers:
        found = w.variable(result)
        result = f"np.where({found} == u4(0xFFFFFFFF), {found}, u4({8 * int(dtype[1:]) - 1}) - {found})"
    w.assign(i.operands[0], result, dtype if i.opcode == "brev" else "u4")


@emits("fns")
def _find_nth_set(w: BlockWriter, i: Instruction) -> None:
    mask, base, offset = (
        w.read(operand, dtype) for operand, dtype in zip(i.operands[1:], ("u4", "u4", "i4"), strict=True)
    )
    w.assign(i.operands[0], f"find_nth_set({mask}, {base}, {offset})", "u4")
