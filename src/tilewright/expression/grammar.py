"""From the text of an expression to its tree. Python's own parser reads it; what is not in the grammar is an error.

The grammar: numbers, `acc` and the names of operands, + - * /, unary -, the functions, and comparisons as the first
argument of `where`.
"""

import ast
import ctypes
import re
from collections.abc import Collection
from difflib import get_close_matches
from keyword import iskeyword
from math import inf, isinf

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import (
    COMPARISONS,
    FUNCTIONS,
    HIDDEN,
    OPERATIONS,
    Expression,
    Name,
    Node,
    Number,
    Operation,
    Typed,
    nodes,
    sums_of,
)

MOST_OPERANDS = 8
"""The most operands. Each takes registers for its address, and the parameters of a launch have room for so many."""

MOST_OPERATIONS = 64
"""The most operations. A thread applies all of them to each of its elements, with its accumulators in registers."""

DEEPEST = 64
"""How deep parentheses may be nested."""

LONGEST = 4096
"""The most characters of a text."""

_SHOWN = 100
"""The most characters of a text that an error shows."""

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS = dict(zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), COMPARISONS, strict=True))


def parse(text: str, names: Collection[str], gate: str | None = None) -> Expression:
    """The expression over `acc`, or x and y of a gate, and the operands `names`, all of which it must read.

    Raises TypeError for what is no text, and ValueError, with the place in the text, for one outside the grammar.
    """
    if not isinstance(text, str):
        given = _clipped(repr(text))
        raise ArgumentTypeError(f"epilogue={given} is no text: pass an expression such as 'gelu(acc + bias)'")
    sums = sums_of(gate)
    for name in names:
        check_name(name, sums)
    if len(names) > MOST_OPERANDS:
        raise ArgumentValueError(
            f"operands has {len(names)} arrays and an epilogue reads at most {MOST_OPERANDS}: add some of them "
            f"up first, or compute with them after the product\n{place_of(text, tuple(names)[MOST_OPERANDS])}"
        )
    root = _Reader(_line_of(text), (*sums, *names)).read()
    used = [node.name for node in nodes(root) if isinstance(node, Name)]
    for name in sums:
        if name not in used:
            raise ArgumentValueError(
                f"epilogue={_clipped(text)!r} does not read {name}, which is the sum{' of a column' if gate else ''}: "
                f"write an expression over {' and '.join(sums)}{', or leave gate= out' if gate else ''}"
            )
    if unused := [name for name in names if name not in used]:
        raise ArgumentValueError(
            f"operands has {', '.join(map(repr, unused))}, which epilogue={_clipped(text)!r} does not read: leave out "
            f"what is not read"
        )
    operands = tuple(dict.fromkeys(name for name in used if name not in sums))
    return Expression(root, operands, gate, typed=Typed(text))


def check_name(name: object, sums: Collection[str]) -> None:
    """Raise an error if an operand cannot be called so in an expression over these sums."""
    named = f"operands has the name {_clipped(repr(name))}"
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{named}: give it a text, as in operands={{'bias': bias}}")
    if name in HIDDEN:
        raise ArgumentValueError(
            f"{named}, which is an argument of its own: pass recipe= and {name}=, or take another name"
        )
    if not _NAME.fullmatch(name) or name in sums or name in FUNCTIONS or iskeyword(name):
        raise ArgumentValueError(
            f"{named}: take another, a letter and at most {_LONGEST_NAME - 1} letters, "
            f"digits and _; {', '.join(sums)}, functions and Python's keywords have their own meaning"
        )


def place(text: str, start: int, end: int) -> str:
    """The text of an expression, with the part from `start` to `end` marked below it."""
    line = _line_of(text)
    first = max(0, min(start - _SHOWN // 3, len(line) - _SHOWN))
    shown = line[first : first + _SHOWN].encode("utf-8", "replace").decode()  # half of a pair cannot be printed
    marked = max(1, min(end, first + _SHOWN) - start)
    lead, tail = "..." if first else "", "..." if first + _SHOWN < len(line) else ""
    return f"  {lead}{shown}{tail}\n  {' ' * (len(lead) + start - first)}{'^' * marked}"


def place_of(text: str, name: str) -> str:
    """The same for the first use of an operand."""
    found = re.search(rf"\b{name}\b", _line_of(text))
    return place(text, *found.span()) if found else ""


_PAIR = sums_of("stacked")
_LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{_LONGEST_NAME - 1}}}")
"""CUDA's own words, such as __shared__, begin with _, and a parameter of a kernel is called as its operand and a _."""
_SPACE = re.compile(r"[\t\n\r\f\v]")


