"""The tree of an expression, and the operations of which it is made."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

Gate = Literal["interleaved", "stacked"]
"""How columns of the sum become pairs x and y: 2j and 2j + 1, or j and j + n / 2."""

GATES: tuple[str, ...] = get_args(Gate)


OUTPUTS = ("acc", "amax", "column_sums")
"""What an epilogue may write besides out: the sums, the largest magnitude of the results, and their sums over rows."""


SCALES = ("scale_a", "scale_b")
"""The operands that scale sums before an expression reads them; those that it names itself are called otherwise."""

ZERO, OUT_SCALE = "zero_a", "scale_out"
"""What stands for 0 in a, and what results are divided by when they are stored."""

SUMS_OF_B = "sums of b"
"""The sum of each column of b, which a launch ahead may have made: what zero points of a are multiplied by."""

HIDDEN = (*SCALES, ZERO, SUMS_OF_B, OUT_SCALE)
"""The operands that no text names: those that act on sums, and OUT_SCALE."""

GIVEN = (*SCALES, ZERO, OUT_SCALE)
"""Those of HIDDEN that a call gives."""


def finished_text(activation: str | None, gate: str | None = None, sums: str = "acc") -> str:
    """The expression of an activation alone: of the sums, maybe with more in them, or of a gate's first value."""
    first = sums if gate is None else "x"
    finished = f"{activation}({first})" if activation else first
    return finished if gate is None else f"{finished} * y"


def sums_of(gate: str | None) -> tuple[str, ...]:
    """The names of alpha times the sum, or of its pairs."""
    return ("acc",) if gate is None else ("x", "y")


OPERATIONS: dict[str, tuple[int, str]] = {
    "+": (2, "__fadd_rn({}, {})"),
    "-": (2, "__fsub_rn({}, {})"),
    "*": (2, "__fmul_rn({}, {})"),
    "/": (2, "div_full({}, {})"),
    "negate": (1, "-{}"),
    "abs": (1, "fabsf({})"),
    "exp": (1, "expf({})"),
    "log": (1, "logf({})"),
    "sqrt": (1, "sqrt_approx({})"),
    "rsqrt": (1, "rsqrtf({})"),
    "tanh": (1, "tanhf({})"),
    "erf": (1, "erff({})"),
    "sigmoid": (1, "Sigmoid::apply({})"),
    "relu": (1, "Relu::apply({})"),
    "gelu": (1, "Gelu<Output>::apply({})"),
    "gelu_tanh": (1, "GeluTanh<Output>::apply({})"),
    "silu": (1, "Silu::apply({})"),
    "min": (2, "lesser({}, {})"),
    "max": (2, "greater({}, {})"),
    "where": (3, "{} ? {} : {}"),
    "<": (2, "{} < {}"),
    "<=": (2, "{} <= {}"),
    ">": (2, "{} > {}"),
    ">=": (2, "{} >= {}"),
    "==": (2, "{} == {}"),
    "!=": (2, "{} != {}"),
}
"""Every operation by name: how many values it takes, and its CUDA, in which Output is the type of the results.

The functions are in cuda/epilogue/.
"""

LONG = {"/", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "gelu", "gelu_tanh", "silu"}
"""The operations that take some eight instructions rather than one."""

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
"""The operations whose value is a condition, which only `where` takes, as its first."""

FUNCTIONS = tuple(name for name in OPERATIONS if name.isidentifier() and name != "negate")
"""The operations that an expression calls by name."""


class Number(NamedTuple):
    """A constant, which fp32 holds exactly; it is not negative."""

    value: float


class Name(NamedTuple):
    """A sum or an operand."""

    name: str


class Operation(NamedTuple):
    """One of OPERATIONS on its values."""

    name: str
    values: "tuple[Node, ...]"


Node: TypeAlias = Number | Name | Operation


class Typed:
    """The text of an expression as its user typed it. All are equal, since texts that mean the same share plans."""

    __slots__ = ("text",)

    def __init__(self, text: str = ""):
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return repr(self.text)


