"""The loops of a listing: what branches back to a place through which every way leads.

The method is that of A. Aho et al., "Compilers", 9.6: blocks, dominators, and the natural loop of each back edge.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import gcd
from typing import Any

from tilewright.jit.instructions import Instruction, Listing, Place
from tilewright.jit.listing import is_characteristic

CALLS = ("call", "CALL")


WORK = ("ld", "st", "LDG", "LDS", "STG", "STS")
"""Loads and stores, which count as a loop's work besides what is characteristic of kernels that multiply."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, with its inner loops.

    depth: 1 for one in no other. innermost: whether it has no other inside.
    instructions: all of its turn, those of inner loops and of all branches included. own: those of no inner loop.
    back: the branches to its beginning.
    """

    depth: int
    innermost: bool
    instructions: tuple[Instruction, ...]
    own: tuple[Instruction, ...]
    back: tuple[Instruction, ...]

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line in the listing."""
        numbers = [each.line for each in self.instructions]
        return min(numbers), max(numbers)

    @property
    def place(self) -> Place | None:
        """The line of the source that goes back to the beginning: that of its `for` or `while`."""
        return self.back[0].place

    @property
    def counts(self) -> dict[str, int]:
        """How often a turn multiplies, moves operands and synchronizes, by short opcodes."""
        found = Counter(each.short for each in self.instructions if is_characteristic(each.name))
        return dict(found.most_common())

    @property
    def waits(self) -> bool:
        """Whether it only asks again until a barrier is complete."""
        asks = any(each.short in ("mbarrier.try_wait", "mbarrier.test_wait", "SYNCS") for each in self.instructions)
        return asks and not any(_is_work(each) and each.name not in ("mbarrier", "SYNCS") for each in self.instructions)

    @property
    def copies(self) -> int:
        """How many turns of the source's loop are one turn here: what divides how often each piece of work occurs.

        A piece is an opcode of a line of the source. Work is to load, store, multiply, move and synchronize.
        """
        work = Counter((each.places, each.opcode) for each in self.own if _is_work(each))
        return reduce(gcd, work.values(), 0) or 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "place": None if self.place is None else str(self.place),
            "lines": list(self.lines),
            "depth": self.depth,
            "instructions": len(self.instructions),
            "copies": self.copies,
            "waits": self.waits,
            "counts": self.counts,
        }


def _is_work(instruction: Instruction) -> bool:
    return is_characteristic(instruction.name) or instruction.name in WORK


def loops_of(listing: Listing) -> list[Loop]:
    """The loops, in the order of the listing; two that begin at one place are one."""
    blocks = _blocks(listing)
    starts = {block[0]: number for number, block in enumerate(blocks)}
    after = [_successors(listing, block, starts) for block in blocks]
    before: list[list[int]] = [[] for _ in blocks]
    for number, targets in enumerate(after):
        for target in targets:
            before[target].append(number)
    dominators = _dominators(after, before)
    bodies: dict[int, set[int]] = {}
    backs: dict[int, list[Instruction]] = {}
    for number, targets in enumerate(after):
        for head in targets:
            if _dominates(head, number, dominators):
                bodies.setdefault(head, {head}).update(_reaching(number, head, before))
                backs.setdefault(head, []).append(listing.instructions[blocks[number][-1]])
    found = [_loop(listing, blocks, bodies, head, backs[head]) for head in sorted(bodies)]
    return [loop for loop in found if len(loop.instructions) > 1]  # a branch to itself only fills the code up


def _loop(
    listing: Listing, blocks: list[range], bodies: dict[int, set[int]], head: int, back: list[Instruction]
) -> Loop:
    body = bodies[head]
    inside = [other for each, other in bodies.items() if each != head and other < body]
    around = [other for other in bodies.values() if body < other]
    inner = set().union(*inside)

    def of(numbers: set[int]) -> tuple[Instruction, ...]:
        return tuple(listing.instructions[at] for number in sorted(numbers) for at in blocks[number])

    return Loop(1 + len(around), not inside, of(body), of(body - inner), tuple(back))


def _blocks(listing: Listing) -> list[range]:
    """Runs of instructions that are entered at the first alone and left at the last alone."""
    code = listing.instructions
    heads = {0, *listing.labels.values()}
    heads |= {number + 1 for number, each in enumerate(code) if each.target or each.ends_flow}
    bounds = [*sorted(head for head in heads if head < len(code)), len(code)]
    return [range(start, end) for start, end in pairwise(bounds)]


def _successors(listing: Listing, block: range, starts: dict[int, int]) -> list[int]:
    last = listing.instructions[block[-1]]
    found = []
    if last.target in listing.labels and not last.name.startswith(CALLS):
        found.append(starts.get(listing.labels[last.target], -1))
    if not last.ends_flow:
        found.append(starts.get(block[-1] + 1, -1))
    return [number for number in dict.fromkeys(found) if number >= 0]


def _dominators(after: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> list[int]:
    """The closest block through which every way to each leads; for beginnings a number behind those of the blocks.

    What no branch leads to, such as a function that is called, is a beginning, like the first block.
    """
    root = len(after)
    order: list[int] = []  # each block behind those that lead to it, loops apart
    seen: set[int] = set()
    beginnings = set()
    for start in range(root):
        if start in seen:
            continue
        beginnings.add(start)
        finished = []
        stack = [(start, iter(after[start]))]
        seen.add(start)
        while stack:
            number, rest = stack[-1]
            onward = next((each for each in rest if each not in seen), None)
            if onward is None:
                finished.append(number)
                stack.pop()
            else:
                seen.add(onward)
                stack.append((onward, iter(after[onward])))
        order += reversed(finished)
    place = {root: -1} | {number: at for at, number in enumerate(order)}
    closest = {root: root} | dict.fromkeys(beginnings, root)

    def meet(one: int, other: int) -> int:
        while one != other:
            if place[one] < place[other]:
                one, other = other, one
            one = closest[one]
        return one

    changed = True
    while changed:
        changed = False
        for number in order:
            if number not in beginnings:
                found = reduce(meet, [each for each in before[number] if each in closest])
                changed |= closest.get(number) != found
                closest[number] = found
    return [closest[number] for number in range(root)]


def _dominates(head: int, number: int, closest: Sequence[int]) -> bool:
    while number != head and number < len(closest):
        number = closest[number]
    return number == head


def _reaching(number: int, head: int, before: Sequence[Sequence[int]]) -> set[int]:
    """The blocks from which `number` is reached without passing `head`."""
    found, pending = {head}, [number]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += before[at]
    return found
