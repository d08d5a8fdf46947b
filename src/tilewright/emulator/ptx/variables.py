"""The places of an entry's variables in shared and local memory."""

import re
from collections.abc import Iterator
from dataclasses import replace

from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.ptx.syntax import Address, Entry, Instruction, Module, Operand, Symbol, Variable, Vector
from tilewright.rounding import round_up

STACK_BYTES = 1024
"""The bytes that a thread may allocate while it runs: the default of cudaLimitStackSize."""


def place_variables(module: Module, entry: Entry) -> None:
    """Give shared and local variables their offsets, and list the others; dynamic shared memory comes last.

    Raises UnsupportedInstruction if the entry names a variable that is not emulated.
    """
    symbols = set(_symbols(entry.instructions))
    entry.variables = tuple(sorted({symbol.name for symbol in symbols if symbol.space == "global"}))
    for name in entry.variables:
        if refusal := module.variables[name].refusal:
            raise UnsupportedInstruction(refusal)
    used = {base.name for base in symbols if base.space == "shared"}
    entry.shared.update({name: module.shared[name] for name in used if name in module.shared})
    entry.shared_bytes = _place(entry.shared)
    entry.stack_start = round_up(_place(entry.local), 16)  # threads lie next to each other: keep vectors aligned
    entry.local_bytes = entry.stack_start + (STACK_BYTES if entry.allocates else 0)
    dynamic = [module.dynamic_shared[name] for name in used if name in module.dynamic_shared]
    align = max([variable.align for variable in dynamic], default=16)
    entry.dynamic_offset = round_up(entry.shared_bytes, align)
    for variable in dynamic:
        entry.shared[variable.name] = replace(variable, size=0, offset=entry.dynamic_offset)


def variable_at(entry: Entry, offset: int) -> str:
    """The shared variable at an offset of an entry's shared memory, such as "tile + 64"; empty if there is none."""
    before = [variable for variable in entry.shared.values() if variable.offset <= offset]
    variable = max(before, key=lambda variable: variable.offset, default=None)
    if variable is None or 0 < variable.size <= offset - variable.offset:  # dynamic memory has no size
        return ""
    within = offset - variable.offset
    return _unmangled(variable.name) + (f" + {within}" if within else "")


def _unmangled(name: str) -> str:
    """The last part of a mangled C++ name; other names unchanged."""
    lengths = re.finditer(r"(?<!\d)\d{1,6}(?!\d)", name if name.startswith("_Z") else "")
    starts = [match.end() for match in lengths if int(match[0]) == len(name) - match.end()]
    return name[starts[-1] :] if starts else name


def _place(variables: dict[str, Variable]) -> int:
    end = 0
    for variable in sorted(variables.values(), key=lambda variable: (-variable.align, variable.name)):
        offset = round_up(end, variable.align)
        end = offset + variable.size
        variables[variable.name] = replace(variable, offset=offset)
    return end


def _symbols(instructions: list[Instruction]) -> Iterator[Symbol]:
    def walk(operand: Operand) -> Iterator[Symbol]:
        if isinstance(operand, Symbol):
            yield operand
        elif isinstance(operand, Address):
            yield from walk(operand.base)
        elif isinstance(operand, Vector):
            for element in operand.elements:
                yield from walk(element)

    for instruction in instructions:
        for operand in instruction.operands:
            yield from walk(operand)
