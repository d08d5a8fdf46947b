"""Registers that may have no value, and how a block tells the checks which lanes have none.

What has no value may be copied, computed with, and offered to a shuffle. It is used, and reported, where it reaches
memory, an address, a guard, a tensor core or anything else than registers.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.emulator.blocks import PURE, Block, definitions, registers_of, sources
from tilewright.emulator.ptx import Instruction, Operand, Register

if TYPE_CHECKING:
    from tilewright.emulator.codegen import BlockWriter

_PASSES_ON = PURE | {
    "addc", "copysign", "cos", "dp2a", "dp4a", "ex2", "fns", "lg2", "mad24", "madc", "mul24", "rcp", "rsqrt", "sad",
    "sin", "sqrt", "subc", "tanh", "testp",
}  # fmt: skip


def suspect_registers(blocks: list[Block]) -> tuple[list[Register], int]:
    """Registers that may be used without a value, and how many of them have none at first; these come first.

    They are those that some path from the start may use before any instruction gives them a value, those that shuffles
    write, and what is computed from either.
    """
    suspects = dict.fromkeys(sorted(blocks[0].live_in, key=lambda register: register.name) if blocks else ())
    without_value, found = len(suspects), -1
    instructions = [instruction for block in blocks for instruction in block.instructions]
    while len(suspects) > found:
        found = len(suspects)
        for instruction in instructions:
            if instruction.opcode == "shfl" or (
                instruction.opcode in _PASSES_ON and any(register in suspects for register in sources(instruction))
            ):
                suspects.update(dict.fromkeys(definitions(instruction)))
    return list(suspects), without_value


class SuspectWriter:
    """Writes the statements about suspects for a block writer; D[number] says whether some lane has no value."""

    def __init__(self, writer: "BlockWriter") -> None:
        self._writer, self._numbers = writer, writer.program.suspects
        self._required: set[Register] = set()  # that have a value, or else are reported
        self._passes_on = False  # whether the current instruction carries on what has no value

    def enter(self, instruction: Instruction) -> None:
        """An instruction comes; one that carries on what has no value says so before it is executed."""
        self._passes_on = instruction.opcode in _PASSES_ON
        if self._passes_on:
            self._pass_on(instruction)

    def leave(self, instruction: Instruction) -> None:
        """The instruction is written."""
        self._passes_on = False
        self._required.difference_update(definitions(instruction))

    def require(self, register: Register) -> None:
        """A register is read: it needs a value where the guard holds, unless the instruction carries it on."""
        if register in self._numbers and not self._passes_on and register not in self._required:
            self.require_where(register, self._writer.active)
            if not self._writer.active:
                self._required.add(register)

    def require_where(self, register: Register, active: str | None) -> None:
        """A register needs a value in some lanes."""
        if (number := self._numbers.get(register)) is not None:
            self._writer.emit(f"if D[{number}]: m.require_register({self._writer.site}, g, {number}, {active})")

    def give(self, register: Register) -> None:
        """A register has got a value where the guard holds, unless `enter` has said what it got."""
        if register in self._numbers and not self._passes_on:
            number = self._numbers[register]
            self._writer.emit(f"if D[{number}]: m.leave_registers(g, ({number},), (), False, {self._writer.active})")

    def read_if_taken(self, operand: Operand, dtype: str) -> tuple[str, str]:
        """A value that other lanes may take or not, and an expression for the lanes that have none, None for all."""
        self._passes_on = True
        value = self._writer.read(operand, dtype)
        self._passes_on = False
        number = self._numbers.get(operand) if isinstance(operand, Register) else None
        return value, "None" if number is None else f"m.unset(g, {number}) if D[{number}] else None"

    def lose(self, destination: Operand, unset: str) -> None:
        """After `assign`: a register has got no value in some lanes after all, if not None."""
        if isinstance(destination, Register):
            number = self._numbers[destination]
            self._writer.emit(f"if {unset} is not None: m.lose_register({self._writer.site}, g, {number}, {unset})")

    def _pass_on(self, instruction: Instruction) -> None:
        targets = [self._numbers[register] for register in definitions(instruction) if register in self._numbers]
        if not targets:
            return
        origins = sorted({self._numbers[register] for register in sources(instruction) if register in self._numbers})
        doubts = " or ".join(f"D[{number}]" for number in sorted({*targets, *origins}))
        unset, active = self._unset_by(instruction), self._writer.active
        self._writer.emit(f"if {doubts}: m.leave_registers(g, {tuple(targets)}, {tuple(origins)}, {unset}, {active})")

    def _unset_by(self, instruction: Instruction) -> str:
        """An expression for the lanes in which an instruction has no result."""
        read, operands = self._writer.read, instruction.operands[1:]
        if instruction.opcode == "selp":
            of_first, of_second, of_choice = map(self._unset, operands)
            return f"np.where({read(operands[2], 'b1')}, {of_first}, {of_second}) | {of_choice}"
        if instruction.opcode in ("and", "or") and instruction.modifiers == ("pred",):
            # One operand decides alone: of `and` if it is false, of `or` if it is true.
            no = "" if instruction.opcode == "and" else "~"
            (first, of_first), (second, of_second) = ((read(o, "b1"), self._unset(o)) for o in operands)
            return f"({of_first} | {of_second}) & ({of_first} | {no}{first}) & ({of_second} | {no}{second})"
        return self._any_unset(sources(instruction))

    def _unset(self, operand: Operand) -> str:
        return self._any_unset(registers_of(operand))

    def _any_unset(self, registers: Iterable[Register]) -> str:
        """An expression for the lanes in which one of several registers has no value."""
        numbers = dict.fromkeys(self._numbers[register] for register in registers if register in self._numbers)
        return " | ".join(f"m.unset(g, {number})" for number in numbers) or "False"
