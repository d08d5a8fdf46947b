"""Data flow: the registers that instructions read and write, and those that hold one value throughout a launch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress

from tilewright.emulator.ptx.specials import UNIFORM_SPECIALS
from tilewright.emulator.ptx.syntax import (
    CARRY,
    Address,
    Entry,
    Float,
    Instruction,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    Special,
    Symbol,
    Vector,
)

_NO_DESTINATION = {
    "bar", "barrier", "bra", "brx", "call", "fence", "membar", "nanosleep", "setmaxnreg", "griddepcontrol", "pmevent",
    "brkpt", "stackrestore", "vprintf",
}  # fmt: skip
PURE = {
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "cvt", "cvta", "div", "fma", "lop3",
    "mad", "max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rem", "selp", "set", "setp", "shf", "shl",
    "shr", "slct", "sub", "szext", "xor",
}  # fmt: skip

NOTICED = {
    "ld",
    "ldu",
    "st",
    "atom",
    "red",
    "cp",
    "mbarrier",
    "tensormap",
    "fence",
    "membar",
    "griddepcontrol",
    "setmaxnreg",
    "multimem",
    "tex",
    "tld4",
    "suld",
    "sust",
    "sured",
}
"""Instructions that access memory or tell other threads something, and may have a guard that differs in a warp."""


def registers_of(operand: Operand) -> Iterator[Register]:
    """All registers that an operand names."""
    match operand:
        case Register():
            yield operand
        case Vector(elements):
            for element in elements:
                yield from registers_of(element)
        case Address(base, _, coordinates):
            for part in (base, *coordinates):
                yield from registers_of(part)
        case Pair(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Negated(register):
            yield register
        case Selected(selected):
            yield from registers_of(selected)
        case _:
            pass


def has_destination(instruction: Instruction) -> bool:
    """Whether the first operand is written."""
    if instruction.opcode in _NO_DESTINATION:
        return "red" in instruction.modifiers
    if not instruction.operands or isinstance(instruction.operands[0], Address | Integer):
        return False
    return instruction.opcode not in ("st", "red", "stmatrix", "prefetch", "cp")


def definitions(instruction: Instruction) -> list[Register]:
    """The registers that an instruction writes."""
    written = list(registers_of(instruction.operands[0])) if has_destination(instruction) else []
    return [*written, CARRY] if "cc" in instruction.modifiers else written


def is_wgmma(instruction: Instruction) -> bool:
    """Whether this multiplies (wgmma.mma_async): its destination is also a source."""
    return instruction.opcode == "wgmma" and instruction.action == "mma_async"


def fragments_of_a(instruction: Instruction) -> list[Register]:
    """The registers of a wgmma that hold fragments of A; empty if A is in shared memory."""
    return list(registers_of(a)) if isinstance(a := instruction.operands[1], Vector) else []


def sources(instruction: Instruction) -> Iterator[Register]:
    """The registers that an instruction computes with, without its guard."""
    for operand in instruction.operands[1 if has_destination(instruction) else 0 :]:
        yield from registers_of(operand)
    if instruction.opcode in ("addc", "madc", "subc"):
        yield CARRY


def uses(instruction: Instruction) -> Iterator[Register]:
    """The registers that an instruction reads; a predicated destination keeps its old value, so it counts as read."""
    yield from sources(instruction)
    if instruction.predicate is not None:
        yield from registers_of(instruction.predicate)
        yield from definitions(instruction)
    elif is_wgmma(instruction):
        yield from definitions(instruction)


@dataclass(frozen=True, slots=True)
class RegisterSet:
    """Some registers of an entry, one bit for each by its number: every block has two such sets.

    numbers: the numbers of the registers, in order from 0 on.
    """

    numbers: dict[Register, int]
    bits: int = 0

    def __iter__(self) -> Iterator[Register]:
        return compress(self.numbers, map(int, reversed(f"{self.bits:b}")))

    def __contains__(self, register: Register) -> bool:
        return bool(self.bits >> self.numbers[register] & 1)

    def __or__(self, other: "RegisterSet") -> "RegisterSet":
        return RegisterSet(self.numbers, self.bits | other.bits)

    def __sub__(self, other: "RegisterSet") -> "RegisterSet":
        return RegisterSet(self.numbers, self.bits & ~other.bits)


NO_REGISTERS = RegisterSet({})


def uniform_registers(entry: Entry) -> set[Register]:
    """The registers that hold one value throughout a launch: defined once, only from constants and parameters."""
    definition: dict[Register, Instruction | None] = {}
    for instruction in entry.instructions:
        for register in definitions(instruction):
            definition[register] = None if register in definition else instruction
    uniform: set[Register] = set()
    changed = True
    while changed:
        changed = False
        for register, only in definition.items():
            if only is None or register in uniform or only.predicate is not None:
                continue
            if _is_pure(only) and all(_is_uniform(item, uniform) for item in only.operands[1:]):
                uniform.add(register)
                changed = True
    return uniform


def _is_pure(instruction: Instruction) -> bool:
    return instruction.opcode in PURE or (
        instruction.opcode == "ld" and "param" in instruction.modifiers and "shared" not in instruction.modifiers
    )


def _is_uniform(operand: Operand, uniform: set[Register]) -> bool:
    match operand:
        case Integer() | Float():
            return True
        case Special(name):
            return name in UNIFORM_SPECIALS
        case Symbol(_, space):
            return space != "local"
        case Address(Symbol(_, "param"), _, _):
            return True
        case Vector(elements):
            return all(_is_uniform(element, uniform) for element in elements)
        case _:
            return all(register in uniform for register in registers_of(operand)) and not isinstance(operand, Address)
