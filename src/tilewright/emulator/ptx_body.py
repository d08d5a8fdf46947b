"""The body of an entry: scopes, declarations, labels, source lines and instructions."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from tilewright.emulator.errors import PtxSyntaxError
from tilewright.emulator.ptx import (
    TYPE_BITS,
    Address,
    Entry,
    Instruction,
    Integer,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
    round_up,
)
from tilewright.emulator.ptx_lexical import (
    VARIABLE,
    base_name,
    excerpt,
    line_of,
    parse_constant,
    skip_blank,
    split_list,
    syntax_error,
    variable_of,
)

_NUMBERS = r"\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})"
_LOC = re.compile(rf"\.loc{_NUMBERS}(?:[^\n]*?\binlined_at{_NUMBERS})?[^\n]*", re.A)
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_STATEMENT = re.compile(r"([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);")
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w]*)((?:\.[\w:]+)*)\s*([\s\S]*)$")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([\s\S]*)$")
_REGISTER_RANGE = re.compile(r"([%\w$]+)<(\d{1,9})>$", re.A)
_NAME = re.compile(r"[%\w$]+$")
_OFFSET = re.compile(r"([^+]*?) ?\+ ?([-\w]+)$")
MOST_REGISTERS = 1 << 18
"""Registers that an entry may declare; a compiler asks for some thousand."""

LocationKey: TypeAlias = tuple[int, int, int]


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


class BodyParser:
    """Parses the body of one entry."""

    def __init__(self, module: Module, entry: Entry, text: str, start: int) -> None:
        self.module, self.entry, self.text = module, entry, text
        self.position = start
        self.line, self.line_position = line_of(text, start), start
        self.scope = _Scope(None)
        self.branches: list[tuple[Instruction, str, _Scope]] = []
        self.call_sites: dict[LocationKey, LocationKey] = {}
        self.locations: dict[LocationKey, Location] = {}
        self.location: Location | None = None
        self._registers = 0
        names = self.scope.names
        names.update({parameter.name: Symbol(parameter.name, "param") for parameter in entry.parameters})
        names.update({name: Symbol(name, "global") for name in module.variables})
        names.update({name: Symbol(name, "shared") for name in (*module.shared, *module.dynamic_shared)})

    def parse(self) -> int:
        """Fill the entry; returns the position after its closing brace."""
        text, depth = self.text, 0
        while True:
            self.position = skip_blank(text, self.position)
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
            elif match := VARIABLE.match(text, self.position):
                self._declare_variable(match)
                self.position = match.end()
            elif match := _STATEMENT.match(text, self.position):
                self._statement(" ".join(match[1].split()))
                self.position = match.end()
            else:
                raise self._error(f"cannot parse {excerpt(text, self.position)!r}")
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
        if opcode == "bra" or opcode == "call":
            operands = (Label(rest.strip()),)
        elif rest:
            operands = tuple(self._operand(item) for item in split_list(rest))
            if modifiers.endswith(".b128") and opcode != "mov":
                modifiers, operands = _in_halves(modifiers, operands)
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
            register = self._operand(text[1:].lstrip(" !"))
            if not isinstance(register, Register) or text[1:].lstrip().startswith("!"):
                raise self._error(f"{text!r} negates something that is not a register")
            operand = Negated(register)
        elif "|" in text:
            first, *others = text.split("|")
            if len(others) > 1:
                raise self._error(f"{text!r} is no pair")
            operand = Pair(self._operand(first.strip()), self._operand(others[0].strip()))
        elif (constant := parse_constant(text)) is not None:
            operand = constant
        elif head == "%":
            operand = Special(text[1:])
        else:
            raise self._error(f"{text!r} is not declared")
        return operand

    def _address(self, text: str) -> Address:
        items = split_list(text)
        if not items or (len(items) == 1 and items[0][:1] in ("[", "{")):
            raise self._error(f"[{text}] is no address")
        if len(items) == 2:
            coordinates = self._operand(items[1])
            if not isinstance(coordinates, Vector):
                raise self._error(f"[{text}] is not a tensor address")
            if items[0][:1] == "[":
                raise self._error(f"[{text}] is no address")
            base = self._address(items[0])
            return Address(base.base, base.offset, coordinates.elements)
        if match := _OFFSET.match(items[0]):
            offset = parse_constant(match[2])
            if not isinstance(offset, Integer):
                raise self._error(f"[{text}] is no address")
            return Address(self._operand(match[1]), offset.value)
        return Address(self._operand(items[0]))

    def _declare_registers(self, statement: str) -> None:
        match = _REGISTERS.match(statement)
        if match is None or match[1] not in TYPE_BITS:
            raise self._error(f"cannot parse the declaration {statement!r}")
        for name in split_list(match[2]):
            if ranged := _REGISTER_RANGE.match(name):
                self._registers += int(ranged[2])
                if self._registers > MOST_REGISTERS:
                    raise self._error(f"{name!r}: an entry may declare at most {MOST_REGISTERS} registers")
                names = [f"{ranged[1]}{index}" for index in range(int(ranged[2]))]
            elif _NAME.match(name):
                names = [name]
            else:
                raise self._error(f"{name!r} is not a register name")
            self.scope.names.update((name, _new_register(name, TYPE_BITS[match[1]])) for name in names)

    def _declare_variable(self, match: re.Match[str]) -> None:
        self._count_lines()
        variable = variable_of(match, self.line)
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
            Location(base_name(name(file, "?")), line, base_name(name(root[0], "?")), root[1]),
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
        return syntax_error(self.text, self.position, message)


def _in_halves(modifiers: str, operands: tuple[Operand, ...]) -> tuple[str, tuple[Operand, ...]]:
    """An access of b128 values as one of twice as many b64 values."""
    count = 4 if ".v2" in modifiers else 2

    def flat(operand: Operand) -> Operand:
        if not isinstance(operand, Vector):
            return operand
        nested = [part.elements if isinstance(part, Vector) else (part,) for part in operand.elements]
        return Vector(tuple(element for elements in nested for element in elements))

    widened = modifiers.replace(".v2", "").removesuffix(".b128") + f".v{count}.b64"
    return widened, tuple(map(flat, operands))


def _new_register(name: str, bits: int) -> Register | Vector:
    """A register. One of 8 bits has 16, of which instructions use 8; one of 128 bits is the pair of its halves."""
    if bits == 128:
        return Vector((Register(f"{name}.low", 64), Register(f"{name}.high", 64)))
    return Register(name, 16 if bits == 8 else bits)


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