def _line_of(text: str) -> str:
    """The text as one line of as many characters."""
    return _SPACE.sub(" ", text)


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class _Reader:
    """Reads one text; every error names its place."""

    def __init__(self, text: str, names: Collection[str]):
        self._text, self._names = text, names
        self._indent = len(text) - len(text.lstrip(" "))

    def read(self) -> Node:
        """The tree of the whole text."""
        text = self._text
        if not text.strip():
            raise ArgumentValueError("epilogue is an empty text: write an expression, or leave it out")
        self._check_nesting()
        if len(text) > LONGEST:
            message = f"it has {len(text)} characters and at most {LONGEST}, which end here, are read: write less"
            raise self._at(LONGEST, LONGEST + 1, message)
        for position, character in enumerate(text):
            if not (" " <= character <= "~") or character in "#\\":
                raise self._at(position, position + 1, f"{character!r} has no place in an expression: take it out")
        try:
            tree = ast.parse(text[self._indent :], mode="eval")
        except SyntaxError as error:
            start, reason = len(text.rstrip()), "it ends too early"
            if error.offset:
                start, reason = self._indent + error.offset - 1, error.msg
            end, remedy = self._indent + (error.end_offset or 0) - 1, "write it as Python would read it"
            for sign, instead in _SIGNS.items():
                if found := re.search(sign, text):
                    (start, end), remedy = found.span(), instead
            raise self._at(start, end, f"it does not parse ({reason}): {remedy}") from None
        except (RecursionError, MemoryError):
            raise self._at(0, len(text), _TOO_DEEP) from None
        self._check_count(tree.body)
        return self._value(tree.body)

    def _check_nesting(self) -> None:
        """Python's parser gives up at some depth; ours is less."""
        depth = 0
        for position, character in enumerate(self._text):
            depth += (character == "(") - (character == ")")
            if depth > DEEPEST:
                raise self._at(position, position + 1, _TOO_DEEP)

    def _check_count(self, root: ast.expr) -> None:
        """Raise an error at the first operation that is one too many, as the text is read."""
        places = sorted(place for node in ast.walk(root) for place in self._operations(node))
        if len(places) > MOST_OPERATIONS:
            raise self._at(
                *places[MOST_OPERATIONS],
                f"this is one operation more than the {MOST_OPERATIONS} that fit a thread's registers and code, of "
                f"{len(places)}: compute a part of it before the product, or after it",
            )

    def _operations(self, node: ast.AST) -> list[tuple[int, int]]:
        """The places of the operations of a part: from an operator to its second value, or a whole call."""
        match node:
            case ast.BinOp(left=left) | ast.Compare(left=left):
                return [(self._span(left)[1], self._span(node)[1])]
            case ast.UnaryOp():
                return [self._span(node)]
            case ast.Call(ast.Name("min" | "max"), args):
                return [self._span(value) for value in args[1:]]
            case ast.Call():
                return [self._span(node)]
        return []

    def _value(self, node: ast.expr) -> Node:
        """The tree of a part that stands for a number of each element."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return self._number(node, number)
            case ast.Constant(value=str()):
                raise self._fault(
                    node, "this is a string, and only numbers are computed with: write a number or a name"
                )
            case ast.Constant(value=value):
                raise self._fault(node, f"{_clipped(repr(value))} is no real number: write one such as 0.5")
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.BinOp(left, operator, right):
                if type(operator) not in _BINARY:
                    remedy = _POWER if isinstance(operator, ast.Pow) else "it with these and functions"
                    raise self._fault(node, f"of Python's operators, only + - * / are known: write {remedy}")
                return self._operation(_BINARY[type(operator)], [left, right])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._operation("negate", [operand])
            case ast.UnaryOp(op=ast.UAdd()):
                raise self._fault(node, "a + before a single value does nothing: leave it out")
            case ast.Call():
                return self._call(node)
            case ast.Compare():
                raise self._fault(node, f"a comparison is no number: use it in {_WHERE}")
            case ast.BoolOp():
                raise self._fault(node, f"and and or are not known: {_NEST}")
            case ast.IfExp():
                raise self._fault(node, f"if and else are not known: write {_WHERE}")
            case _:
                raise self._fault(node, "this is not in the grammar: use numbers, names, + - * / and functions")

    def _number(self, node: ast.expr, number: float) -> Number:
        try:
            rounded = ctypes.c_float(number).value
        except OverflowError:  # a whole number beyond float64
            rounded = inf
        if isinf(rounded):
            raise self._fault(node, "this number does not fit fp32, in which epilogues compute: at most 3.4028235e38")
        if number and not rounded:
            raise self._fault(node, "this number is 0 in fp32, in which epilogues compute: write at least 1.4e-45")
        return Number(rounded)

    def _name(self, node: ast.expr, name: str) -> Name:
        if name in FUNCTIONS:
            raise self._fault(node, f"{name} is a function: write {name}(...) with its values")
        if name not in self._names:
            known = ", ".join(self._names)
            pair = ", or a gate for x and y" if name in _PAIR else ""
            shown = _clipped(name)
            if name in sums_of(None) and set(_PAIR) <= set(self._names):
                raise self._fault(node, "with a gate there is no acc: its sums are x and y, so write them")
            if name.startswith("_"):
                raise self._fault(node, f"{shown} is unknown, and operands' names begin with a letter: use {known}")
            if name in ("inf", "nan"):
                raise self._fault(node, f"{name} is no number of epilogues: write one within 3.4028235e38 of 0")
            passed = f"pass operands={{{shown!r}: array}}, on a command line --operand {shown}=SHAPE"
            raise self._fault(node, f"{shown} is unknown{_meant(name, self._names)}: {passed}{pair}, or use {known}")
        return Name(name)

    def _call(self, node: ast.Call) -> Node:
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS:
                pass
            case ast.Constant() | ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Call():
                raise self._fault(node.func, "a value cannot be called: write * to multiply")
            case _:
                called = self._text[slice(*self._span(node.func))]
                wrong, short = f"{_clipped(called)} is no function of epilogues", called.rpartition(".")[2].lower()
                if written := f"{short}(...)" if short in FUNCTIONS else _WRITTEN.get(short):
                    raise self._fault(node.func, f"{wrong}: write {written}")
                if short in _LATER:
                    raise self._fault(node.func, f"{wrong}: compute it from the result")
                meant = _meant(called, FUNCTIONS)
                raise self._fault(node.func, f"{wrong}{meant}: use one of {', '.join(FUNCTIONS)}")
        unwanted: list[ast.expr | ast.keyword] = [value for value in node.args if isinstance(value, ast.Starred)]
        for value in unwanted + node.keywords:
            raise self._fault(value, f"{name} takes its values one by one, without names and stars")
        count, given = OPERATIONS[name][0], len(node.args)
        several = name in ("min", "max")
        if given != count and not (several and given > count):
            least = "at least " if several else ""
            wanted = f"{name} takes {least}{count} value{'s' * (count > 1)} and has {given}"
            raise self._fault(node, f"{wanted}: write {_USES.get(name, f'{name}(value)')}")
        if name == "where":
            return self._where(node)
        result = self._operation(name, node.args[:count])
        for another in node.args[count:]:  # min and max of several
            result = Operation(name, (result, self._value(another)))
        return result

    def _where(self, node: ast.Call) -> Operation:
        condition, *values = node.args
        match condition:
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
                compared = self._operation(_COMPARISONS[type(operator)], [left, right])
            case ast.Compare(ops=[_, _, *_]) | ast.BoolOp():
                raise self._fault(condition, f"several comparisons in one are not known: {_NEST}")
            case _:
                known = " ".join(COMPARISONS)
                raise self._fault(condition, f"where begins with a comparison by one of {known}: write such as acc > 0")
        return Operation("where", (compared, *(self._value(value) for value in values)))

    def _operation(self, name: str, values: list[ast.expr]) -> Operation:
        return Operation(name, tuple(self._value(value) for value in values))

    def _fault(self, node: ast.expr | ast.keyword, message: str) -> ArgumentValueError:
        """The error that points at a part of the text."""
        return self._at(*self._span(node), message)

    def _span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        return self._indent + node.col_offset, self._indent + (node.end_col_offset or 0)

    def _at(self, start: int, end: int, message: str) -> ArgumentValueError:
        return ArgumentValueError(f"epilogue: {message}\n{place(self._text, start, end)}")


def _meant(name: str, known: Collection[str]) -> str:
    """A question for a name that is almost a known one."""
    return "".join(f" (did you mean {each}?)" for each in get_close_matches(name[:_LONGEST_NAME], known, 1, 0.75))


_TOO_DEEP = f"parentheses and operations are nested more than {DEEPEST} deep here: compute a part of it by itself"
_WHERE = "where(comparison, value, other value)"
_NEST = "nest one where in another"
_SIGNS = {r"(?<![<>=!])=(?!=)": "compare with ==", r"&&|\|\|": _NEST, r"\?": f"write {_WHERE}"}
"""What stands for signs of C, if a text does not parse."""
_POWER = "value * value, or sqrt(value)"
_WRITTEN = {
    "swish": "silu(value)", "clamp": "min(max(value, least), most)", "clip": "min(max(value, least), most)",
    "pow": _POWER, "power": _POWER, "square": "value * value",
    "maximum": "max(value, other value)", "minimum": "min(value, other value)", "fabs": "abs(value)",
    "relu6": "min(max(value, 0), 6)", "leaky_relu": "max(value, 0.01 * value)",
    "softplus": "max(value, 0) + log(1 + exp(-abs(value)))", "elu": "where(value > 0, value, exp(value) - 1)",
    "mish": "value * tanh(max(value, 0) + log(1 + exp(-abs(value))))",
    "hardswish": "value * min(max(value + 3, 0), 6) / 6", "hardtanh": "min(max(value, -1), 1)",
    "exp2": "exp(0.69314718 * value)", "expm1": "exp(value) - 1", "log1p": "log(1 + value)",
    "log2": "1.442695 * log(value)", "log10": "0.4342945 * log(value)", "erfc": "1 - erf(value)",
    "swiglu": "silu(x) * y, with a gate", "geglu": "gelu(x) * y, with a gate", "reglu": "relu(x) * y, with a gate",
}  # fmt: skip
"""Functions of other libraries, in those of epilogues."""
_LATER = {"sin", "cos", "tan", "floor", "ceil", "round", "sign", "softmax", "log_softmax", "layernorm", "rmsnorm"}
"""Functions of other libraries that those of epilogues do not make up."""
_USES = {"where": _WHERE, "min": "min(value, other value)", "max": "max(value, other value)"}
