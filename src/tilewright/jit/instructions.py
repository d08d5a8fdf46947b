"""The instructions of a listing, PTX or SASS, with the places in the source that they come from.

The text of a listing is enough: it need not be of a form that the emulator runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tilewright.errors import UnavailableError

Kind = Literal["ptx", "sass"]


class Place(NamedTuple):
    """A line of a source file; as text FILE:LINE, without folders."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    line: in the listing, from 1. text: as it is printed, with its guard. guard: its predicate, such as @!P0, or
    nothing. opcode: with its modifiers. operands: the text after it. target: the label that it branches to, or nothing.
    places: the line that it comes from, then those into which this one was inlined; none before the first.
    ptx_line: of SASS, the line of the PTX; None if nvdisasm does not know it.
    """

    line: int
    text: str
    guard: str
    opcode: str
    operands: str
    target: str
    places: tuple[Place, ...] = ()
    ptx_line: int | None = None

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def short(self) -> str:
        """The opcode without types, shapes and spaces: FFMA, wgmma.mma_async, cp.async.bulk.tensor."""
        found = _SHORT.match(self.opcode)
        return found[0] if found else self.opcode

    @property
    def place(self) -> Place | None:
        """The line that it comes from."""
        return self.places[0] if self.places else None

    @property
    def ends_flow(self) -> bool:
        """Whether the instruction behind it is never the next."""
        return not self.guard and self.name in ("bra", "BRA", "ret", "RET", "exit", "EXIT", "brx", "BRX", "trap")


@dataclass(frozen=True, slots=True)
class Listing:
    """The instructions of one kernel. labels: by name, the number of the instruction behind each."""

    kind: Kind
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


_SHORT = re.compile(
    r"cp(?:\.reduce)?\.async(?:\.bulk)?(?:\.tensor|\.prefetch|\.wait_group|\.wait_all|\.commit_group)?"
    r"|(?:wgmma|mbarrier|WARPGROUP)\.\w+|[^.]+"
)
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PTX_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:,\s*function_name\s+\S+,\s*inlined_at\s+(\d+)\s+(\d+))?")
_PTX_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)\s*(.*)", re.DOTALL)
_PTX_INSTRUCTION = re.compile(r"(?:(@!?[%\w$]+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?", re.DOTALL)
_SASS_ENTRY = re.compile(r"^\.text\.(\S+):$")
_SASS_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at)?')
_SASS_LABEL = re.compile(r"^(\.L\w+):")
_SASS_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_SASS_TARGET = re.compile(r"`\((\.L\w+)\)")
_OF_PTX = ".nv_debug_ptx_txt"


def ptx_instructions(text: str, entry: str) -> Listing:
    """The listing of an entry of a PTX module; raises an UnavailableError if the module has none of this name."""
    files = {int(number): path for number, path in _PTX_FILE.findall(text)}
    listing, scopes = Listing("ptx"), _Scopes()
    inlined: dict[Place, tuple[Place, ...]] = {}
    places: tuple[Place, ...] = ()
    statement, begun = "", 0
    for number, line in _body(text, entry):
        if located := _PTX_LOC.match(line):
            at, at_line, into, into_line = located.groups()
            own = Place(files.get(int(at), "?"), int(at_line))
            outer = Place(files.get(int(into), "?"), int(into_line)) if into else None
            places = (own, *(inlined.get(outer, (outer,)) if outer else ()))
            inlined[own] = places
            continue
        scopes.pass_over(line)
        if line.startswith("."):
            continue
        begun = begun if statement else number
        *whole, statement = f"{statement} {line}".split(";")
        statement = _bare(statement)
        if _PTX_LABEL.fullmatch(statement):
            whole, statement = [*whole, statement], ""
        for each in whole:
            plain = _bare(each)
            while label := _PTX_LABEL.match(plain):
                listing.labels[scopes.named(label[1])] = len(listing.instructions)
                plain = _bare(label[2])
            if found := _PTX_INSTRUCTION.fullmatch(plain):
                guard, opcode, operands = found[1] or "", found[2], " ".join((found[3] or "").split())
                target = scopes.named(operands) if opcode.partition(".")[0] == "bra" else ""
                shown = " ".join(filter(None, (guard, opcode, operands)))
                listing.instructions.append(Instruction(begun, shown, guard, opcode, operands, target, places))
    return listing


class _Scopes:
    """The scopes of braces, each of which has labels of its own, as each piece of inline assembly is one."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[int] = []

    def pass_over(self, line: str) -> None:
        """Enter and leave the scopes of a line; the braces of a vector come in pairs."""
        for _ in range(line.count("{") - line.count("}")):
            self.count += 1
            self.open.append(self.count)
        for _ in range(line.count("}") - line.count("{")):
            self.open.pop()

    def named(self, label: str) -> str:
        """A label by a name that no other scope has; those that the compiler makes are of no scope."""
        return label if label.startswith("$") or not self.open else f"{label} of scope {self.open[-1]}"


def _bare(statement: str) -> str:
    """A statement without the braces of scopes before it."""
    return statement.strip().lstrip("{} \t")


def _body(text: str, entry: str) -> Iterator[tuple[int, str]]:
    """The lines between an entry's outer braces, without comments, with their numbers."""
    start = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(", text)
    if start is None:
        raise UnavailableError(f"the PTX has no entry {entry!r}: name one that it has")
    depth = 0
    first = text.count("\n", 0, start.start()) + 1
    for number, line in enumerate(text[start.start() :].splitlines(), first):
        plain = line.partition("//")[0].strip()
        directive = plain.startswith(".")
        begins = depth
        depth += 0 if directive else plain.count("{") - plain.count("}")
        if begins and depth:
            yield number, plain
        if begins and not depth:
            return


def sass_instructions(text: str, entry: str) -> Listing:
    """The listing of a kernel among those that nvdisasm prints; raises an UnavailableError if it is not there."""
    listing = Listing("sass")
    inside = seen = continued = False
    places: tuple[Place, ...] = ()
    ptx_line: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if begins := _SASS_ENTRY.match(line):
            inside = begins[1] == entry
            seen |= inside
        elif not inside:
            continue
        elif placed := _SASS_PLACE.search(line):
            file, at, goes_on = placed.groups()
            if file == _OF_PTX:
                ptx_line = int(at)
            else:
                places = (*(places if continued else ()), Place(file, int(at)))
                continued = bool(goes_on)
        elif label := _SASS_LABEL.match(line):
            listing.labels[label[1]] = len(listing.instructions)
        elif found := _SASS_INSTRUCTION.match(line):
            guard, opcode, operands = found[1] or "", found[2], found[3]
            target = _SASS_TARGET.search(operands)
            shown = " ".join(filter(None, (guard, opcode, operands)))
            at_label = target[1] if target else ""
            listing.instructions.append(Instruction(number, shown, guard, opcode, operands, at_label, places, ptx_line))
    if not seen:
        raise UnavailableError(f"nvdisasm printed no code of {entry!r}: compile it with another NVRTC")
    return listing