class Expression(NamedTuple):
    """A checked expression. Texts that differ in spaces and parentheses alone give equal ones.

    operands: the names that it reads besides the sums, in the order of the text, behind those of HIDDEN
    that there are. gate: one of GATES, or None. outputs: of OUTPUTS, in that order. recipe: what of a and b each scale
    is for, or None if sums are not scaled. typed: what `text` is made of.
    """

    root: Node
    operands: tuple[str, ...]
    gate: str | None = None
    outputs: tuple[str, ...] = ()
    recipe: str | None = None
    typed: Typed = Typed()

    def __str__(self) -> str:
        return spelled(self.root)

    @property
    def text(self) -> str:
        """The text that was typed, or the spelling of a tree that was made otherwise."""
        return self.typed.text or str(self)

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of the sums."""
        return sums_of(self.gate)

    @property
    def scales(self) -> tuple[str, ...]:
        """The operands of HIDDEN that there are."""
        return tuple(name for name in self.operands if name in HIDDEN)

    @property
    def has_zero(self) -> bool:
        """Whether a has a zero point."""
        return ZERO in self.scales

    @property
    def sums_b(self) -> bool:
        """Whether a kernel must sum the columns of b itself, which zero points are multiplied by."""
        return self.has_zero and SUMS_OF_B not in self.scales

    @property
    def named(self) -> tuple[str, ...]:
        """The operands that the text names."""
        return self.operands[len(self.scales) :]

    @property
    def operations(self) -> int:
        """The number of operations."""
        return sum(isinstance(node, Operation) for node in nodes(self.root))

    @property
    def instructions(self) -> int:
        """About how many instructions its operations take."""
        return instructions_of(node.name for node in nodes(self.root) if isinstance(node, Operation))

    def cuda(self, names: Mapping[str, str]) -> str:
        """The CUDA expression, with these CUDA expressions of type float for the sums and the operands.

        It includes nothing of the user's text: each name is looked up, and each number is written anew.
        """
        return _written(joined(self.root), _CUDA, names, lambda value: f"{value.hex()}f")


def instructions_of(operations: Iterable[str]) -> int:
    """About how many instructions these operations take."""
    return sum(8 if name in LONG else 1 for name in operations)


def nodes(root: Node) -> Iterator[Node]:
    """The nodes of a tree, each before its values."""
    yield root
    if isinstance(root, Operation):
        for value in root.values:
            yield from nodes(value)


def spelled(node: Node) -> str:
    """The text of a tree, as its user would write it, with parentheses around each operation in another's values."""
    names = {each.name: each.name for each in nodes(node) if isinstance(each, Name)}
    return _written(node, _SPELLINGS, names, lambda value: repr(value).removesuffix(".0"))


_SPELLINGS = {
    **{name: f"{{}} {name} {{}}" for name in OPERATIONS},
    **{name: f"{name}({', '.join(['{}'] * OPERATIONS[name][0])})" for name in FUNCTIONS},
    "negate": "-{}",
}
_CUDA = {name: cuda for name, (_, cuda) in OPERATIONS.items()} | {"join": "__fmaf_rn({}, {}, {})"}
"""With roundings written out: left to itself, the compiler joins operations in one kernel and not in another."""


def joined(node: Node) -> Node:
    """The tree with a product and an addition of it as one operation, which rounds once: by this rule alone."""
    if not isinstance(node, Operation):
        return node
    name, values = node.name, tuple(map(joined, node.values))
    if name in ("+", "-"):
        first, second = values
        if isinstance(first, Operation) and first.name == "*":
            return Operation("join", (*first.values, second if name == "+" else Operation("negate", (second,))))
        if isinstance(second, Operation) and second.name == "*":
            left, right = second.values
            return Operation("join", (left if name == "+" else Operation("negate", (left,)), right, first))
    return Operation(name, values)


def _written(
    node: Node, operations: Mapping[str, str], names: Mapping[str, str], number: Callable[[float], str]
) -> str:
    """A tree in a language that writes operations, names and numbers so."""
    match node:
        case Number(value):
            return number(value)
        case Name(name):
            return names[name]
        case Operation(name, values):
            parts = [_written(value, operations, names, number) for value in values]
            if not operations[name].endswith(")"):
                infix = [isinstance(each, Operation) and not operations[each.name].endswith(")") for each in values]
                parts = [f"({part})" if inner else part for part, inner in zip(parts, infix, strict=True)]
            return operations[name].format(*parts)
