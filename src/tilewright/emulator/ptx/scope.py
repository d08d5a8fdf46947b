"""A scope of a body: the names declared between one pair of braces, and the meanings of operands there."""

import re
from collections.abc import Iterator
from dataclasses import replace

from tilewright.emulator.ptx.constants import constant_of
from tilewright.emulator.ptx.lexical import split_list
from tilewright.emulator.ptx.syntax import (
    Address,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    Sink,
    Special,
    Symbol,
    Vector,
)

_OFFSET = re.compile(r"([^+]*?) ?\+ ?(.+)$")
_SELECTED = re.compile(r"(?P<minus>-)?(?P<name>[%\w$]+)(?:\.(?P<parts>[bh][0-7]{1,4}))?$", re.A)
_ELEMENT = re.compile(r"([\w$%]+) ?\[ ?(.+?) ?\]$")
_BEGINS_EXPRESSION = frozenset("0123456789(-+~!W")


class Scope:
    """Names declared between one pair of braces."""

    def __init__(self, parent: "Scope | None") -> None:
        self.parent = parent
        self.names: dict[str, Operand] = {}
        self.labels: dict[str, int] = {}
        self.tables: dict[str, list[str]] = {}  # branch tables

    def chain(self) -> "Iterator[Scope]":
        """This scope and those around it, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def operand(self, text: str) -> Operand:
        """The meaning of an operand here. Raises ValueError if it has none."""
        for scope in self.chain():
            if (known := scope.names.get(text)) is not None:
                return known
        head = text[:1]
        if head == "[":
            operand: Operand = self._address(text[1:-1].strip())
        elif head == "{":
            operand = Vector(tuple(self.operand(item) for item in split_list(text[1:-1])))
        elif text == "_":
            operand = Sink()
        elif head in _BEGINS_EXPRESSION and (constant := constant_of(text)) is not None:
            operand = constant
        elif head == "!":
            register = self.operand(text[1:].lstrip(" !"))
            if not isinstance(register, Register) or text[1:].lstrip().startswith("!"):
                raise ValueError(f"{text!r} negates something that is not a register")
            operand = Negated(register)
        elif "|" in text:
            first, *others = text.split("|")
            if len(others) > 1:
                raise ValueError(f"{text!r} is not a pair")
            operand = Pair(self.operand(first.strip()), self.operand(others[0].strip()))
        elif (match := _SELECTED.match(text)) and (match["minus"] or self._declares(match["name"])):
            operand = Selected(self.operand(match["name"]), match["parts"] or "", bool(match["minus"]))
        elif head == "%":
            operand = Special(text[1:])
        elif match := _ELEMENT.match(text):
            variable = self.operand(match[1])
            operand = self._beyond(variable, match, variable.element if isinstance(variable, Symbol) else 0)
        elif match := _OFFSET.match(text):
            operand = self._beyond(self.operand(match[1]), match, 1)
        else:
            raise ValueError(f"{text!r} is not declared")
        return operand

    def _declares(self, name: str) -> bool:
        """Whether this is the name of a register."""
        return any(isinstance(scope.names.get(name), Register) for scope in self.chain())

    def _address(self, text: str) -> Address:
        items = split_list(text)
        if not items or (len(items) == 1 and items[0][:1] in ("[", "{")):
            raise ValueError(f"[{text}] is not an address")
        if len(items) == 2:
            if items[0][:1] == "[" or items[1][:1] == "[":  # would nest without limit
                raise ValueError(f"[{text}] is not an address")
            coordinates = self.operand(items[1])
            if not isinstance(coordinates, Vector):
                raise ValueError(f"[{text}] is not a tensor address")
            base = self._address(items[0])
            return Address(base.base, base.offset, coordinates.elements)
        if not _ELEMENT.match(items[0]) and (match := _OFFSET.match(items[0])):
            return Address(self.operand(match[1]), _number(match))
        return Address(self.operand(items[0]))

    def _beyond(self, symbol: Operand, match: re.Match[str], unit: int) -> Symbol:
        """The address a number of units, of so many bytes, beyond a variable's."""
        if not isinstance(symbol, Symbol) or not unit:
            raise ValueError(f"{match[0]!r} is not an address of a variable")
        return replace(symbol, offset=symbol.offset + unit * _number(match))


def _number(match: re.Match[str]) -> int:
    """The number after + or in brackets."""
    offset = constant_of(match[2])
    if not isinstance(offset, Integer):
        raise ValueError(f"{match[2]!r} is not an offset of an address")
    return offset.value
