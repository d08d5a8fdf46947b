"""Expressions for the bits of a result that have no value, by instruction (see semantics/unset_bits.py)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.dataflow import registers_of, sources
from tilewright.emulator.program.program import bank_dtype
from tilewright.emulator.ptx.syntax import Instruction, Operand, Register, Vector

TABLES = {"and": 0xC0, "or": 0xFC, "xor": 0x3C}
"""Bitwise functions of two inputs, as lop3 takes them."""
_MOVES = {
    "shl": ("shift_left", 1), "shr": ("shift_right", 1), "bfe": ("extract_field", 1), "brev": ("reverse_bits", 1),
    "bfi": ("insert_field", 2), "prmt": ("permute", 2), "shf": ("funnel", 2),
}  # fmt: skip
"""Instructions that only move bits: the function, and how many sources they move; the others say where to."""
_SUMS = {"add", "sub", "mul", "mad"}
_OF_HALVES = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs", "ex2", "tanh"}
_PAIRS = {"f16x2", "bf16x2", "u16x2", "s16x2"}

Exact: TypeAlias = tuple[str, str] | None
"""An expression and its type."""


@dataclass(frozen=True, slots=True)
class UnsetBits:
    """The writer of these expressions.

    read: a variable with the value of an operand, as a dtype. mask: an expression for the bits of a register without a
    value, as the register file holds it; None if it always has one. constant: a constant of a dtype.
    """

    read: Callable[[Operand, str], str]
    mask: Callable[[Register], str | None]
    constant: Callable[[int, str], str]

    def of(self, instruction: Instruction, target: Register) -> str:
        """The bits of a register that an instruction leaves without a value, as the register file holds it."""
        dtype = bank_dtype(target)
        exact = self._exact(instruction, target)
        if exact is None:
            return f"whole({self.anywhere(sources(instruction))}, {dtype})"
        expression, kind = exact
        return expression if kind == dtype else f"({expression}).astype({dtype})"

    def anywhere(self, operands: Iterable[Operand]) -> str:
        """The lanes in which a bit of any of the operands has no value."""
        registers = {register: None for operand in operands for register in registers_of(operand)}
        return f"anywhere({', '.join(mask for register in registers if (mask := self.mask(register)))})"

    def _of(self, operand: Operand, dtype: str) -> str:
        """The bits of an operand without a value, as a dtype."""
        mask = self.mask(operand) if isinstance(operand, Register) else None
        if mask is None or not isinstance(operand, Register):
            return self.constant(0, dtype)
        if operand.bits == 1 or bank_dtype(operand) == dtype:
            return mask
        unsigned = mask if operand.bits == 8 * int(dtype[1:]) else f"{mask}.astype(u{dtype[1:]})"
        return unsigned if dtype[0] == "u" else f"{unsigned}.view({dtype})"

    def _exact(self, i: Instruction, target: Register) -> Exact:
        """The bits, where those of the result need only some of the sources'; None where each may need all."""
        if i.opcode == "mov":
            return self._moved(i, target)
        if target != next(registers_of(i.operands[0]), None):
            return None  # the second of two destinations, or a carry
        if i.opcode == "cvt":
            return self._converted(i)
        kind, operands = i.modifiers[-1], i.operands[1:]
        if kind in _PAIRS:
            halves = ", ".join(self._of(operand, "u4") for operand in operands)
            return (f"of_halves({halves})", "u4") if i.opcode in _OF_HALVES else None
        dtype = DTYPES.get(kind, "u4")  # prmt may end in its mode
        if i.opcode == "not":
            return self._of(operands[0], dtype), dtype
        if i.opcode in TABLES:
            return self._logic(operands, self.constant(TABLES[i.opcode], "u4"), dtype)
        if i.opcode == "lop3":
            return self._logic(operands[:3], self.read(operands[3], "u4"), dtype)
        if i.opcode in _MOVES:
            return self._where_moved(i, dtype)
        if i.opcode in _SUMS and kind[0] in "us" and {"sat", "cc", "hi"}.isdisjoint(i.modifiers):
            wide = f"u{2 * int(dtype[1:])}" if "wide" in i.modifiers else "u" + dtype[1:]
            types = ["u" + dtype[1:]] * 2 + [wide]
            masks = [
                f"{self._of(operand, each)}.astype({wide})" for operand, each in zip(operands, types, strict=False)
            ]
            return f"upward({', '.join(masks)})", wide
        return self._chosen(i) if i.opcode in ("selp", "slct") else None

    def _logic(self, inputs: Sequence[Operand], table: str, dtype: str) -> Exact:
        values, masks = (", ".join(each(operand, dtype) for operand in inputs) for each in (self.read, self._of))
        return f"of_logic({table}, ({values}), ({masks}))", dtype

    def _moved(self, i: Instruction, target: Register) -> Exact:
        destination, source = i.operands
        kind = i.modifiers[-1]
        if isinstance(destination, Vector) and isinstance(source, Vector):
            return None
        whole = "u" + DTYPES[kind][1:]
        if isinstance(destination, Vector):
            part = f"u{int(whole[1:]) // len(destination.elements)}"
            shift = 8 * int(part[1:]) * destination.elements.index(target)
            return f"({self._of(source, whole)} >> {self.constant(shift, whole)}).astype({part})", part
        if isinstance(source, Vector):
            part = f"u{int(whole[1:]) // len(source.elements)}"
            shifts = [self.constant(8 * int(part[1:]) * index, whole) for index in range(len(source.elements))]
            masks = [f"({self._of(each, part)}.astype({whole})" for each in source.elements]
            return " | ".join(f"{mask} << {shift})" for mask, shift in zip(masks, shifts, strict=True)), whole
        dtype = "b1" if kind == "pred" else whole
        return self._of(source, dtype), dtype

    def _converted(self, i: Instruction) -> Exact:
        """Conversions between integers: the extension of a number has its sign, with a value or without."""
        to, source = (DTYPES.get(kind, "") if kind[0] in "us" else "" for kind in i.modifiers[-2:])
        if not to or not source or "sat" in i.modifiers or "pack" in i.modifiers or to.endswith("x2"):
            return None
        return f"{self._of(i.operands[1], source)}.astype({to})", to

    def _where_moved(self, i: Instruction, dtype: str) -> Exact:
        """The bits where the instruction moves them; all of them, if something that says where has no value."""
        function, moved = _MOVES[i.opcode]
        values, controls = i.operands[1 : 1 + moved], i.operands[1 + moved :]
        arguments = [*(self._of(each, dtype) for each in values), *(self.read(each, "u4") for each in controls)]
        if i.opcode == "shf":
            function += "_left" if i.modifiers[0] == "l" else "_right"
            arguments.append(str("wrap" in i.modifiers))
        elif i.opcode == "prmt":
            arguments.append(repr(i.modifiers[1] if len(i.modifiers) > 1 else ""))
        unsigned = "u" + dtype[1:]
        expression = f"np.asarray({function}({', '.join(arguments)})).view({unsigned})"
        return f"{expression} | whole({self.anywhere(controls)}, {unsigned})", unsigned

    def _chosen(self, i: Instruction) -> Exact:
        first, second, choice = i.operands[1:]
        selects = i.opcode == "selp"
        dtype = "u" + DTYPES[i.modifiers[-1 if selects else -2]][1:]
        value = self.read(choice, "b1" if selects else DTYPES[i.modifiers[-1]])
        value = f"flush({value})" if "ftz" in i.modifiers else value
        masks = f"{self._of(first, dtype)}, {self._of(second, dtype)}"
        unknown = f"whole({self.anywhere([choice])}, {dtype})"
        return f"np.where({value if selects else f'{value} >= 0'}, {masks}) | {unknown}", dtype
