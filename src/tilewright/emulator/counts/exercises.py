"""What a launch of an entry can exercise: branches, guarded accesses, waits of rings, and every instruction.

Left out is what no right launch takes both ways: waits that may look again, and the ways to a trap.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.emulator.program.dataflow import NOTICED, definitions, registers_of, sources
from tilewright.emulator.ptx.syntax import Entry, Instruction, Integer, Register

_PASSES_ON = {"and", "cvt", "mov", "not", "or", "selp", "setp", "xor"}
"""Instructions whose result says what their operands say, where these tell whether a phase is over."""
_LEAVES = {"bra", "ret", "exit", "trap", "call"}


@dataclass(frozen=True, slots=True)
class Exercises:
    """Sites of an entry, by what a launch can do with them.

    instructions: those that control flow reaches without a trap behind them.
    branches: with a guard that a right launch may find true and false.
    accesses: guarded accesses of memory, and other guarded instructions that other threads notice.
    operations: asynchronous copies, stores and products.
    waits: for the phase of a parity of an mbarrier.
    ring_waits: those whose parity is computed.
    """

    instructions: frozenset[int]
    branches: frozenset[int]
    accesses: frozenset[int]
    operations: frozenset[int]
    waits: frozenset[int]
    ring_waits: frozenset[int]


def exercises_of(entry: Entry) -> Exercises:
    """What a launch of an entry can exercise."""
    code = entry.instructions
    doomed = _doomed(code)
    reached = _reached(code) - doomed
    answers = _answers_of_waits(code)

    def decides(site: int) -> bool:
        guard = code[site].predicate
        ways = {site + 1, code[site].target} if code[site].opcode == "bra" else {site + 1}
        return guard is not None and ways.isdisjoint(doomed) and answers.isdisjoint(registers_of(guard))

    constants = _constants(code)
    waits = frozenset(site for site in reached if _asks_by_parity(code[site]))
    return Exercises(
        frozenset(reached),
        frozenset(site for site in reached if code[site].opcode in ("bra", "ret", "exit") and decides(site)),
        frozenset(site for site in reached if code[site].predicate and code[site].opcode in NOTICED),
        frozenset(site for site in reached if _is_asynchronous(code[site])),
        waits,
        frozenset(site for site in waits if not _has_parity(code[site], constants)),
    )


def _next(code: list[Instruction], site: int) -> Iterator[int]:
    """The sites where control may go from a site; that of the entry's end is one past the last."""
    instruction = code[site]
    if instruction.opcode == "bra":
        yield instruction.target
    if instruction.opcode not in _LEAVES or instruction.predicate is not None:
        yield site + 1


def _reached(code: list[Instruction]) -> set[int]:
    """The sites that control flow reaches from the start."""
    found: set[int] = set()
    pending = [0]
    while pending:
        site = pending.pop()
        if site < len(code) and site not in found:
            found.add(site)
            pending += _next(code, site)
    return found


def _doomed(code: list[Instruction]) -> set[int]:
    """The sites from which every way leads to a trap, or to a call of the runtime, which ends a launch as well."""
    found: set[int] = set()
    for site in reversed(range(len(code))):
        instruction = code[site]
        ends = instruction.opcode in ("trap", "call") and instruction.predicate is None
        ways = set(_next(code, site))
        if ends or (ways and ways <= found):
            found.add(site)
    return found


def _answers_of_waits(code: list[Instruction]) -> set[Register]:
    """The registers that say whether a phase of an mbarrier is over."""
    found: set[Register] = set()
    size = -1
    while size != len(found):
        size = len(found)
        for instruction in code:
            waits = instruction.opcode == "mbarrier" and instruction.action in ("try_wait", "test_wait")
            if waits or (instruction.opcode in _PASSES_ON and not found.isdisjoint(sources(instruction))):
                found.update(definitions(instruction))
    return found


def _constants(code: list[Instruction]) -> set[Register]:
    """The registers that only one instruction writes, the move of a constant."""
    found: set[Register] = set()
    written: set[Register] = set()
    for instruction in code:
        here = definitions(instruction)
        found.difference_update(written.intersection(here))
        if instruction.opcode == "mov" and isinstance(instruction.operands[1], Integer):
            found.update(set(here) - written)
        written.update(here)
    return found


def _asks_by_parity(instruction: Instruction) -> bool:
    waits = instruction.opcode == "mbarrier" and instruction.action in ("try_wait", "test_wait")
    return waits and "parity" in instruction.modifiers


def _has_parity(instruction: Instruction, constants: set[Register]) -> bool:
    """Whether a wait always asks for the same parity."""
    parity = instruction.operands[2]
    return isinstance(parity, Integer) or parity in constants


def _is_asynchronous(instruction: Instruction) -> bool:
    opcode, modifiers = instruction.opcode, set(instruction.modifiers)
    if opcode == "cp":
        return modifiers.isdisjoint({"commit_group", "wait_group", "wait_all", "mbarrier", "prefetch"})
    if opcode == "wgmma":
        return instruction.action == "mma_async"
    return opcode in ("st", "red") and instruction.action == "async"
