"""Emitters of the video instructions, scalar and SIMD."""

import re

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.writer import BlockWriter, emits
from tilewright.emulator.ptx.syntax import Instruction, Operand, Selected

_LETTERS = {"b": 8, "h": 16}
_OPCODES = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")


@emits(*(f"{name}{parts}" for name in _OPCODES for parts in "24"))
def _video_parts(w: BlockWriter, i: Instruction) -> None:
    name, bits = i.opcode[:-1], 32 // int(i.opcode[-1])
    kinds = i.modifiers[:2] if name == "vset" else i.modifiers[1:3]
    each = 32 // bits
    operands = []
    for number, kind in enumerate(kinds):
        parts = _parts(i.operands[1 + number], bits, each, 2 * each)
        chosen = [*range(each * number, each * (number + 1))] if parts is None else parts[::-1]
        words = ", ".join(w.read(_word(operand), DTYPES[kind]) for operand in i.operands[1:3])
        operands.append(w.variable(f"fields(({words}), {chosen}, {bits})"))
    masked = _parts(i.operands[0], bits, None, each)
    if masked is not None and masked != sorted(set(masked), reverse=True):
        raise ValueError("a mask names each part once, the highest first")
    mask = (1 << each) - 1 if masked is None else sum(1 << part for part in masked)
    limits = _limits(i.modifiers[0], bits) if "sat" in i.modifiers else None
    operation, c = (i.modifiers[2] if name == "vset" else name), w.read(i.operands[3], "u4")
    arguments = f"{operation!r}, {bits}, {operands[0]}, {operands[1]}, {limits}, {'add' in i.modifiers}, {mask}, {c}"
    w.assign(_word(i.operands[0]), f"video_parts({arguments})", "u4")


@emits("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr")
def _video(w: BlockWriter, i: Instruction) -> None:
    kinds = i.modifiers[:2] if i.opcode == "vset" else i.modifiers[1:3]
    a, b = (_field(w, operand, kind) for operand, kind in zip(i.operands[1:3], kinds, strict=True))
    second = next((modifier for modifier in i.modifiers if modifier in ("add", "min", "max")), "")
    bits, number = _field_of(i.operands[0])
    if bits < 32 and (second or len(i.operands) == 3):
        raise ValueError("a part of the destination, which needs a third source and no second operation")
    operation = i.opcode
    if operation in ("vshl", "vshr"):
        operation += ".wrap" if "wrap" in i.modifiers else ".clamp"
    elif operation == "vset":
        operation = i.modifiers[2]
    limits = _limits(i.modifiers[0], 32 if i.opcode in ("vshl", "vshr") else bits) if "sat" in i.modifiers else None
    c = w.read(i.operands[3], DTYPES[i.modifiers[0]]) if len(i.operands) == 4 else w.constant(0, "u4")
    arguments = f"{operation!r}, {a}, {b}, {limits}, {second!r}, {(bits, number)}, {c}"
    w.assign(_word(i.operands[0]), f"video({arguments})", "u4")


@emits("vmad")
def _video_multiply(w: BlockWriter, i: Instruction) -> None:
    a, b = (_field(w, operand, kind) for operand, kind in zip(i.operands[1:3], i.modifiers[1:3], strict=True))
    of_a, of_b, of_c = (isinstance(operand, Selected) and operand.negated for operand in i.operands[1:])
    if "po" in i.modifiers and (of_a or of_b or of_c):
        raise ValueError(".po takes no operand that is negated")
    if of_a != of_b and of_c:
        raise ValueError("either the product or the third source may be negated")
    negated = "product" if of_a != of_b else "c" if of_c else ""
    is_signed = "s32" in i.modifiers[1:3] or bool(negated)
    shift = next((int(modifier[3:]) for modifier in i.modifiers if modifier.startswith("shr")), 0)
    limits = _limits("s32" if is_signed else "u32", 32) if "sat" in i.modifiers else None
    c = w.read(_word(i.operands[3]), "u4")
    arguments = f"{c}, {negated!r}, {'po' in i.modifiers}, {limits}, {is_signed}, {shift}"
    w.assign(i.operands[0], f"multiply_add({a}, {b}, {arguments})", "u4")


def _word(operand: Operand) -> Operand:
    """The operand of which parts are selected."""
    return operand.operand if isinstance(operand, Selected) else operand


def _field(w: BlockWriter, operand: Operand, kind: str) -> str:
    """A variable with the word or the part of one that an operand selects, as an integer of 33 bits."""
    bits, number = _field_of(operand)
    return w.variable(f"fields(({w.read(_word(operand), DTYPES[kind])},), ({number},), {bits})[0]")


def _field_of(operand: Operand) -> tuple[int, int]:
    """Bits and number of the one part that an operand selects; (32, 0) for all of it."""
    if not isinstance(operand, Selected) or not operand.parts:
        return 32, 0
    bits = _LETTERS[operand.parts[0]]
    (number,) = _parts(operand, bits, 1, 32 // bits) or [0]
    return bits, number


def _parts(operand: Operand, bits: int, count: int | None, limit: int) -> list[int] | None:
    """The numbers of the parts that an operand selects, as written; None if it selects none.

    count: how many there must be; None if that is free. limit: that they are below.
    """
    if not isinstance(operand, Selected) or not operand.parts:
        return None
    letter = next(letter for letter, size in _LETTERS.items() if size == bits)
    digits = [int(digit) for digit in operand.parts[1:]]
    if not re.match(letter, operand.parts) or (count or len(digits)) != len(digits) or max(digits) >= limit:
        most = "" if count is None else f"{count} of "
        raise ValueError(f".{operand.parts} must be .{letter} and {most}the digits 0 to {limit - 1}")
    return digits


def _limits(kind: str, bits: int) -> tuple[int, int]:
    """The least and the largest integer of a type's sign and so many bits."""
    return (0, (1 << bits) - 1) if kind[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)
