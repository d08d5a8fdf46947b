"""PTX blocks as Python functions of NumPy statements over all lanes of a group.

A function block_N(m, g) runs block N for group g of machine m. That of a collective with a member mask is a generator:
it yields what the collective needs and is sent the result (meetings.py). Within a function, registers are Python
variables; those that a later block may read are written back to the register file at the end. Registers that are
uniform in the whole launch are NumPy scalars in m.uniforms. No PTX text enters the generated source: registers become
numbered variables, constants become named objects, and instructions go through the emitter tables.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.memory import SHARED_START
from tilewright.emulator.program.blocks import Block, ends_block
from tilewright.emulator.program.code import Code
from tilewright.emulator.program.dataflow import NOTICED, definitions, registers_of, sources
from tilewright.emulator.program.program import Program, bank_dtype, bytes_of
from tilewright.emulator.program.suspects import SuspectWriter
from tilewright.emulator.ptx.conformance import if_rightly_spelled
from tilewright.emulator.ptx.specials import LANE_SPECIALS, UNIFORM_SPECIALS
from tilewright.emulator.ptx.syntax import (
    Float,
    Instruction,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    described,
)
from tilewright.emulator.semantics import scalars

Emitter: TypeAlias = Callable[["BlockWriter", Instruction], None]
EMITTERS: dict[str, Emitter] = {}


def emits(*opcodes: str) -> Callable[[Emitter], Emitter]:
    """Register the emitter of some opcodes."""

    def register(emitter: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(opcodes, emitter))
        return emitter

    return register


@dataclass(slots=True)
class _Value:
    """The contents of a register at this point of a block: a variable, its type, and views of it in other types.

    borrowed: the register whose row in the register file the variable views, if any.
    """

    name: str
    dtype: str
    borrowed: Register | None = None
    views: dict[str, str] = field(default_factory=dict)


class BlockWriter(Code):
    """The writer of the function of one block; emitters use its methods."""

    def __init__(self, program: Program, block: Block, namespace: dict[str, Any]) -> None:
        super().__init__(f"block_{block.index}", namespace)
        self.program, self.block = program, block
        self._values: dict[Register, _Value] = {}
        self._written: set[Register] = set()
        self._touched: set[Register] = set()  # watched registers touched since the last wgmma
        self.suspects = SuspectWriter(self, program.suspects, self.read)

    def write(self) -> str:
        """The source of the function."""
        instruction, finish = None, "return None"
        for offset, instruction in enumerate(self.block.instructions):
            self.site = self.block.start + offset
            guard = instruction.predicate
            self.active = None
            if guard is not None:
                self.active = self._translate(instruction, lambda guard=guard: self.read(guard, "b1"))  # type: ignore[misc]
            if instruction.opcode in ("bra", "ret", "exit"):
                finish = f"return {self.stable(self.active)}" if self.active else finish
            elif ends_block(instruction):
                finish = self._finish(instruction)
            else:
                self._emit_instruction(instruction)
        self._write_back({register for register in self._written if register in self.block.live_out})
        self.emit(finish)
        return "\n".join(self.lines)

    def _emit_instruction(self, instruction: Instruction) -> None:
        emitter = EMITTERS.get(instruction.opcode)
        if emitter is None:
            raise UnsupportedInstruction(
                f"no emulation of {instruction}. {if_rightly_spelled([instruction.opcode], EMITTERS)}to add it, write "
                f"an emitter, @emits({instruction.opcode!r}), in a module of tilewright.emulator.program.emitters"
            )
        if self.active and instruction.opcode in NOTICED:
            self.emit(f"m.tell.guarded({self.site}, g, {self.active})")
        traced = self.site in self.program.traced
        read = self._values_of(sources(instruction)) if traced else ""
        self._translate(instruction, lambda: self.suspects.enter(instruction))
        self._translate(instruction, lambda: emitter(self, instruction))
        self.suspects.leave(instruction)
        if traced:
            written = self._values_of(definitions(instruction))
            self.emit(f"m.tell.traced({self.site}, g, {self.active}, {read}, {written})")

    def _values_of(self, registers: Iterable[Register]) -> str:
        """An expression for the values of registers by name, without those that wgmma or nothing in the block has."""
        known = self._values.keys() | self.program.rows.keys() | self.program.slots.keys()
        shown = [each for each in dict.fromkeys(registers) if each in known and each not in self.program.watched]
        names = self.constant(tuple(each.name for each in shown))
        return f"dict(zip({names}, [{', '.join(self._as(each, bank_dtype(each)) for each in shown)}]))"

    def _translate(self, instruction: Instruction, act: Callable[[], Any]) -> Any:
        """Call an emitter, whose ValueError means that it lacks a part of an instruction of a known form."""
        try:
            return act()
        except ValueError as error:
            raise UnsupportedInstruction(f"no emulation of {instruction}: {error}") from error

    def _finish(self, instruction: Instruction) -> str:
        """The last statement of a block that traps or makes threads wait."""
        if instruction.opcode in ("trap", "call"):
            service = "trap" if instruction.opcode == "trap" else "call_elsewhere"
            return f"m.{service}({self.site}, g, {self.stable(self.active)})"
        self._emit_instruction(instruction)
        return self.lines.pop().strip()  # the emitter's last line is the call; write-backs go before it

    # For emitters -------------------------------------------------------------------------------------------------

    def read(self, operand: Operand, dtype: str) -> str:
        """A variable or constant with the value of an operand as dtype (kind and bytes, see DTYPES)."""
        match operand:
            case Register():
                return self._read_register(operand, dtype)
            case Negated(register):
                return self.variable(f"~{self._read_register(register, 'b1')}")
            case Integer(value):
                return self.constant(value, dtype)
            case Float(value):
                if dtype[1:] not in ("4", "8"):
                    raise ValueError(f"the floating-point constant {value} in {int(dtype[1:]) * 8} bits")
                scalar = np.float32(value) if dtype[1:] == "4" else np.float64(value)
                return self.constant(scalar.view(getattr(scalars, dtype)))
            case Special(name) if name in LANE_SPECIALS:
                return self.variable(f"m.specials.of_lanes({name!r}, g).astype({dtype})")
            case Special(name) if name in UNIFORM_SPECIALS:
                return self.variable(f"m.specials.uniform[{name!r}].astype({dtype})")
            case Special(name) if name.startswith("envreg"):  # cooperative_groups::this_grid reads these
                raise ValueError(f"%{name} belongs to cooperative launches, which are not emulated, nor is grid.sync()")
            case Special(name):
                raise ValueError(f"%{name} is neither declared nor an emulated special register")
            case Symbol():
                return self._address_of(operand, dtype)
        raise ValueError(f"an operand is {described(operand)}, and a value is needed")

    def exchange(self, collective: str, instruction: Instruction, *operands: str) -> str:
        """A variable with a machine collective's result for the lanes; its member mask is the last operand."""
        arguments = ", ".join([collective, self.read(instruction.operands[-1], "u4"), *operands])
        return self.variable(f"yield {self.site}, {arguments}")

    def stable(self, name: str | None) -> str | None:
        """A variable that survives the write-backs: a copy if it is a view of the register file."""
        if name is None:
            return None
        borrowed = any(
            value.borrowed and name in (value.name, *value.views.values()) for value in self._values.values()
        )
        return self.variable(f"{name}.copy()") if borrowed else name

    def assign(self, destination: Operand, expression: str, dtype: str) -> None:
        """Give a register a value of dtype, extended to the register's width, where the guard holds."""
        if isinstance(destination, Sink):
            return
        if not isinstance(destination, Register):
            raise ValueError(f"the destination is {described(destination)}, and a register is needed")
        if dtype != "b1" and destination.bits > 8 * int(dtype[1:]):
            wide = f"{dtype[0]}{destination.bits // 8}"
            expression, dtype = f"({expression}).astype({wide})", wide
        if bytes_of(destination) != int(dtype[1:]):
            raise ValueError(f"a {destination.bits}-bit destination of a value of {dtype}")
        if self.active:
            kept = self._as(destination, dtype)
            expression = f"np.where({self.active}, {expression}, {kept})"
        self._touch(destination)
        self._values[destination] = _Value(self.variable(expression), dtype)
        self._written.add(destination)
        self.suspects.give(destination)

    def place_of(self, destination: Operand) -> str | None:
        """The lanes of a register in the register file, for the machine to set; None if no instruction reads it."""
        self.forget(registers_of(destination))
        if (row := self.row_of(destination)) is not None:
            assert isinstance(destination, Register)
            self._touch(destination)
            self.suspects.give(destination)
        return row

    def row_of(self, destination: Operand) -> str | None:
        """The lanes of a register in the register file, as they are after the block's values have been written back."""
        if not isinstance(destination, Register) or destination not in self.program.rows:
            return None
        return f"B{bytes_of(destination)}[{self.program.rows[destination]}]"

    def _touch(self, register: Register) -> None:
        """Tell observers that a watched register is accessed otherwise than by wgmma, once until the next wgmma."""
        if register in self.program.watched and register not in self._touched:
            self.emit(f"m.tell.touched({self.site}, {self.active_group}, {self.program.watched[register]})")
            if not self.active:
                self._touched.add(register)

    def touch_again(self) -> None:
        """After wgmma.fence, accesses of watched registers count anew."""
        self._touched.clear()

    def leave_to_wgmma(self, registers: Iterable[Register]) -> None:
        """Leave these registers to wgmma itself until `rows_in_place`."""
        self._touched.update(registers)

    def alias(self, destination: Register, source: Register) -> None:
        """Let a register hold the value of another of the same width."""
        self._touch(source)
        self._touch(destination)
        self._values[destination] = self._current(source)
        self._written.add(destination)

    def accumulate(self, operands: Iterable[Operand], keep: str) -> None:
        """Tell observers that registers are given values, made from those they had where `keep` holds."""
        self.suspects.accumulate([operand for operand in operands if isinstance(operand, Register)], keep)

    def rows_in_place(self, operands: Iterable[Operand]) -> str:
        """A constant that selects the rows of registers that the next statement changes in the register file.

        Their values are written back now and read again after it.
        """
        registers = [operand for operand in operands if isinstance(operand, Register)]
        self._write_back({register for register in registers if register in self._written})
        self.forget(registers)
        rows = [self.program.rows[register] for register in registers]
        consecutive = rows == list(range(rows[0], rows[0] + len(rows)))
        return self.constant(slice(rows[0], rows[-1] + 1) if consecutive else tuple(rows))

    def forget(self, registers: Iterable[Register]) -> None:
        """Read these from the register file when they are needed next; other variables keep their values."""
        forgotten = set(registers)
        self._touched.clear()
        for register, value in self._values.items():
            if value.borrowed in forgotten and register not in forgotten:
                self._values[register] = _Value(self.variable(f"{value.name}.copy()"), value.dtype)
        for register in forgotten:
            self._values.pop(register, None)
            self._written.discard(register)

    # Registers ----------------------------------------------------------------------------------------------------

    def _read_register(self, register: Register, dtype: str) -> str:
        self.suspects.require(register, 1 if dtype == "b1" else 8 * int(dtype[1:]))
        return self._as(register, dtype)

    def _as(self, register: Register, dtype: str) -> str:
        """A variable with a register's contents as dtype."""
        self._touch(register)
        value = self._current(register)
        if value.dtype == dtype:
            return value.name
        if dtype not in value.views:
            expression = value.name
            if bytes_of(register) == int(dtype[1:]) and "b1" not in (dtype, value.dtype):
                expression += f".view({dtype})"
            else:
                if "b1" in (dtype, value.dtype):
                    raise ValueError(f"{register.name} as {dtype}")
                unsigned = "u" + value.dtype[1:]
                view = f".view({unsigned})" if value.dtype != unsigned else ""
                expression += f"{view}.astype(u{dtype[1:]})" + (f".view({dtype})" if dtype[0] != "u" else "")
            value.views[dtype] = self.variable(expression)
        return value.views[dtype]

    def _current(self, register: Register) -> _Value:
        """The contents of a register, loaded from the register file unless this block already holds them."""
        if register not in self._values:
            self._values[register] = self._load(register)
        return self._values[register]

    def _load(self, register: Register) -> _Value:
        dtype = bank_dtype(register)
        if register in self.program.slots:
            return _Value(self.variable(f"U[{self.program.slots[register]}]"), dtype)
        row = self.program.rows[register]
        return _Value(self.variable(f"B{bytes_of(register)}[{row}, lanes]"), dtype, borrowed=register)

    def _write_back(self, registers: set[Register]) -> None:
        """Store registers in the register file; a view of a row that is itself stored is copied first."""
        ordered = sorted(registers, key=lambda register: self._values[register].name)
        names = []
        for register in ordered:
            value = self._values[register]
            name = value.name
            if value.borrowed is not None and value.borrowed is not register and value.borrowed in registers:
                name = self.variable(f"{name}.copy()")
            dtype = bank_dtype(register)
            names.append(name if value.dtype == dtype else f"{name}.view({dtype})")
        for register, name in zip(ordered, names, strict=True):
            if register in self.program.slots:
                self.emit(f"U[{self.program.slots[register]}] = {name}")
            else:
                self.emit(f"B{bytes_of(register)}[{self.program.rows[register]}, lanes] = {name}")
            self._written.discard(register)

    def _address_of(self, symbol: Symbol, dtype: str) -> str:
        entry = self.program.entry
        match symbol.space:
            case "shared":
                return self.constant(SHARED_START + entry.shared[symbol.name].offset + symbol.offset, dtype)
            case "local":
                return self.constant(entry.local[symbol.name].offset + symbol.offset, dtype)
            case "param":
                offset = next(p.offset for p in entry.parameters if p.name == symbol.name)
                return self.constant(offset + symbol.offset, dtype)
            case "global":
                address = f"m.variable_address({self.constant(symbol.name)}).astype({dtype})"
                return self.variable(f"{address} + {self.constant(symbol.offset, dtype)}" if symbol.offset else address)
            case "function":
                raise ValueError(
                    f"{symbol.name} is a function, and addresses of functions are not emulated, nor calls through them"
                )
        raise ValueError(f"the address of {symbol.name}")


def pair_of(operand: Operand) -> tuple[Operand, Operand]:
    """The two destinations d|p; the second is a sink if only one is given."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())
