"""The basic blocks of an entry, their control flow, and the liveness of registers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.program.dataflow import NO_REGISTERS, RegisterSet, definitions, uses
from tilewright.emulator.ptx.forms import ALIGNED, EXCHANGES
from tilewright.emulator.ptx.syntax import (
    Entry,
    Instruction,
    Integer,
    Register,
)

_MOST_MEMBERS = 1 << 20
"""The limit for all loops together: basic blocks, each counted once for every loop around it."""


def blocks_threads(instruction: Instruction) -> bool:
    """Whether a thread that executes this may have to wait for others."""
    if instruction.opcode in ("bar", "barrier"):
        return not {"sync", "red", "wait"}.isdisjoint(instruction.modifiers)
    return instruction.opcode == "mbarrier" and instruction.action == "try_wait"


def ends_block(instruction: Instruction) -> bool:
    """Whether control leaves the straight line after this instruction."""
    return instruction.opcode in ("bra", "ret", "exit", "trap", "call") or (
        blocks_threads(instruction) and not is_warp_barrier(instruction)
    )


def is_warp_barrier(instruction: Instruction) -> bool:
    """Whether this is bar.warp.sync (or barrier.warp.sync)."""
    return instruction.opcode in ("bar", "barrier") and instruction.action == "warp"


def has_member_mask(instruction: Instruction) -> bool:
    """Whether the lanes of a mask execute this together, each where it reaches an instruction of this kind."""
    return instruction.opcode in EXCHANGES or is_warp_barrier(instruction)


def is_collective(instruction: Instruction) -> bool:
    """Whether lanes of a warp have to execute this together."""
    if instruction.opcode in ("bar", "barrier"):
        return is_warp_barrier(instruction) or instruction.opcode == "bar" or "aligned" in instruction.modifiers
    return instruction.opcode in ALIGNED or instruction.action == "cp_fenceproxy" or has_member_mask(instruction)


def retires(instruction: Instruction) -> bool:
    """Whether this waits for asynchronous reads of shared memory, by wgmma or by bulk stores, to be over."""
    return "wait_group" in instruction.modifiers and (instruction.opcode == "wgmma" or "bulk" in instruction.modifiers)


def member_mask(instruction: Instruction) -> Register | Integer | None:
    """The operand that names the lanes that take part in a collective; None if all lanes of the warp do."""
    if has_member_mask(instruction):
        mask = instruction.operands[-1] if instruction.operands else None
        if isinstance(mask, Integer) or (isinstance(mask, Register) and mask.bits == 32):
            return mask
        raise UnsupportedInstruction(f"{instruction} needs a 32-bit register or a constant as its member mask")
    return None


@dataclass(slots=True)
class Block:
    """A straight line of instructions.

    live_out: registers that a later block may read.
    collective: whether it holds warp collectives; it then starts with the first of them, and no other one in it has a
    member mask.
    polls: whether its last instruction jumps back in a loop that may only wait for memory to change, so others must run
    in between.
    defers: the same for a loop with other loops in it.
    """

    index: int
    start: int
    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)
    live_in: RegisterSet = NO_REGISTERS
    live_out: RegisterSet = NO_REGISTERS
    collective: bool = False
    polls: bool = False
    defers: bool = False
    in_polling_loop: bool = False


def waits(block: Block) -> bool:
    """Whether the block's function itself says where its group goes next."""
    last = block.instructions[-1]
    return blocks_threads(last) and ends_block(last)


def build_blocks(entry: Entry) -> list[Block]:
    """Cut an entry into blocks, in the order of the text, with control flow and liveness filled in.

    A successor equal to the number of blocks means the end of the entry.
    """
    code = entry.instructions
    starts = {0} | {instruction.target for instruction in code if instruction.target >= 0}
    starts |= {index + 1 for index, instruction in enumerate(code) if ends_block(instruction)}
    starts |= {index for index, instruction in enumerate(code) if retires(instruction)}
    starts = _start_at_collectives(code, starts)
    ordered = sorted(start for start in starts if start < len(code))
    index_at = {start: index for index, start in enumerate(ordered)}
    index_at[len(code)] = len(ordered)
    blocks = []
    for index, start in enumerate(ordered):
        end = ordered[index + 1] if index + 1 < len(ordered) else len(code)
        block = Block(index, start, code[start:end])
        last = block.instructions[-1]
        if last.opcode == "bra":
            block.successors.append(index_at[last.target])
        if last.opcode not in ("bra", "ret", "exit", "trap", "call") or last.predicate is not None:
            block.successors.append(index + 1)
        block.collective = any(map(is_collective, block.instructions))
        blocks.append(block)
    _mark_polling(blocks)
    _fill_liveness(blocks)
    return blocks


