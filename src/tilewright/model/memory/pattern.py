"""A warp's addresses, given as an expression of `lane`: "lane * 4", "lane % 8 * 128 + lane // 8 * 16".

Other names have values that the caller gives, such as `step`. The expression is parsed and walked, never evaluated as
Python: it may have whole numbers, names, arithmetic, bits, comparisons, a choice (`... if lane < 8 else None`, where
None means no access) and the swizzles of TMA as functions.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.hardware import WARP
from tilewright.model.memory.banks import MOST_BYTES, Indices
from tilewright.model.memory.swizzle import SWIZZLES
from tilewright.rounding import natural

MOST_CHARACTERS = 300
"""So that what is nested stays far from Python's limit."""

OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
"""The operations of formulas by their nodes in a syntax tree, for whole numbers and for arrays of them."""
_COMPARISONS: dict[type[ast.AST], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[[int], int]] = {
    **{f"swizzle{span}": swizzle for span, swizzle in SWIZZLES.items()},
    "abs": abs,
}
ALLOWED = (
    "whole numbers, + - * // % & | ^ << >>, comparisons, `X if CONDITION else Y`, None for no access, and "
    + ", ".join(f"{name}(X)" for name in _FUNCTIONS)
)


class Expression:
    """A parsed expression; `value` computes it for given values of its names.

    Raises an ArgumentValueError for a text that is none.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise ArgumentValueError(f"expression={text!r} is no text: use {ALLOWED}")
        if len(text) > MOST_CHARACTERS:
            raise ArgumentValueError(f"the expression has {len(text)} characters: use {MOST_CHARACTERS} at most")
        self._text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ArgumentValueError(f"{text!r} is no expression: use {ALLOWED}") from None

    def value(self, **names: int) -> int | None:
        """A number from 0 on, or None. Raises an ArgumentValueError for what is not understood, and other values."""
        value = _Walk(self._text, names).value(self._tree)
        if value is not None and (isinstance(value, bool) or not 0 <= value < MOST_BYTES):
            where = _where(names)
            raise ArgumentValueError(f"{self._text!r} is {value} in {where}: give a number from 0 on, or None")
        return value


def addresses_of(expression: "str | Expression", lanes: int = WARP, **names: int) -> Indices:
    """The addresses of a warp's 32 lanes in bytes, -1 for none; only the first `lanes` lanes access.

    names: the values of further names, the same in all lanes.

    Raises an ArgumentValueError that names what the expression must not have, and where a value is impossible.
    """
    natural("lanes", lanes, 1, WARP)
    parsed = expression if isinstance(expression, Expression) else Expression(expression)
    found = np.full(WARP, -1, np.int64)
    for lane in range(lanes):
        value = parsed.value(lane=lane, **names)
        if value is not None:
            found[lane] = value
    return found


def _where(names: dict[str, int]) -> str:
    """Where an expression is computed: the first of its names."""
    return " ".join(map(str, next(iter(names.items()))))


class _Walk:
    """The evaluation of an expression for some values of its names."""

    def __init__(self, expression: str, names: dict[str, int]) -> None:
        self._expression, self._names = expression, names

    def value(self, node: ast.AST) -> Any:
        """The value of a part of the expression: an integer, a truth value, or None."""
        match node:
            case ast.Constant(int() | None as value):
                return value
            case ast.Name(name) if name in self._names:
                return self._names[name]
            case ast.BinOp(left, operation, right) if type(operation) in OPERATIONS:
                return self._operate(operation, self._number(left), self._number(right))
            case ast.UnaryOp(ast.USub(), operand):
                return -self._number(operand)
            case ast.UnaryOp(ast.Not(), operand):
                return not self.value(operand)
            case ast.BoolOp(operation, values):
                combine = all if isinstance(operation, ast.And) else any
                return combine(self.value(each) for each in values)
            case ast.Compare(left, operations, others) if all(type(each) in _COMPARISONS for each in operations):
                numbers = [self._number(each) for each in (left, *others)]
                pairs = zip(operations, numbers, numbers[1:], strict=False)
                return all(_COMPARISONS[type(each)](a, b) for each, a, b in pairs)
            case ast.IfExp(condition, then, otherwise):
                return self.value(then if self.value(condition) else otherwise)
            case ast.Call(ast.Name(name), [argument], []) if name in _FUNCTIONS:
                return _FUNCTIONS[name](self._number(argument))
        raise ArgumentValueError(
            f"{ast.unparse(node)!r} in {self._expression!r} is not understood: use {', '.join(self._names)}, {ALLOWED}"
        )  # fmt: skip

    def _number(self, node: ast.AST) -> int:
        value = self.value(node)
        if value is None:
            raise ArgumentValueError(
                f"{self._expression!r} computes with None in {_where(self._names)}: use None alone"
            )
        return int(value)

    def _operate(self, operation: ast.AST, left: int, right: int) -> int:
        try:
            if isinstance(operation, ast.LShift | ast.RShift) and right >= MOST_BYTES.bit_length():
                raise OverflowError
            value: int | None = OPERATIONS[type(operation)](left, right)
        except (ZeroDivisionError, ValueError, OverflowError):
            value = None
        if value is None or abs(value) > MOST_BYTES:
            raise ArgumentValueError(
                f"{self._expression!r} has no usable value in {_where(self._names)}: it divides by 0, shifts by an "
                "impossible number or grows beyond 48 bits; choose other numbers"
            )
        return value
