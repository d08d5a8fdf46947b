"""From PTX text to programs: an entry's functions are generated and compiled, once in a process."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import tilewright.emulator.program.emitters  # noqa: F401  (the emitters register themselves)
from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.program.blocks import build_blocks
from tilewright.emulator.program.program import Program, bank_dtype, place_registers
from tilewright.emulator.program.suspects import suspect_registers
from tilewright.emulator.program.tracing import sites_at
from tilewright.emulator.program.writer import BlockWriter
from tilewright.emulator.ptx.availability import check_available
from tilewright.emulator.ptx.conformance import check_form
from tilewright.emulator.ptx.parser import parse
from tilewright.emulator.ptx.syntax import Module
from tilewright.emulator.semantics import conversions, directed_rounding, integers, scalars, unset_bits, video
from tilewright.errors import ArgumentTypeError, ArgumentValueError


def text_of(ptx: str | bytes) -> str:
    """The text of a module, from what a compiler returns; raises TypeError or ValueError if it is none."""
    if not isinstance(ptx, str | bytes):
        raise ArgumentTypeError(
            f"ptx is a {type(ptx).__name__}, and must be the text or its bytes: path.read_text() of a file"
        )
    try:
        return (ptx if isinstance(ptx, str) else ptx.decode()).rstrip("\0")
    except UnicodeDecodeError as error:
        raise ArgumentValueError(f"ptx is not text: {error}; is it a cubin?") from None


@lru_cache(maxsize=64)
def parsed(ptx: str) -> Module:
    """The module of a text. Raises PtxSyntaxError, naming the line."""
    return parse(ptx)


@lru_cache(maxsize=64)
def compiled(ptx: str, entry: str, traced: tuple[str, ...] = ()) -> Program:
    """The program of an entry of a text; raises as `parsed` and `compile_entry` do."""
    return compile_entry(parsed(ptx), entry, traced)


def compile_entry(module: Module, name: str, traced: Sequence[str] = ()) -> Program:
    """Generate and compile the functions of an entry; traced: the source lines to trace.

    Raises:
        UnsupportedInstruction, PtxSyntaxError: naming the instruction and its line.
        ArgumentValueError: if a traced line has no instruction.
    """
    entry = module.entries[name]
    if entry.refusal:
        raise UnsupportedInstruction(entry.refusal)
    for instruction in entry.instructions:
        check_available(instruction, module)
        check_form(instruction)
    blocks = build_blocks(entry)
    program = Program(entry, blocks, traced=sites_at(entry, traced))
    place_registers(program)
    suspects, program.without_value = suspect_registers(blocks)
    program.suspects = {register: number for number, register in enumerate(suspects)}
    program.suspect_dtypes = [np.dtype(bank_dtype(register)) for register in suspects]
    namespace: dict[str, Any] = {"__constants__": {}}
    for definitions in (scalars, integers, conversions, directed_rounding, video, unset_bits):
        namespace |= vars(definitions)
    program.source = "\n".join(BlockWriter(program, block, namespace).write() for block in blocks)
    exec(compile(program.source, f"<{entry.name}>", "exec"), namespace)
    program.functions = [namespace[f"block_{block.index}"] for block in blocks]
    return program
