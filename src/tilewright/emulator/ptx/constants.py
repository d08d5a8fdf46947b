"""Constants and constant expressions. Source: PTX ISA, "Constants", "Integer Constant Expression Evaluation"."""

import operator
import re
import struct
from collections.abc import Callable
from functools import lru_cache
from math import copysign, inf, nan
from typing import TypeAlias

from tilewright.emulator.ptx.syntax import Float, Integer

_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,32})|0[bB]([01]{1,128})|0([0-7]{1,40})|([0-9]{1,39}))(U?)", re.A)
_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})|(-?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?)")
_PREDEFINED = {"WARP_SZ": Integer(32)}
"""The constant that PTX defines (PTX ISA, "Predefined Constants")."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[fFdD][0-9a-fA-F]+|[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?"
    r"|WARP_SZ)(?![\w.])|(?P<cast>\(\s*\.(?:s64|u64)\s*\))|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+~!*/%<>&^|?:()]))",
    re.A,
)
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_BINDS = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
"""How much binary operators bind, from the least on."""
_MOST_NESTED = 64

Number: TypeAlias = "tuple[int, bool] | float"
"""An integer of 64 bits and whether it is unsigned, or a floating-point number."""


@lru_cache(maxsize=1 << 12)
def parse_constant(text: str) -> Integer | Float | None:
    """An integer or floating-point constant, or None."""
    if match := _FLOAT.fullmatch(text):
        if match[1]:
            return Float(struct.unpack(">f", bytes.fromhex(match[1]))[0], 32)
        return Float(float(match[3]) if match[3] else struct.unpack(">d", bytes.fromhex(match[2]))[0], 64)
    if match := _INTEGER.fullmatch(text):
        digits, base = next((match[index], base) for index, base in ((2, 16), (3, 2), (4, 8), (5, 10)) if match[index])
        return Integer(-int(digits, base) if match[1] else int(digits, base))
    return _PREDEFINED.get(text)


def constant_of(text: str) -> Integer | Float | None:
    """The value of a constant or an expression of them, or None. Raises ValueError for one that has no value."""
    found = parse_constant(text)
    return parse_expression(text) if found is None else found


@lru_cache(maxsize=1 << 10)
def parse_expression(text: str) -> Integer | Float | None:
    """The value of an expression of constants, or None if it is none. Raises ValueError for one that has no value."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        tokens.append((match.lastgroup or "", match[match.lastgroup or 0].strip()))
        position = match.end()
    try:
        value = _Expression(tokens).value()
    except _NoExpression:
        return None
    if isinstance(value, float):
        return Float(value, 64)
    return Integer(value[0])


class _NoExpression(Exception):
    """The text is no expression of constants."""


class _Expression:
    """The tokens of an expression, read from the left."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._next, self._nested = [*tokens, ("end", "")], 0, 0

    def value(self) -> Number:
        """The value of all of it."""
        value = self._chosen()
        self._take("")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next][1]

    def _take(self, expected: str) -> None:
        if self._peek() != expected:
            raise _NoExpression
        self._next += 1

    def _chosen(self) -> Number:
        condition = self._binary(0)
        if self._peek() != "?":
            return condition
        self._take("?")
        first = self._part(self._chosen)
        self._take(":")
        second = self._part(self._chosen)
        return first if _is_true(condition) else second

    def _part(self, read: Callable[[], Number]) -> Number:
        """Read what stands within something else."""
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ValueError(f"constants are nested more than {_MOST_NESTED} deep")
        value = read()
        self._nested -= 1
        return value

    def _binary(self, least: int) -> Number:
        """The value up to an operator that binds less."""
        left = self._unary()
        while (binds := _BINDS.get(sign := self._peek(), -1)) >= least:
            self._take(sign)
            left = _applied(sign, left, self._binary(binds + 1))
        return left

    def _unary(self) -> Number:
        kind, text = self._tokens[self._next]
        self._next += 1
        if kind == "number":
            return _number(text)
        if kind == "cast":
            value = self._part(self._unary)
            return _wrapped(int(value) if isinstance(value, float) else value[0], "u64" in text)
        if text == "(":
            value = self._part(self._chosen)
            self._take(")")
            return value
        if text not in ("-", "+", "!", "~"):
            raise _NoExpression
        if self._peek()[:2].lower() in ("0f", "0d"):  # has a sign of its own
            raise _NoExpression
        value = self._part(self._unary)
        if text == "+":
            return value
        if text == "!":
            return (int(not _is_true(value)), False)
        if isinstance(value, float):
            if text == "~":
                raise _NoExpression
            return -value
        return _wrapped(-value[0], value[1]) if text == "-" else _wrapped(~value[0], True)


def _number(text: str) -> Number:
    found = parse_constant(text)
    if isinstance(found, Float):
        return found.value
    if found is None:  # too many digits, or too few
        raise _NoExpression
    return _wrapped(found.value, text.endswith("U") or found.value >= 1 << 63)


def _wrapped(value: int, unsigned: bool) -> tuple[int, bool]:
    value &= (1 << 64) - 1
    return (value if unsigned or value < 1 << 63 else value - (1 << 64)), unsigned


def _is_true(value: Number) -> bool:
    return bool(value if isinstance(value, float) else value[0])


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def _applied(sign: str, left: Number, right: Number) -> Number:
    if sign in ("&&", "||"):
        true = (_is_true(left), _is_true(right))
        return (int(all(true) if sign == "&&" else any(true)), False)
    if isinstance(left, float) or isinstance(right, float):
        if not (isinstance(left, float) and isinstance(right, float)):
            raise ValueError(f"{sign!r} has a floating-point constant on one side and an integer on the other")
        return _of_floats(sign, left, right)
    unsigned = left[1] or right[1] or sign == "%"
    if sign in ("<<", ">>"):  # the type is the left one's; six bits of the right one count
        return _wrapped(left[0] << (right[0] & 63) if sign == "<<" else left[0] >> (right[0] & 63), left[1])
    first, second = (_wrapped(value[0], unsigned)[0] for value in (left, right))
    if sign in _COMPARE:
        return (int(_COMPARE[sign](first, second)), False)
    if sign in _OF_INTEGERS:
        return _wrapped(_OF_INTEGERS[sign](first, second), unsigned)
    if not second:
        raise ValueError("a constant is divided by zero")
    quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
    return _wrapped(quotient if sign == "/" else first - second * quotient, unsigned)


def _of_floats(sign: str, left: float, right: float) -> Number:
    if sign in _COMPARE:
        return (int(_COMPARE[sign](left, right)), False)
    if sign == "/" and not right:
        return nan if not left else copysign(inf, left) * copysign(1, right)
    of_floats: dict[str, Callable[[float, float], float]] = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    }  # fmt: skip
    if sign not in of_floats:
        raise ValueError(f"{sign!r} takes integers")
    return of_floats[sign](left, right)
