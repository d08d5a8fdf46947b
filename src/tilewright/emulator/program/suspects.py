"""Registers that may have no value, and how a block records the lanes and the bits that lack one.

A register has no value before an instruction gives it one, nor where a shuffle or a load of shared memory found none.
It may be copied, computed with, and offered to a shuffle. It counts as used, and is reported, where it reaches memory,
an address, a guard, a tensor core or anything other than registers. Bits that get lost on the way are not used.
"""

from collections.abc import Callable, Iterable

from tilewright.emulator.program.blocks import Block
from tilewright.emulator.program.code import Code
from tilewright.emulator.program.dataflow import PURE, definitions, registers_of, sources
from tilewright.emulator.program.unset import TABLES, UnsetBits
from tilewright.emulator.ptx.syntax import Instruction, Operand, Register

_PASSES_ON = PURE | {
    "addc", "copysign", "cos", "dp2a", "dp4a", "ex2", "fns", "lg2", "mad24", "madc", "mul24", "rcp", "rsqrt", "sad",
    "sin", "sqrt", "subc", "tanh", "testp",
    *(f"v{name}{parts}" for name in ("add", "sub", "avrg", "absdiff", "min", "max", "set") for parts in ("", "2", "4")),
    "vmad", "vshl", "vshr",
}  # fmt: skip


def suspect_registers(blocks: list[Block]) -> tuple[list[Register], int]:
    """Registers that may be used without a value, and the number of those without one at first; these come first.

    They are those that some path from the start may use before any instruction gives them a value, those that shuffles
    and loads of shared memory write, and those that are computed from any of these.
    """
    suspects = dict.fromkeys(sorted(blocks[0].live_in, key=lambda register: register.name) if blocks else ())
    without_value = len(suspects)
    computed: dict[Register, list[Instruction]] = {}
    for instruction in (instruction for block in blocks for instruction in block.instructions):
        if instruction.opcode == "shfl" or _reads_shared(instruction):
            suspects.update(dict.fromkeys(definitions(instruction)))
        elif instruction.opcode in _PASSES_ON:
            for register in sources(instruction):
                computed.setdefault(register, []).append(instruction)
    left = list(suspects)
    while left:
        for instruction in computed.pop(left.pop(), ()):
            new = [register for register in definitions(instruction) if register not in suspects]
            suspects.update(dict.fromkeys(new))
            left += new
    return list(suspects), without_value


def _reads_shared(instruction: Instruction) -> bool:
    """Whether this is a load that may find shared memory without a value."""
    if instruction.opcode == "ldmatrix":
        return True
    if instruction.opcode != "ld" and (instruction.opcode, instruction.action) != ("wmma", "load"):
        return False
    named = {modifier.split("::")[0] for modifier in instruction.modifiers}
    return "shared" in named or named.isdisjoint({"global", "local", "param", "const"})


