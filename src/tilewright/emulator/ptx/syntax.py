"""PTX as data: modules, entries, instructions and their operands. `parser` makes them from text."""

from dataclasses import dataclass, field
from typing import TypeAlias

TYPE_BITS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "b128": 128,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """One virtual register of a PTX type; identity is the object, because scopes may repeat names."""

    name: str
    type: str

    @property
    def bits(self) -> int:
        """The bits that hold it: 16 for a type of 8 bits; instructions then use the low 8."""
        return max(TYPE_BITS[self.type], 16) if self.type != "pred" else 1


CARRY = Register("CC.CF", "pred")
"""The carry flag, unnamed in PTX: instructions with .cc write it; addc, subc and madc read it."""


PRINTF = "vprintf"
"""The function of the device's runtime that prints; a call of it becomes an instruction of this name."""


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
    """The address of a variable, plus `offset` bytes.

    space: param, shared, local or global (module constants are global).
    element: bytes of an element of the variable, 0 if it cannot be indexed.
    """

    name: str
    space: str
    offset: int = 0
    element: int = 0


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
class Selected:
    """An operand of a video instruction of which parts are selected or which is negated: a.h1, a.b3210, -a.

    parts: the selector without its dot, empty for all of the operand.
    """

    operand: "Operand"
    parts: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination `_`, which drops its value."""


Operand: TypeAlias = (
    Register | Integer | Float | Special | Symbol | Label | Address | Vector | Pair | Negated | Selected | Sink
)


@dataclass(frozen=True, slots=True)
class Location:
    """A CUDA source line of an instruction, and the line of the kernel that it was inlined into.

    chain: "file:line" of all lines between the two, both included, innermost first.
    """

    file: str
    line: int
    root_file: str
    root_line: int
    chain: tuple[str, ...]

    def __str__(self) -> str:
        here = f"{self.file}:{self.line}"
        root = f"{self.root_file}:{self.root_line}"
        return here if here == root else f"{here}, called from {root}"


@dataclass(slots=True)
class Instruction:
    """One PTX instruction: `opcode.modifiers operands`, guarded by `predicate`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | Negated | None
    ptx_line: int
    location: Location | None
    target: int = -1  # the index of a branch's target instruction

    @property
    def action(self) -> str:
        """The first modifier, empty if there is none."""
        return self.modifiers[0] if self.modifiers else ""

    @property
    def name(self) -> str:
        """Opcode and modifiers as written."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        called = self.operands[0] if self.opcode == "call" else None
        callee = f" {called.name}" if isinstance(called, Label) else ""
        return f"`{self.name}{callee}`{where} (PTX line {self.ptx_line})"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte offset in the parameter space, size, and type (of an element, for arrays of bytes)."""

    name: str
    offset: int
    size: int
    type: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a memory space; `offset` counts from the start of the entry's memory of that space.

    element: bytes of an element of an array of one dimension, otherwise 0.
    refusal: why kernels that name it cannot be emulated, empty if they can.
    """

    name: str
    align: int
    size: int
    offset: int = 0
    data: bytes = b""
    element: int = 0
    refusal: str = ""


@dataclass(slots=True)
class Entry:
    """One kernel of a module."""

    name: str
    parameters: list[Parameter] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    shared: dict[str, Variable] = field(default_factory=dict)
    local: dict[str, Variable] = field(default_factory=dict)
    variables: tuple[str, ...] = ()  # those of the module that it names
    shared_bytes: int = 0  # static; dynamic shared memory starts at dynamic_offset
    dynamic_offset: int = 0
    local_bytes: int = 0
    stack_start: int = 0  # local memory that threads allocate while they run
    arguments: set[str] = field(default_factory=set)  # arguments of calls, among the local variables
    constants: dict[str, Variable] = field(default_factory=dict)  # the module's constants
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # reqntid, maxntid, reqnctapercluster...
    refusal: str = ""  # why it cannot be emulated, if parsing showed it

    @property
    def allocates(self) -> bool:
        """Whether threads allocate local memory while they run."""
        return any(instruction.opcode == "alloca" for instruction in self.instructions)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the parameter space."""
        return max((parameter.offset + parameter.size for parameter in self.parameters), default=0)


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """A parameter or a result of a device function: a register of a type, or a place in the .param space."""

    name: str
    in_register: bool
    type: str


@dataclass(frozen=True, slots=True)
class Function:
    """A device function; `start` is the position of its body's opening brace in the text."""

    name: str
    results: tuple[FunctionParameter, ...]
    parameters: tuple[FunctionParameter, ...]
    start: int


@dataclass(slots=True)
class Module:
    """A parsed PTX module: entries, device functions, and variables by name.

    variables: those of the global and const spaces.
    constants: those of const.
    """

    version: tuple[int, int]
    target: str
    entries: dict[str, Entry] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    constants: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, Variable] = field(default_factory=dict)
    dynamic_shared: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)


def described(operand: Operand) -> str:
    """An operand in words."""
    match operand:
        case Register(name, kind):
            return f"register {name} of type .{kind}"
        case Negated(register):
            return f"!{register.name}"
        case Selected(selected, parts, negated):
            return f"{'-' * negated}{described(selected)}{'.' * bool(parts)}{parts}"
        case Integer(value):
            return f"the integer {value}"
        case Float(value):
            return f"the floating-point constant {value}"
        case Special(name):
            return f"%{name}"
        case Symbol(name) | Label(name):
            return name
        case Sink():
            return "_"
    return {Address: "an address", Vector: "a vector", Pair: "a pair"}[type(operand)]
