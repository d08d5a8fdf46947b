"""An entry ready to run, and the places of its registers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.emulator.program.blocks import Block
from tilewright.emulator.program.dataflow import RegisterSet, definitions, fragments_of_a, is_wgmma, uniform_registers
from tilewright.emulator.program.traits import Traits, traits_of
from tilewright.emulator.ptx.syntax import Entry, Register


@dataclass(slots=True)
class Program:
    """An entry ready to run.

    functions: one per block.
    rows: the row in the register file of each register that lives across blocks, within its bank of equal width.
    slots: the place in m.uniforms of each launch-uniform register.
    traced: the instructions whose registers observers are told of.
    watched: the registers that wgmma accesses while threads go on, numbered: first accumulators, by their rows, then
    other fragments of A.
    """

    entry: Entry
    blocks: list[Block]
    functions: list[Callable[[Any, Any], Any]] = field(default_factory=list)
    rows: dict[Register, int] = field(default_factory=dict)
    bank_sizes: dict[int, int] = field(default_factory=dict)  # bytes of a register (1 for predicates) -> rows
    slots: dict[Register, int] = field(default_factory=dict)
    accumulators: set[Register] = field(default_factory=set)  # changed by wgmma in the register file
    watched: dict[Register, int] = field(default_factory=dict)
    traced: frozenset[int] = frozenset()
    suspects: dict[Register, int] = field(default_factory=dict)  # numbered registers that may be used without a value
    suspect_dtypes: list[np.dtype[Any]] = field(default_factory=list)  # of the bits of the suspects, by number
    without_value: int = 0  # the first suspects, which lack a value at the start
    source: str = ""
    traits: Traits = field(init=False)

    def __post_init__(self) -> None:
        self.traits = traits_of(self.entry.instructions)

    def initial_uniforms(self) -> list[Any]:
        """The initial uniforms, before they have values: NumPy scalars, by slot."""
        return [np.dtype(bank_dtype(register)).type(0) for register in self.slots]


def place_registers(program: Program) -> None:
    """Give each register that lives across blocks a row, accumulators of wgmma consecutive ones."""
    uniform = uniform_registers(program.entry)
    sizes = dict.fromkeys((1, 2, 4, 8), 0)

    def place(register: Register) -> None:
        if register in uniform:
            program.slots.setdefault(register, len(program.slots))
        elif register not in program.rows:
            width = bytes_of(register)
            program.rows[register] = sizes[width]
            sizes[width] += 1

    products = list(filter(is_wgmma, program.entry.instructions))
    for register in (register for product in products for register in definitions(product)):
        place(register)
        program.accumulators.add(register)
        program.watched[register] = program.rows[register]
    for register in (register for product in products for register in fragments_of_a(product)):
        program.watched.setdefault(register, len(program.watched))
    placed = RegisterSet({})
    for block in program.blocks:
        live = block.live_in | block.live_out
        for register in sorted(live - placed, key=lambda register: register.name):
            place(register)
        placed = live | placed
    program.bank_sizes = sizes


def bytes_of(register: Register) -> int:
    """Bytes of a register in the register file; predicates have one."""
    return max(register.bits // 8, 1)


def bank_dtype(register: Register) -> str:
    """The dtype in which the register file holds a register."""
    return "b1" if register.bits == 1 else f"u{register.bits // 8}"