class SuspectWriter:
    """The writer of statements about suspects; D[number] says whether some lane has no value."""

    def __init__(self, code: Code, numbers: dict[Register, int], read: Callable[[Operand, str], str]) -> None:
        self._code, self._numbers, self._read = code, numbers, read
        self._bits = UnsetBits(read, self._mask, code.constant)
        self._required: dict[Register, int] = {}  # the low bits known to have a value, or already reported
        self._passes_on = False  # whether the current instruction passes on missing values

    def enter(self, instruction: Instruction) -> None:
        """Begin an instruction; one that passes on missing values says so before it is executed, or in `join`."""
        self._passes_on = instruction.opcode in _PASSES_ON
        targets = definitions(instruction)
        if self._passes_on and not _joins(instruction):
            for target in targets:
                if target in self._numbers:
                    self._pass_on(instruction, target, self._bits.of(instruction, target))

    def leave(self, instruction: Instruction) -> None:
        """End the instruction, which is written now."""
        self._passes_on = False
        for register in definitions(instruction):
            self._required.pop(register, None)

    def require(self, register: Register, bits: int) -> None:
        """Read low bits of a register: they need a value where the guard holds, or their lack is passed on."""
        bits = min(bits, register.bits)
        if register in self._numbers and not self._passes_on and self._required.get(register, 0) < bits:
            number, active = self._numbers[register], self._code.active
            self._code.emit(f"if D[{number}]: m.poison.require({self._code.site}, g, {number}, {bits}, {active})")
            if not active:
                self._required[register] = bits

    def give(self, register: Register) -> None:
        """Record that a register has a value where the guard holds, unless `enter` has said what it got."""
        if register in self._numbers and not self._passes_on:
            number, active = self._numbers[register], self._code.active
            self._code.emit(f"if D[{number}]: m.poison.leave(g, {number}, (), None, {active})")

    def load(self, registers: Iterable[Operand]) -> None:
        """Record, after `assign`, which registers of a load come from memory without a value, in memory's order."""
        numbers = tuple(self._numbers.get(each) if isinstance(each, Register) else None for each in registers)
        if any(number is not None for number in numbers):
            arguments = f"{self._code.site}, g, {numbers}, {self._code.active}"
            self._code.emit(f"if m.access.missing is not None: m.poison.load({arguments})")

    def accumulate(self, registers: Iterable[Register], keep: str) -> None:
        """Record values that are made from old ones where `keep` holds; the old ones are needed there."""
        if numbers := tuple(self._numbers[register] for register in registers if register in self._numbers):
            code = self._code
            chosen = code.constant(numbers)
            code.emit(f"m.poison.accumulate({code.site}, g, {chosen}, {keep}, {code.active})")

    def read_if_taken(self, operand: Operand, dtype: str) -> tuple[str, str]:
        """A value that other lanes may or may not take, and an expression for its bits without one (None for none)."""
        self._passes_on = True
        value = self._read(operand, dtype)
        self._passes_on = False
        number = self._numbers.get(operand) if isinstance(operand, Register) else None
        return value, "None" if number is None else f"m.poison.unset_in(g, {number}) if D[{number}] else None"

    def lose(self, destination: Operand, unset: str) -> None:
        """Record, after `assign`, the bits of a register that have no value: those of an expression, if not None."""
        if isinstance(destination, Register):
            arguments = f"{self._code.site}, g, {self._numbers[destination]}, {unset}"
            self._code.emit(f"if {unset} is not None: m.poison.lose({arguments})")

    def join(self, instruction: Instruction, comparisons: Iterable[tuple[Operand, str]]) -> None:
        """Prepare setp, before its destinations get the values of these comparisons, maybe joined with a predicate."""
        if not _joins(instruction):
            return
        *compared, predicate = instruction.operands[1:]
        table = self._code.constant(TABLES["and" if "and" in instruction.modifiers else "or"], "u4")
        masks = self._bits.anywhere(compared), self._bits.anywhere([predicate])
        given = self._read(predicate, "b1")
        # A destination that is the predicate too comes last: before, the expression for the other asks for it.
        for target, value in sorted(comparisons, key=lambda item: item[0] in [*registers_of(predicate)]):
            if isinstance(target, Register) and target in self._numbers:
                unset = f"of_logic({table}, ({value}, {given}), ({', '.join(masks)}))"
                self._pass_on(instruction, target, unset)

    def _pass_on(self, instruction: Instruction, target: Register, unset: str) -> None:
        """Record the bits of a register that an instruction leaves without a value."""
        origins = sorted({self._numbers[register] for register in sources(instruction) if register in self._numbers})
        doubts = " or ".join(f"D[{number}]" for number in sorted({self._numbers[target], *origins}))
        arguments = f"g, {self._numbers[target]}, {tuple(origins)}, {unset}, {self._code.active}"
        self._code.emit(f"if {doubts}: m.poison.leave({arguments})")

    def _mask(self, register: Register) -> str | None:
        """An expression for the bits of a register without a value; None if it always has one."""
        number = self._numbers.get(register)
        return None if number is None else f"m.poison.unset_in(g, {number})"


def _joins(instruction: Instruction) -> bool:
    """Whether this joins a comparison with a predicate that may decide alone."""
    return instruction.opcode == "setp" and not {"and", "or"}.isdisjoint(instruction.modifiers)
