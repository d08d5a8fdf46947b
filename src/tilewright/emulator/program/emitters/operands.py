"""Questions of emitters about an instruction: its space, and its operands' elements, addresses and immediates."""

from tilewright.emulator.program.writer import BlockWriter
from tilewright.emulator.ptx.syntax import Address, Instruction, Integer, Operand, Vector, described

HALVES = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16"}
"""16-bit floating-point types and pairs of them -> the type of one."""
SPACES = ("global", "const", "shared", "local", "param")


def is_float(kind: str) -> bool:
    """Whether a PTX type is one floating-point number."""
    return kind in ("f16", "bf16", "f32", "f64")


def space_of(instruction: Instruction) -> str:
    """The memory that an access names: global (with constants), shared, cluster, local, param or generic."""
    for modifier in instruction.modifiers:
        if modifier == "shared::cluster":
            return "cluster"
        base = modifier.split("::")[0]
        if base in SPACES:
            return "global" if base == "const" else base
    return "generic"


def mbarrier_space(instruction: Instruction) -> str:
    """The space of an mbarrier: shared, cluster or generic."""
    space = space_of(instruction)
    if space not in ("shared", "cluster", "generic"):
        raise ValueError("an mbarrier lies in shared memory")
    return space


def address_of(w: BlockWriter, operand: Operand, space: str) -> str:
    """The address in its space: 32 bits in shared and local memory, else 64."""
    if not isinstance(operand, Address):
        raise ValueError(f"{described(operand)} is not an address")
    dtype = "u4" if space in ("shared", "cluster", "local") else "u8"
    base = w.read(operand.base, dtype)
    return w.variable(f"{base} + {w.constant(operand.offset, dtype)}") if operand.offset else base


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector; any other operand is its own only element."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def count_of(operand: Operand) -> int:
    """The number of groups that may be pending; it fits 32 bits."""
    count = immediate_of(operand)
    if not 0 <= count < 1 << 31:
        raise ValueError(f"{count} groups")
    return count


def immediate_of(operand: Operand) -> int:
    """The value of an operand that must be an integer constant."""
    if not isinstance(operand, Integer):
        raise ValueError(f"{described(operand)} is not an immediate")
    return operand.value
