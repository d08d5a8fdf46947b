"""The traits of a program: facts that the checks need before it runs."""

from dataclasses import dataclass

import numpy as np

from tilewright.emulator.lanes import Indices, Mask
from tilewright.emulator.program.dataflow import definitions
from tilewright.emulator.ptx.syntax import TYPE_BITS, Float, Instruction, Integer, Register

_STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
CTA, CLUSTER, DEVICE = 0, 1, 2
"""Scopes; the last stands for .gpu and .sys, which one launch cannot tell apart."""

_WIDEST = 16
_TEXTURES = ("tex", "tld4")


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of one program.

    strong: (instructions,), the accesses that do not race with each other if their scopes allow: atomic, volatile, and
    with a memory order.
    scopes: (instructions,), the scope of each.
    shared_cell, global_cell: bytes of the narrowest access.
    asynchronous: whether bulk copies or wgmma are used.
    bulk: whether bulk copies are used.
    reductions: (instructions,), the bulk reductions, which do not race with each other either.
    sequential: (instructions,), the fence.sc of the whole device.
    read_only: (instructions,), the loads of memory that no thread writes.
    mbarriers: (instructions,), the operation on mbarriers.
    inits: the number of these instructions that initialize one.
    constants: (instructions,), the moves of a constant.
    """

    strong: Mask
    scopes: Indices
    shared_cell: int
    global_cell: int
    asynchronous: bool
    bulk: bool
    reductions: Mask
    sequential: Mask
    read_only: Mask
    mbarriers: Mask
    inits: int
    constants: Mask


def traits_of(instructions: list[Instruction]) -> Traits:
    """The traits of an entry's instructions."""
    cells = {"shared": _WIDEST, "global": _WIDEST}
    for instruction in instructions:
        width = _access_bytes(instruction)
        for space in cells:
            if width and _reaches(instruction, space):
                cells[space] = min(cells[space], width)
    bulk = any(_is_bulk(instruction) for instruction in instructions)
    return Traits(
        np.array([_is_strong(instruction) for instruction in instructions], np.bool_),
        np.array([scope_of(instruction.modifiers) for instruction in instructions], np.int64),
        cells["shared"],
        cells["global"],
        bulk or any(instruction.opcode == "wgmma" for instruction in instructions),
        bulk,
        np.array([_is_bulk(i) and "reduce" in i.modifiers for i in instructions], np.bool_),
        np.array([_is_sequential(instruction) for instruction in instructions], np.bool_),
        np.array(
            [i.opcode in ("ldu", *_TEXTURES) or (i.opcode == "ld" and "nc" in i.modifiers) for i in instructions],
            np.bool_,
        ),
        np.array([i.opcode == "mbarrier" for i in instructions], np.bool_),
        sum(i.opcode == "mbarrier" and i.action == "init" for i in instructions),
        _constants(instructions),
    )


def _constants(instructions: list[Instruction]) -> Mask:
    """The moves of a constant: also of a register that holds one, in a straight line of instructions."""
    targets = {instruction.target for instruction in instructions}
    held: set[Register] = set()
    found = np.zeros(len(instructions), np.bool_)
    for index, instruction in enumerate(instructions):
        if index in targets:
            held.clear()
        if instruction.opcode == "mov":
            value = instruction.operands[1]
            found[index] = isinstance(value, Integer | Float) or (isinstance(value, Register) and value in held)
        written = definitions(instruction)
        if found[index] and instruction.predicate is None:
            held.update(written)
        elif written:
            held.difference_update(written)
    return found


def scope_of(modifiers: tuple[str, ...]) -> int:
    """The scope of an access or a fence; without a named scope it is the whole device, except for mbarriers."""
    return CTA if "cta" in modifiers else CLUSTER if "cluster" in modifiers else DEVICE


def _is_bulk(instruction: Instruction) -> bool:
    return instruction.opcode == "cp" and "bulk" in instruction.modifiers


def _is_sequential(instruction: Instruction) -> bool:
    """membar is a synonym of fence.sc (PTX ISA, "membar / fence")."""
    named = "sc" in instruction.modifiers if instruction.opcode == "fence" else instruction.opcode == "membar"
    return named and "proxy" not in instruction.modifiers and scope_of(instruction.modifiers) == DEVICE


def _is_strong(instruction: Instruction) -> bool:
    if instruction.opcode in ("atom", "red", "sured"):
        return True
    if instruction.opcode == "multimem" and instruction.action == "red":
        return True
    return instruction.opcode in ("ld", "st", "multimem") and not _STRONG.isdisjoint(instruction.modifiers)


def _access_bytes(instruction: Instruction) -> int:
    """Bytes that one thread accesses at a time; 0 if it does not access memory."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("ld", "ldu", "st", "atom", "red", "multimem"):
        vector = next((int(m[1:]) for m in modifiers if m in ("v2", "v4", "v8")), 1)
        if opcode in ("atom", "red") or "red" in modifiers:
            vector = 1
        return min(vector * TYPE_BITS[modifiers[-1]] // 8, _WIDEST)
    if opcode == "cp" and "async" in modifiers and not {"bulk", "mbarrier"} & set(modifiers):
        size = instruction.operands[2] if len(instruction.operands) > 2 else None
        return size.value if isinstance(size, Integer) and size.value in (4, 8, 16) else 0
    if opcode in (*_TEXTURES, "suld", "sust", "sured"):
        return 1  # what their images have
    if opcode == "wmma" and instruction.action in ("load", "store"):
        return 2
    return 0


def _reaches(instruction: Instruction, space: str) -> bool:
    """Whether an access may go to a space: it names this space, or none."""
    if instruction.opcode in (*_TEXTURES, "suld", "sust", "sured"):
        return space == "global"
    if instruction.opcode == "cp":
        return True
    named = {modifier.split("::")[0] for modifier in instruction.modifiers}
    return space in named or named.isdisjoint({"global", "shared", "local", "param", "const"})
