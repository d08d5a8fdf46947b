"""PTX text as data: `parse` turns a module into entries, instructions and operands.

The grammar is the part of PTX that compilers emit for one translation unit without calls: module variables, entries,
nested scopes (inline assembly opens them), registers, labels and `.loc` lines.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.emulator.errors import PtxSyntaxError

TYPE_BITS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "b128": 128,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """One virtual register; identity is the object, because scopes may repeat names."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point constant given by its bits (0f..., 0d...)."""

    value: float
    bits: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x, without the percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable; `space` is param, shared, local or global (module constants are global)."""

    name: str
    space: str


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target by name; `Instruction.target` holds what it resolves to."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset], or [base, {coordinates}] for tensors."""

    base: "Operand"
    offset: int = 0
    coordinates: "tuple[Operand, ...]" = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, ...}."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Pair:
    """a|b: two destinations of one instruction."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Negated:
    """!p."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination `_`, which drops its value."""


Operand: TypeAlias = Register | Integer | Float | Special | Symbol | Label | Address | Vector | Pair | Negated | Sink


@dataclass(frozen=True, slots=True)
class Location:
    """A CUDA source line: where the code stands, and the line of the kernel that it was inlined into."""

    file: str
    line: int
    root_file: str
    root_line: int

    def __str__(self) -> str:
        here = f"{self.file}:{self.line}"
        root = f"{self.root_file}:{self.root_line}"
        return here if here == root else f"{root} (inlined from {here})"


@dataclass(slots=True)
class Instruction:
    """One PTX instruction: `opcode.modifiers operands`, guarded by `predicate`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | Negated | None
    ptx_line: int
    location: Location | None
    target: int = -1  # of a branch: the index of the instruction it goes to

    @property
    def name(self) -> str:
        """Opcode and modifiers as written."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"`{self.name}`{where} (PTX line {self.ptx_line})"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte offset in the parameter space and size."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a memory space; `offset` counts from the start of the entry's memory of that space."""

    name: str
    align: int
    size: int
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Entry:
    """One kernel of a module."""

    name: str
    parameters: list[Parameter] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    shared: dict[str, Variable] = field(default_factory=dict)
    local: dict[str, Variable] = field(default_factory=dict)
    shared_bytes: int = 0  # static; dynamic shared memory starts at dynamic_offset
    dynamic_offset: int = 0
    local_bytes: int = 0
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # reqntid, maxntid, reqnctapercluster...


@dataclass(slots=True)
class Module:
    """A parsed PTX module: entries by name, variables of the global and const spaces by name."""

    entries: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, Variable] = field(default_factory=dict)
    dynamic_shared: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)


_SKIP = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.M)
_HEADER = re.compile(r"\.(?:version|target|address_size|file|pragma)\b[^\n]*")
_SECTION = re.compile(r"\.section\s+[^{]*\{[^}]*\}")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>global|const|shared|local)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)\s*"
    r"(?P<shape>(?:\[\s*\d*\s*\]\s*)*)(?:=\s*(?P<data>\{[^}]*\}|[^;]*?))?\s*;"
)
_PARAMETER = re.compile(
    r"\s*\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\b(?:\s*\.\w+)*(?:\s+\d+)?\s+)?"
    r"(?P<name>[\w$]+)\s*(?:\[(?P<count>\d+)\])?\s*$"
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:[ \t]+\d+(?:\s*,\s*\d+)*)?)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^\n]*?\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_STATEMENT = re.compile(r"([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);")
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w]*)((?:\.[\w:]+)*)\s*([\s\S]*)$")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([\s\S]*)$")
_REGISTER_RANGE = re.compile(r"([%\w$]+)<(\d+)>$")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?$")
_OFFSET = re.compile(r"(.*?)\s*\+\s*(-?(?:0[xX][0-9a-fA-F]+|\d+))$", re.S)

