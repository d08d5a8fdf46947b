"""Declarations of registers: single ones, ranges, and vectors of two or four."""

import re

from tilewright.emulator.ptx.lexical import split_list
from tilewright.emulator.ptx.lowering import new_register
from tilewright.emulator.ptx.syntax import TYPE_BITS, Operand, Register, Vector

MOST_REGISTERS = 1 << 18
"""Registers that an entry may declare; a compiler asks for some thousand."""

_DECLARATION = re.compile(r"\.reg\s*(?:\.v(?P<length>[24])\s*)?\.(?P<type>\w+)\s+(?P<names>[\s\S]*)$")
_RANGE = re.compile(r"([%\w$]+)<(\d{1,9})>$", re.A)
_NAME = re.compile(r"[%\w$]+$")
_ELEMENTS = ("xyzw", "rgba")
"""Names of the elements of a vector (PTX ISA, "Vectors as Operands")."""
_NO_ELEMENTS = ("pred", "b128")


def registers_of(statement: str, before: int) -> dict[str, Operand]:
    """What a declaration declares, by name; the entry has declared so many before. Raises ValueError if it is wrong."""
    match = _DECLARATION.match(statement)
    if match is None or match["type"] not in TYPE_BITS or (match["length"] and match["type"] in _NO_ELEMENTS):
        raise ValueError(f"cannot parse the declaration {statement!r}")
    length, declared = int(match["length"] or 0), dict[str, Operand]()
    for name in split_list(match["names"]):
        if ranged := _RANGE.match(name):
            if before + len(declared) + int(ranged[2]) * max(1, length) > MOST_REGISTERS:
                raise ValueError(f"{name!r}: an entry may declare at most {MOST_REGISTERS} registers")
            names = [f"{ranged[1]}{index}" for index in range(int(ranged[2]))]
        elif _NAME.match(name):
            names = [name]
        else:
            raise ValueError(f"{name!r} is not a register name")
        for single in names:
            if length:
                declared |= _vector(single, match["type"], length)
            else:
                declared[single] = new_register(single, match["type"])
    return declared


def _vector(name: str, kind: str, length: int) -> dict[str, Operand]:
    """A vector of registers, and each of its elements under both of its names."""
    elements = tuple(Register(f"{name}.{letter}", kind) for letter in _ELEMENTS[0][:length])
    operands: dict[str, Operand] = {name: Vector(elements)}
    for letters in _ELEMENTS:
        operands.update((f"{name}.{letter}", element) for letter, element in zip(letters, elements, strict=False))
    return operands
