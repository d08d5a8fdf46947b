"""Which instructions belong to the source lines that are traced, so that observers are told of their registers."""

from collections.abc import Sequence

from tilewright.emulator.program.blocks import ends_block
from tilewright.emulator.ptx.locations import same_file
from tilewright.emulator.ptx.syntax import Entry, Instruction
from tilewright.errors import ArgumentValueError

_SHOWN = 8
"""The lines that a message names."""


def sites_at(entry: Entry, lines: Sequence[str]) -> frozenset[int]:
    """The instructions at these lines, FILE:LINE of the source or PTX:LINE, those inlined there too.

    Branches, barriers and other ends of blocks are left out: they write no registers. Raises an ArgumentValueError for
    a line without instructions.
    """
    found: set[int] = set()
    for line in lines:
        here = {
            site
            for site, instruction in enumerate(entry.instructions)
            if not ends_block(instruction) and any(_same(line, each) for each in _lines(instruction))
        }
        if not here:
            there = dict.fromkeys(each for instruction in entry.instructions for each in _lines(instruction)[:-1])
            shown = list(there or dict.fromkeys(_lines(each)[-1] for each in entry.instructions))
            more = ", ..." if len(shown) > _SHOWN else ""
            raise ArgumentValueError(
                f"{line!r} is no line of {entry.name} with an instruction that has registers: name one as FILE:LINE or "
                f"PTX:LINE, such as {', '.join(shown[:_SHOWN])}{more}"
            )
        found |= here
    return frozenset(found)


def _lines(instruction: Instruction) -> list[str]:
    """The source lines of an instruction, innermost first, and its line in the PTX."""
    chain = instruction.location.chain if instruction.location else ()
    return [*chain, f"PTX:{instruction.ptx_line}"]


def _same(wanted: str, line: str) -> bool:
    (one, _, number), (other, _, here) = wanted.rpartition(":"), line.rpartition(":")
    return number == here and same_file(one, other)