LocationKey: TypeAlias = tuple[int, int, int]


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises:
        PtxSyntaxError: naming the line of the text.
    """
    module = Module(files={int(number): name for number, name in _FILE.findall(text)})
    position = _SKIP.match(text).end()  # type: ignore[union-attr]  # the pattern also matches nothing
    while position < len(text):
        if match := _HEADER.match(text, position) or _SECTION.match(text, position):
            position = match.end()
        elif match := _VARIABLE.match(text, position):
            _declare_module_variable(module, match, _line_of(text, position))
            position = match.end()
        elif match := _FUNCTION.match(text, position):
            position = _parse_function(module, text, match)
        else:
            raise _error(text, position, f"unexpected {_excerpt(text, position)!r} at module level")
        position = _SKIP.match(text, position).end()  # type: ignore[union-attr]
    return module


def _parse_function(module: Module, text: str, header: re.Match[str]) -> int:
    """Parse an entry, or step over a function; returns the position after it."""
    start = text.find("{", header.end())
    end = text.find(";", header.end())
    if header[1] == "func" and (start < 0 or 0 <= end < start):  # a declaration only
        return end + 1
    if start < 0:
        raise _error(text, header.start(), "a function without a body")
    if header[1] == "func":
        return _matching_brace(text, start) + 1
    signature = re.compile(r"\s*([\w$]+)\s*(?:\(([^)]*)\))?([^{]*)").match(text, header.end())
    if signature is None:
        raise _error(text, header.start(), "an entry without a name")
    entry = Entry(signature[1], _parse_parameters(text, signature), shared={}, local={})
    for name, numbers in _DIRECTIVE.findall(signature[3]):
        entry.directives[name] = tuple(int(number) for number in re.findall(r"\d+", numbers))
    module.entries[entry.name] = entry
    return _BodyParser(module, entry, text, start).parse()


def _parse_parameters(text: str, signature: re.Match[str]) -> list[Parameter]:
    parameters: list[Parameter] = []
    offset = 0
    for declaration in split_list(signature[2] or ""):
        match = _PARAMETER.match(declaration)
        if match is None or match["type"] not in TYPE_BITS:
            raise _error(text, signature.start(), f"unknown parameter declaration {declaration!r}")
        width = TYPE_BITS[match["type"]] // 8
        size = width * int(match["count"] or 1)
        offset = round_up(offset, int(match["align"] or width))
        parameters.append(Parameter(match["name"], offset, size))
        offset += size
    return parameters


def _declare_module_variable(module: Module, match: re.Match[str], line: int) -> None:
    variable = _variable(match, line)
    if match["space"] in ("global", "const"):
        module.variables[variable.name] = variable
    elif variable.size:
        module.shared[variable.name] = variable
    else:
        module.dynamic_shared[variable.name] = variable


def _variable(match: re.Match[str], line: int) -> Variable:
    if match["type"] not in TYPE_BITS:
        raise PtxSyntaxError(f"PTX line {line}: unknown type .{match['type']}")
    width = TYPE_BITS[match["type"]] // 8
    count = 1
    for extent in re.findall(r"\[\s*(\d*)\s*\]", match["shape"]):
        count *= int(extent or 0)
    data = b""
    for item in split_list((match["data"] or "").strip("{} \n")):
        value = parse_constant(item)
        if value is None:
            raise PtxSyntaxError(f"PTX line {line}: initialiser {item!r} of {match['name']} is not a number")
        is_integer = isinstance(value, Integer)
        bits = value.value if is_integer else _float_bits(value)
        data += (int(bits) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return Variable(match["name"], int(match["align"] or width), width * count, data=data)


class _Scope:
    """Names declared between one pair of braces."""

    def __init__(self, parent: "_Scope | None") -> None:
        self.parent = parent
        self.names: dict[str, Operand] = {}
        self.labels: dict[str, int] = {}

    def chain(self) -> "Iterator[_Scope]":
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class _BodyParser:
    """Parses the body of one entry."""

    def __init__(self, module: Module, entry: Entry, text: str, start: int) -> None:
        self.module, self.entry, self.text = module, entry, text
        self.position = start
        self.line, self.line_position = _line_of(text, start), start
        self.scope = _Scope(None)
        self.branches: list[tuple[Instruction, str, _Scope]] = []
        self.call_sites: dict[LocationKey, LocationKey] = {}
        self.locations: dict[LocationKey, Location] = {}
        self.location: Location | None = None
        names = self.scope.names
        names.update({parameter.name: Symbol(parameter.name, "param") for parameter in entry.parameters})
        names.update({name: Symbol(name, "global") for name in module.variables})
        names.update({name: Symbol(name, "shared") for name in (*module.shared, *module.dynamic_shared)})

    def parse(self) -> int:
        """Fill the entry; returns the position after its closing brace."""
        text, depth = self.text, 0
        while True:
            self.position = _SKIP.match(text, self.position).end()  # type: ignore[union-attr]
            if self.position >= len(text):
                raise self._error("the body ends without its closing brace")
            head = text[self.position]
            if head == "{":
                depth += 1
                self.scope = _Scope(self.scope)
                self.position += 1
            elif head == "}":
                depth -= 1
                assert self.scope.parent is not None
                self.scope = self.scope.parent
                self.position += 1
                if depth == 0:
                    break
            elif match := _LOC.match(text, self.position):
                self._set_location(match)
                self.position = match.end()
            elif match := _LABEL.match(text, self.position):
                self.scope.labels[match[1]] = len(self.entry.instructions)
                self.position = match.end()
            elif match := _VARIABLE.match(text, self.position):
                self._declare_variable(match)
                self.position = match.end()
            elif match := _STATEMENT.match(text, self.position):
                self._statement(match[1].strip())
                self.position = match.end()
            else:
                raise self._error(f"cannot parse {_excerpt(text, self.position)!r}")
        self._resolve_branches()
        self._place_variables()
        return self.position

    def _statement(self, statement: str) -> None:
        if statement.startswith(".reg"):
            self._declare_registers(statement)
        elif statement.startswith((".param", ".pragma", ".branchtargets", ".callprototype")):
            # `.param` in a body is the argument area of a call: calls trap, so nothing reads it.
            for name in re.findall(r"([\w$]+)\s*(?:\[\d+\])?\s*$", statement):
                self.scope.names[name] = Symbol(name, "argument")
        else:
            self._instruction(statement)

    def _instruction(self, statement: str) -> None:
        match = _INSTRUCTION.match(statement)
        if match is None:
            raise self._error(f"cannot parse the instruction {statement!r}")
        negated, guard, opcode, modifiers, rest = match.groups()
        predicate: Register | Negated | None = None
        if guard:
            register = self._operand(guard)
            if not isinstance(register, Register):
                raise self._error(f"{guard!r} is not a predicate register")
            predicate = Negated(register) if negated else register
        operands: tuple[Operand, ...] = ()
        if opcode == "bra":
            operands = (Label(rest.strip()),)
        elif opcode == "call":
            operands = (Label(rest.strip()),)
        elif rest:
            operands = tuple(self._operand(item) for item in split_list(rest))
        self._count_lines()
        instruction = Instruction(
            opcode, tuple(modifiers.split(".")[1:]), operands, predicate, self.line, self.location
        )
        if opcode == "bra":
            self.branches.append((instruction, rest.strip(), self.scope))
        self.entry.instructions.append(instruction)

    def _operand(self, text: str) -> Operand:
        for scope in self.scope.chain():
            if (known := scope.names.get(text)) is not None:
                return known
        head = text[:1]
        if head == "[":
            operand: Operand = self._address(text[1:-1].strip())
        elif head == "{":
            operand = Vector(tuple(self._operand(item) for item in split_list(text[1:-1])))
        elif text == "_":
            operand = Sink()
        elif head == "!":
            register = self._operand(text[1:].strip())
            if not isinstance(register, Register):
                raise self._error(f"{text!r} negates something that is not a register")
            operand = Negated(register)
        elif "|" in text:
            first, second = text.split("|", 1)
            operand = Pair(self._operand(first.strip()), self._operand(second.strip()))
        elif (constant := parse_constant(text)) is not None:
            operand = constant
        elif head == "%":
            operand = Special(text[1:])
        else:
            raise self._error(f"{text!r} is not declared")
        return operand

    def _address(self, text: str) -> Address:
        items = split_list(text)
        if len(items) == 2:
            coordinates = self._operand(items[1])
            if not isinstance(coordinates, Vector):
                raise self._error(f"[{text}] is not a tensor address")
            base = self._address(items[0])
            return Address(base.base, base.offset, coordinates.elements)
        if match := _OFFSET.match(items[0]):
            return Address(self._operand(match[1]), int(match[2], 0))
        return Address(self._operand(items[0]))

    def _declare_registers(self, statement: str) -> None:
        match = _REGISTERS.match(statement)
        if match is None or match[1] not in TYPE_BITS:
            raise self._error(f"cannot parse the declaration {statement!r}")
        bits = TYPE_BITS[match[1]]
        for name in split_list(match[2]):
            if ranged := _REGISTER_RANGE.match(name):
                for index in range(int(ranged[2])):
                    numbered = f"{ranged[1]}{index}"
                    self.scope.names[numbered] = Register(numbered, bits)
            else:
                self.scope.names[name] = Register(name, bits)

    def _declare_variable(self, match: re.Match[str]) -> None:
        self._count_lines()
        variable = _variable(match, self.line)
        space = match["space"]
        variables = {"shared": self.entry.shared, "local": self.entry.local}.get(space)
        if variables is None:
            raise self._error(f"a .{space} variable inside a function")
        if variable.name in variables:
            raise self._error(f"the .{space} variable {variable.name} is declared twice")
        variables[variable.name] = variable
        self.scope.names[variable.name] = Symbol(variable.name, space)

    def _set_location(self, match: re.Match[str]) -> None:
        file, line, column = int(match[1]), int(match[2]), int(match[3])
        key = (file, line, column)
        if match[4]:
            self.call_sites[key] = (int(match[4]), int(match[5]), int(match[6]))
        root, seen = key, {key}
        while (site := self.call_sites.get(root)) is not None and site not in seen:
            seen.add(site)
            root = site
        name = self.module.files.get
        self.location = self.locations.setdefault(
            (key[0], key[1], root[0] << 32 | root[1]),
            Location(_base_name(name(file, "?")), line, _base_name(name(root[0], "?")), root[1]),
        )

    def _resolve_branches(self) -> None:
        for instruction, label, scope in self.branches:
            for candidate in scope.chain():
                if label in candidate.labels:
                    instruction.target = candidate.labels[label]
                    break
            else:
                raise PtxSyntaxError(f"PTX line {instruction.ptx_line}: no label {label!r}")

    def _place_variables(self) -> None:
        """Give shared and local variables their offsets; dynamic shared memory comes last."""
        entry, module = self.entry, self.module
        used = {base.name for base in _symbols(entry.instructions) if base.space == "shared"}
        entry.shared.update({name: module.shared[name] for name in used if name in module.shared})
        entry.shared_bytes = _place(entry.shared)
        entry.local_bytes = _place(entry.local)
        dynamic = [module.dynamic_shared[name] for name in used if name in module.dynamic_shared]
        align = max([variable.align for variable in dynamic], default=16)
        entry.dynamic_offset = round_up(entry.shared_bytes, align)
        for variable in dynamic:
            entry.shared[variable.name] = Variable(variable.name, variable.align, 0, entry.dynamic_offset)

    def _count_lines(self) -> None:
        self.line += self.text.count("\n", self.line_position, self.position)
        self.line_position = self.position

    def _error(self, message: str) -> PtxSyntaxError:
        return _error(self.text, self.position, message)


def _place(variables: dict[str, Variable]) -> int:
    end = 0
    for variable in sorted(variables.values(), key=lambda variable: (-variable.align, variable.name)):
        offset = round_up(end, variable.align)
        end = offset + variable.size
        variables[variable.name] = Variable(variable.name, variable.align, variable.size, offset)
    return end


def _symbols(instructions: list[Instruction]) -> Iterator[Symbol]:
    def walk(operand: Operand) -> Iterator[Symbol]:
        if isinstance(operand, Symbol):
            yield operand
        elif isinstance(operand, Address):
            yield from walk(operand.base)

    for instruction in instructions:
        for operand in instruction.operands:
            yield from walk(operand)


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside brackets and braces."""
    if "{" not in text and "[" not in text:
        return [item.strip() for item in text.split(",")] if text.strip() else []
    items, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start:index].strip())
            start = index + 1
    items.append(text[start:].strip())
    return items


def parse_constant(text: str) -> Integer | Float | None:
    """An integer or floating-point constant, or None."""
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return Float(struct.unpack(">f", bytes.fromhex(text[2:]))[0], 32)
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return Float(struct.unpack(">d", bytes.fromhex(text[2:]))[0], 64)
    if _INTEGER.match(text):
        return Integer(int(text.rstrip("U"), 0))
    return None


def _float_bits(value: Float) -> int:
    return int.from_bytes(struct.pack("<f" if value.bits == 32 else "<d", value.value), "little")


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below value."""
    return -(-value // multiple) * multiple


def _matching_brace(text: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise _error(text, start, "a brace is never closed")


def _base_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _excerpt(text: str, position: int) -> str:
    return text[position : position + 60].split("\n")[0]


def _error(text: str, position: int, message: str) -> PtxSyntaxError:
    return PtxSyntaxError(f"PTX line {_line_of(text, position)}: {message}")
