"""Basic blocks of an entry, their control flow, and what is known of registers before anything runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import compress
from operator import or_

from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.ptx import (
    CARRY,
    Address,
    Entry,
    Float,
    Instruction,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from tilewright.emulator.ptx_lowering import EXCHANGES
from tilewright.emulator.specials import UNIFORM_SPECIALS

_NO_DESTINATION = {
    "bar", "barrier", "bra", "brx", "call", "fence", "membar", "nanosleep", "setmaxnreg", "griddepcontrol", "pmevent",
    "brkpt",
}  # fmt: skip
PURE = {
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "cvt", "cvta", "div", "fma", "lop3",
    "mad", "max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rem", "selp", "set", "setp", "shf", "shl",
    "shr", "slct", "sub", "szext", "xor",
}  # fmt: skip
_MOST_MEMBERS = 1 << 20
"""Of all loops together: basic blocks, each as often as there are loops around it."""
_ALIGNED = {"ldmatrix", "stmatrix", "mma", "movmatrix", "wmma", "wgmma"}


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
    """Whether the lanes of a mask execute this together, each where it comes to an instruction of this kind."""
    return instruction.opcode in EXCHANGES or is_warp_barrier(instruction)


def is_collective(instruction: Instruction) -> bool:
    """Whether lanes of a warp have to execute this together."""
    if instruction.opcode in ("bar", "barrier"):
        return is_warp_barrier(instruction) or instruction.opcode == "bar" or "aligned" in instruction.modifiers
    return instruction.opcode in _ALIGNED or has_member_mask(instruction)


def retires(instruction: Instruction) -> bool:
    """Whether this waits for asynchronous reads of shared memory, by wgmma or by bulk stores, to be over."""
    return "wait_group" in instruction.modifiers and (instruction.opcode == "wgmma" or "bulk" in instruction.modifiers)


def member_mask(instruction: Instruction) -> Register | Integer | None:
    """The operand with the lanes that take part in a collective; None if all of the warp do."""
    if has_member_mask(instruction):
        mask = instruction.operands[-1] if instruction.operands else None
        if isinstance(mask, Integer) or (isinstance(mask, Register) and mask.bits == 32):
            return mask
        raise UnsupportedInstruction(f"{instruction} needs a 32-bit register or a constant as its member mask")
    return None


def registers_of(operand: Operand) -> Iterator[Register]:
    """All registers that an operand names."""
    match operand:
        case Register():
            yield operand
        case Vector(elements):
            for element in elements:
                yield from registers_of(element)
        case Address(base, _, coordinates):
            for part in (base, *coordinates):
                yield from registers_of(part)
        case Pair(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Negated(register):
            yield register
        case _:
            pass


def has_destination(instruction: Instruction) -> bool:
    """Whether the first operand is written."""
    if instruction.opcode in _NO_DESTINATION:
        return "red" in instruction.modifiers
    if not instruction.operands or isinstance(instruction.operands[0], Address | Integer):
        return False
    return instruction.opcode not in ("st", "red", "stmatrix", "prefetch", "cp")


def definitions(instruction: Instruction) -> list[Register]:
    """The registers that an instruction writes."""
    written = list(registers_of(instruction.operands[0])) if has_destination(instruction) else []
    return [*written, CARRY] if "cc" in instruction.modifiers else written


def is_wgmma(instruction: Instruction) -> bool:
    """Whether this multiplies (wgmma.mma_async): its destination is also a source."""
    return instruction.opcode == "wgmma" and instruction.action == "mma_async"


def fragments_of_a(instruction: Instruction) -> list[Register]:
    """The registers of a wgmma that hold fragments of A; none if A is in shared memory."""
    return list(registers_of(a)) if isinstance(a := instruction.operands[1], Vector) else []


def sources(instruction: Instruction) -> Iterator[Register]:
    """The registers that an instruction computes with, its guard apart."""
    for operand in instruction.operands[1 if has_destination(instruction) else 0 :]:
        yield from registers_of(operand)
    if instruction.opcode in ("addc", "madc", "subc"):
        yield CARRY


def uses(instruction: Instruction) -> Iterator[Register]:
    """The registers that an instruction reads; a predicated destination keeps, hence reads, its old value."""
    yield from sources(instruction)
    if instruction.predicate is not None:
        yield from registers_of(instruction.predicate)
        yield from definitions(instruction)
    elif is_wgmma(instruction):
        yield from definitions(instruction)


@dataclass(frozen=True, slots=True)
class RegisterSet:
    """Some registers of an entry, one bit for each by its number: every block has two such sets.

    numbers: of the registers, in order from 0 on.
    """

    numbers: dict[Register, int]
    bits: int = 0

    def __iter__(self) -> Iterator[Register]:
        return compress(self.numbers, map(int, reversed(f"{self.bits:b}")))

    def __contains__(self, register: Register) -> bool:
        return bool(self.bits >> self.numbers[register] & 1)

    def __or__(self, other: "RegisterSet") -> "RegisterSet":
        return RegisterSet(self.numbers, self.bits | other.bits)

    def __sub__(self, other: "RegisterSet") -> "RegisterSet":
        return RegisterSet(self.numbers, self.bits & ~other.bits)


_NONE = RegisterSet({})


@dataclass(slots=True)
class Block:
    """A straight line of instructions.

    live_out: registers that a later block may read. collective: whether it holds warp collectives; it then
    starts with the first of them, and has no other that names its threads by a member mask. polls: whether its last
    instruction jumps back in a loop that may only wait for memory to change, so that others must run in between.
    defers: the same of a loop with others in it.
    """

    index: int
    start: int
    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)
    live_in: RegisterSet = _NONE
    live_out: RegisterSet = _NONE
    collective: bool = False
    polls: bool = False
    defers: bool = False
    in_polling_loop: bool = False


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
    """Also start a block where lanes that may have come apart must meet: they stay together after .aligned alone."""
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


def uniform_registers(entry: Entry) -> set[Register]:
    """Registers that hold one value throughout a launch: defined once, from constants and parameters alone."""
    definition: dict[Register, Instruction | None] = {}
    for instruction in entry.instructions:
        for register in definitions(instruction):
            definition[register] = None if register in definition else instruction
    uniform: set[Register] = set()
    changed = True
    while changed:
        changed = False
        for register, only in definition.items():
            if only is None or register in uniform or only.predicate is not None:
                continue
            if _is_pure(only) and all(_is_uniform(item, uniform) for item in only.operands[1:]):
                uniform.add(register)
                changed = True
    return uniform


def _is_pure(instruction: Instruction) -> bool:
    return instruction.opcode in PURE or (
        instruction.opcode == "ld" and "param" in instruction.modifiers and "shared" not in instruction.modifiers
    )


def _is_uniform(operand: Operand, uniform: set[Register]) -> bool:
    match operand:
        case Integer() | Float():
            return True
        case Special(name):
            return name in UNIFORM_SPECIALS
        case Symbol(_, space):
            return space != "local"
        case Address(Symbol(_, "param"), _, _):
            return True
        case Vector(elements):
            return all(_is_uniform(element, uniform) for element in elements)
        case _:
            return all(register in uniform for register in registers_of(operand)) and not isinstance(operand, Address)