def _start_at_collectives(code: list[Instruction], starts: set[int]) -> set[int]:
    """Start further blocks where lanes that may have diverged must meet: they stay together only after .aligned."""
    found, together = set(starts), False
    for index, instruction in enumerate(code):
        if index in starts:
            together = False
        if has_member_mask(instruction) or (is_collective(instruction) and not together):
            found.add(index)
            together = not has_member_mask(instruction)
    return found


def _mark_polling(blocks: list[Block]) -> None:
    """Find the innermost loops that read memory which other threads may change."""
    predecessors: list[list[int]] = [[] for _ in range(len(blocks) + 1)]
    for block in blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    ends: dict[int, list[int]] = {}
    for block in blocks:
        if block.instructions[-1].opcode == "bra" and block.successors[0] <= block.index:
            ends.setdefault(block.successors[0], []).append(block.index)
    observing = {block.index for block in blocks if any(map(_observes, block.instructions))}
    loops: dict[int, set[int]] = {}
    members = 0
    for head in ends:
        loops[head] = _natural_loop(head, ends[head], predecessors)
        members += len(loops[head])
        if members > _MOST_MEMBERS:
            raise UnsupportedInstruction(
                f"the loop at {blocks[head].instructions[0]} and those before it have more than {_MOST_MEMBERS} basic "
                "blocks, each counted in every loop that it is in: put fewer loops within each other"
            )
    for head, body in loops.items():
        if body.isdisjoint(observing):
            continue
        innermost = not any(inner != head and inner in loops and loops[inner] < body for inner in body)
        for end in ends[head]:
            blocks[end].polls, blocks[end].defers = innermost, not innermost
        for index in body if innermost else ():
            blocks[index].in_polling_loop = True


def _natural_loop(head: int, ends: Sequence[int], predecessors: list[list[int]]) -> set[int]:
    """The blocks from which one of `ends` can be reached without passing `head`, and `head`."""
    body, pending = {head}, [*ends]
    while pending:
        index = pending.pop()
        if index not in body:
            body.add(index)
            pending += predecessors[index]
    return body


def _observes(instruction: Instruction) -> bool:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "ld":
        return any(order in modifiers for order in ("volatile", "relaxed", "acquire", "mmio"))
    return opcode in ("atom", "nanosleep") or (opcode == "mbarrier" and instruction.action == "test_wait")


def _fill_liveness(blocks: list[Block]) -> None:
    """Backward data flow to a fixed point."""
    numbers: dict[Register, int] = {}
    reads, writes = [0] * len(blocks), [0] * len(blocks)
    for block in blocks:
        read: set[Register] = set()
        written: set[Register] = set()
        for instruction in block.instructions:
            read.update(register for register in uses(instruction) if register not in written)
            if instruction.predicate is None:
                written.update(definitions(instruction))
            for register in (*definitions(instruction), *uses(instruction)):
                numbers.setdefault(register, len(numbers))
        reads[block.index], writes[block.index] = (
            sum(1 << numbers[register] for register in each) for each in (read, written)
        )
    live = [0] * (len(blocks) + 1)  # into each block, and nothing into the end
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out = reduce(or_, (live[successor] for successor in block.successors), 0)
            into = reads[block.index] | (out & ~writes[block.index])
            block.live_out = RegisterSet(numbers, out)
            if into != live[block.index]:
                live[block.index], changed = into, True
    for block in blocks:
        block.live_in = RegisterSet(numbers, live[block.index])
