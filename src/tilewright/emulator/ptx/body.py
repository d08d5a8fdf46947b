"""The body of an entry: scopes, declarations, labels, source lines and instructions."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tilewright.emulator.errors import PtxSyntaxError, UnsupportedInstruction
from tilewright.emulator.ptx.expansion import Expansion
from tilewright.emulator.ptx.lexical import (
    LOC,
    VARIABLE,
    excerpt,
    in_assembly,
    line_of,
    matching_brace,
    named_line,
    skip_blank,
    split_list,
    syntax_error,
    variable_of,
)
from tilewright.emulator.ptx.locations import Locations
from tilewright.emulator.ptx.lowering import done_together, in_halves, inverted, new_register
from tilewright.emulator.ptx.registers import registers_of
from tilewright.emulator.ptx.scope import Scope
from tilewright.emulator.ptx.syntax import (
    PRINTF,
    Address,
    Entry,
    Function,
    FunctionParameter,
    Instruction,
    Integer,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
)
from tilewright.emulator.ptx.variables import place_variables

_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_STATEMENT = re.compile(r"([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);")
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w]*)((?:\.[\w:]+)*)\s*([\s\S]*)$")

_CALL = re.compile(
    r"(?:\((?P<results>[^)]*)\)\s*,\s*)?(?P<name>[%\w$]+)\s*(?:,\s*\((?P<arguments>[^)]*)\))?\s*(?:,\s*[\w$]+)?\s*$"
)
_RETURN, _AFTER = "<return>", "<after>"
"""Labels that PTX cannot spell."""
_MOST_INSTRUCTIONS = 1 << 18
_MOST_CALLS = 64
"""The depth of calls within calls; each takes the parser some frames of Python's stack."""
_MOST_SCOPES = 256
"""The depth of scopes within scopes: every name is looked up in all of them."""


class BodyParser:
    """The parser of one entry's body; bodies of functions are parsed in the places of their calls."""

    def __init__(self, module: Module, entry: Entry, text: str, start: int, expansion: Expansion) -> None:
        self.module, self.entry, self.text = module, entry, text
        self.position = start
        self.module_scope = Scope(None)
        self.branches: list[tuple[Instruction, str, Scope]] = []
        self.callers: list[str] = []  # functions whose bodies are being parsed
        self.expansion, self.expanded = expansion, 0  # statements that calls expand to
        self.shared_at: dict[int, Symbol] = {}  # position in the text -> variable, for bodies that are parsed again
        self.allocate: dict[str, bool] = {}
        self.last_label = ""
        self.locations = Locations(module.files)
        self.location: Location | None = None
        self._registers = 0
        names = self.module_scope.names
        names.update({name: Symbol(name, "global", element=each.element) for name, each in module.variables.items()})
        names.update({name: Symbol(name, "function") for name in module.functions})
        shared = module.shared | module.dynamic_shared
        names.update({name: Symbol(name, "shared", element=each.element) for name, each in shared.items()})
        self.scope = Scope(self.module_scope)
        self.scope.names.update({parameter.name: Symbol(parameter.name, "param") for parameter in entry.parameters})

    @property
    def line(self) -> int:
        """The number of the line where the parser is."""
        return line_of(self.text, self.position)

    def parse(self) -> int:
        """Fill the entry; returns the position after its closing brace."""
        start = self.position
        try:
            self._body()
            place_variables(self.module, self.entry)
        except UnsupportedInstruction as error:  # other entries of the module may not need it
            self.entry.refusal = str(error)
            return matching_brace(self.text, start) + 1
        self._resolve_branches()
        if not self.entry.instructions:  # the end of a body returns, too, and what runs has an instruction
            self.entry.instructions.append(Instruction("ret", (), (), None, self.line, None))
        return self.position

    def _body(self) -> None:
        """Parse from an opening brace to the one that closes it."""
        text, depth = self.text, 0
        while True:
            self.position = skip_blank(text, self.position)
            if self.position >= len(text):
                raise self._error("the body ends without its closing brace")
            head = text[self.position]
            if head == "{":
                depth += 1
                if depth > _MOST_SCOPES:
                    raise self._error(f"more than {_MOST_SCOPES} scopes within each other")
                self.scope = Scope(self.scope)
                self.position += 1
            elif head == "}":
                depth -= 1
                assert self.scope.parent is not None
                self.scope = self.scope.parent
                self.position += 1
                if depth == 0:
                    break
            elif match := LOC.match(text, self.position):
                if not in_assembly(text, self.position):
                    named = named_line(text, match)
                    self.location = None if named is None else self.locations.of(named)
                self.position = match.end()
            elif match := _LABEL.match(text, self.position):
                self.last_label = match[1]
                if match[1] in self.scope.labels:
                    raise self._error(f"the label {match[1]} is defined twice in one scope")
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

    def _statement(self, statement: str) -> None:
        if statement.startswith(".reg"):
            self._declare_registers(statement)
        elif statement.startswith(".param"):
            self._declare_argument(statement)
        elif statement.startswith(".branchtargets"):
            self.scope.tables[self.last_label] = split_list(statement.removeprefix(".branchtargets"))
        elif statement.startswith((".pragma", ".callprototype")):
            pass
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
        names = tuple(modifiers.split(".")[1:])
        if opcode == "call" and self._inline(rest, predicate):
            return
        if opcode == "ret" and self.callers:
            self._branch(_RETURN, predicate)
        elif opcode == "bra":
            self._branch(rest.strip(), predicate, names)
        elif opcode == "brx":
            self._branch_by_table(names, rest, predicate)
        elif opcode == "call":
            operands = (Label(" ".join(rest.split())), *self._arguments(rest))
            self._append(Instruction(opcode, names, operands, predicate, self.line, self.location))
        elif predicate is not None and done_together(opcode, names):
            with self._only_where(predicate):
                self._plain(opcode, names, rest, None)
        else:
            self._plain(opcode, names, rest, predicate)

    def _plain(self, opcode: str, names: tuple[str, ...], rest: str, predicate: Register | Negated | None) -> None:
        """Append an instruction other than a branch or a call."""
        items = split_list(rest)
        if opcode in ("ld", "st"):  # an element of an array is its address, in brackets or not
            items = [f"[{item}]" if item.endswith("]") and item[0] not in "[{" else item for item in items]
        operands = tuple(self._operand(item) for item in items)
        if names[-1:] == ("b128",) and opcode not in ("mov", "atom"):
            names, operands = in_halves(names, operands)
        if "param" in names and any(_is_local(operand) for operand in operands):  # the argument of a call
            names = tuple("local" if name == "param" else name for name in names)
        self._append(Instruction(opcode, names, operands, predicate, self.line, self.location))

    @contextmanager
    def _only_where(self, predicate: Register | Negated | None) -> Iterator[None]:
        """Let the appended instructions run only where a predicate holds, by a branch around them."""
        scope, beyond = self.scope, f"{_AFTER}{len(self.entry.instructions)}"
        if predicate is not None:
            self._branch(beyond, inverted(predicate))
        yield
        scope.labels[beyond] = len(self.entry.instructions)

    def _append(self, instruction: Instruction) -> None:
        self._require_few(len(self.entry.instructions) + 1)
        self.entry.instructions.append(instruction)

    def _require_few(self, statements: int) -> None:
        if statements > _MOST_INSTRUCTIONS:
            raise UnsupportedInstruction(
                f"PTX line {self.line}: {self.entry.name} has more than {_MOST_INSTRUCTIONS} statements once its "
                "calls are expanded: call fewer functions in it"
            )

    def _branch(self, label: str, predicate: Register | Negated | None = None, modifiers: tuple[str, ...] = ()) -> None:
        instruction = Instruction("bra", modifiers, (Label(label),), predicate, self.line, self.location)
        self.branches.append((instruction, label, self.scope))
        self._append(instruction)

    def _branch_by_table(self, names: tuple[str, ...], rest: str, predicate: Register | Negated | None) -> None:
        """brx.idx: a check that the index is in the list, then a comparison and a branch per label but the last."""
        index, table = split_list(rest)
        labels = next((scope.tables[table] for scope in self.scope.chain() if table in scope.tables), None)
        if not labels:
            raise self._error(f"no .branchtargets {table!r}")
        operand = self._operand(index)
        with self._only_where(predicate):
            bounded = (operand, Integer(len(labels)))
            self._append(Instruction("brx", names, bounded, None, self.line, self.location))
            for place, label in enumerate(labels[:-1]):
                chosen = Register(f"%brx{place}", "pred")
                compare = (chosen, operand, Integer(place))
                self._append(Instruction("setp", ("eq", "u32"), compare, None, self.line, self.location))
                self._branch(label, chosen)
            self._branch(labels[-1])

    # Calls --------------------------------------------------------------------------------------------------------

    def _inline(self, call: str, predicate: Register | Negated | None) -> bool:
        """Replace a call by the body of its function; False if the module does not have the body."""
        match = _CALL.match(call)
        if match is None:
            raise self._error(f"cannot parse the call {call!r}")
        if match["name"] == PRINTF:
            if arguments := self._arguments(call):
                self._append(Instruction(PRINTF, (), tuple(arguments), predicate, self.line, self.location))
            return True
        function = self.module.functions.get(match["name"])
        if function is None:
            return False
        if function.name in self.callers:
            raise UnsupportedInstruction(
                f"PTX line {self.line}: {function.name} calls itself, and calls are emulated by expansion: "
                "write the recursion as a loop"
            )
        if len(self.callers) == _MOST_CALLS:
            raise UnsupportedInstruction(
                f"PTX line {self.line}: the call of {function.name} stands in {_MOST_CALLS} calls within each "
                "other, and no more are expanded: let the compiler inline some of them"
            )
        if not self.callers:
            self.expanded += self.expansion.size(function.name)
            self._require_few(self.expanded)
        results, arguments = (
            [self._operand(x) for x in split_list(match[group] or "")] for group in ("results", "arguments")
        )
        if (len(results), len(arguments)) != (len(function.results), len(function.parameters)):
            raise self._error(f"a call of {function.name} with another number of arguments than it has")
        with self._only_where(predicate):
            self._expand(function, arguments, results)
        return True

    def _arguments(self, call: str) -> list[Operand]:
        """The arguments of a call of a function that the module does not have, if they lie in local memory."""
        match = _CALL.match(call)
        assert match is not None  # see _inline
        arguments = [self._operand(text) for text in split_list(match["arguments"] or "")]
        return arguments if all(map(_is_local, arguments)) else []

    def _expand(self, function: Function, arguments: list[Operand], results: list[Operand]) -> None:
        """Append the body of a function."""
        caller = self.scope, self.position, self.location
        self.scope = formal = Scope(self.module_scope)
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            self._bind(parameter, argument, reads=True)
        for parameter, result in zip(function.results, results, strict=True):
            self._bind(parameter, result, reads=False)
        stack = Register("%stack", "b64") if self._allocates(function) else None
        if stack is not None:  # what a function allocates ends with it
            self._append(Instruction("stacksave", ("u64",), (stack,), None, self.line, self.location))
        self.callers.append(function.name)
        self.position = function.start
        self._body()
        self.callers.pop()
        self._drop_last_return()
        formal.labels[_RETURN] = len(self.entry.instructions)
        self.scope, self.position, self.location = caller
        if stack is not None:
            self._append(Instruction("stackrestore", ("u64",), (stack,), None, self.line, self.location))
        for parameter, result in zip(function.results, results, strict=True):
            source = formal.names[parameter.name]
            if isinstance(source, Register) and source is not result:
                self._move(result, source)

    def _allocates(self, function: Function) -> bool:
        """Whether a function's own body allocates local memory."""
        if function.name not in self.allocate:
            body = self.text[function.start : matching_brace(self.text, function.start)]
            self.allocate[function.name] = "alloca" in body
        return self.allocate[function.name]

    def _drop_last_return(self) -> None:
        """Let the end of an expanded body continue with the next instruction."""
        last, label, _ = self.branches[-1] if self.branches else (None, "", None)
        if last is not None and label == _RETURN and last is self.entry.instructions[-1] and last.predicate is None:
            self.branches.pop()
            self.entry.instructions.pop()

    def _bind(self, parameter: FunctionParameter, operand: Operand, *, reads: bool) -> None:
        """Give a parameter of a function its meaning in the expanded body."""
        if not parameter.in_register:
            if not _is_local(operand):
                raise self._error(f"{parameter.name} is in .param space, and its argument is not")
            self.scope.names[parameter.name] = operand
            return
        register = new_register(parameter.name, parameter.type)
        self.scope.names[parameter.name] = register
        if reads:
            self._move(register, operand)

    def _move(self, destination: Operand, source: Operand) -> None:
        bits = destination.bits if isinstance(destination, Register) else 128
        kind = "pred" if bits == 1 else f"b{bits}"
        self._append(Instruction("mov", (kind,), (destination, source), None, self.line, self.location))

    def _declare_argument(self, statement: str) -> None:
        """Declare the place of a call's argument or result: local memory."""
        match = VARIABLE.match(statement.replace(".param", ".local", 1) + ";")
        if match is None:
            raise self._error(f"cannot parse the declaration {statement!r}")
        self._declare_variable(match)
        symbol = self.scope.names[match["name"]]
        assert isinstance(symbol, Symbol)
        self.entry.arguments.add(symbol.name)

    def _operand(self, text: str) -> Operand:
        try:
            return self.scope.operand(text)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _declare_registers(self, statement: str) -> None:
        try:
            declared = registers_of(statement, self._registers)
        except ValueError as error:
            raise self._error(str(error)) from None
        self._registers += len(declared)
        self.scope.names.update(declared)

    def _declare_variable(self, match: re.Match[str]) -> None:
        variable = variable_of(match, self.line)
        space = match["space"]
        variables = {"shared": self.entry.shared, "local": self.entry.local}.get(space)
        if variables is None:
            raise self._error(f"a .{space} variable inside a function")
        if variable.name in self.scope.names:
            raise self._error(f"the .{space} variable {variable.name} is declared twice")
        symbol = self.shared_at.get(self.position) if space == "shared" else None
        if symbol is None:  # several scopes may use one name
            name = variable.name if variable.name not in variables else f"{variable.name}#{len(variables)}"
            symbol = Symbol(name, space, element=variable.element)
            variables[name] = replace(variable, name=name)
            if space == "shared":
                self.shared_at[self.position] = symbol
        self.scope.names[variable.name] = symbol

    def _resolve_branches(self) -> None:
        for instruction, label, scope in self.branches:
            for candidate in scope.chain():
                if label in candidate.labels:
                    instruction.target = candidate.labels[label]
                    break
            else:
                raise PtxSyntaxError(f"PTX line {instruction.ptx_line}: no label {label!r}")

    def _error(self, message: str) -> PtxSyntaxError:
        return syntax_error(self.text, self.position, message)


def _is_local(operand: Operand) -> bool:
    """Whether this is the place of a call's argument, or an address in it."""
    base = operand.base if isinstance(operand, Address) else operand
    return isinstance(base, Symbol) and base.space == "local"
