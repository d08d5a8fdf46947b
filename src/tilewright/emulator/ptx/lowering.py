"""Lowering to simpler means: registers of unusual widths, accesses of b128, guards of what threads do together."""

from tilewright.emulator.ptx.forms import ALIGNED, EXCHANGES
from tilewright.emulator.ptx.syntax import Negated, Operand, Register, Vector


def new_register(name: str, kind: str) -> Register | Vector:
    """A register of a type; one of 128 bits is the pair of its halves."""
    if kind == "b128":
        return Vector((Register(f"{name}.low", "b64"), Register(f"{name}.high", "b64")))
    return Register(name, kind)


def in_halves(modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> tuple[tuple[str, ...], tuple[Operand, ...]]:
    """An access of b128 values as one of twice as many b64 values."""
    count = 4 if "v2" in modifiers else 2

    def flat(operand: Operand) -> Operand:
        if not isinstance(operand, Vector):
            return operand
        nested = [part.elements if isinstance(part, Vector) else (part,) for part in operand.elements]
        return Vector(tuple(element for elements in nested for element in elements))

    kept = tuple(modifier for modifier in modifiers if modifier not in ("v2", "b128"))
    return (*kept, f"v{count}", "b64"), tuple(map(flat, operands))


def done_together(opcode: str, modifiers: tuple[str, ...]) -> bool:
    """Whether threads meet others here or do this as a whole warp, so a guard has to be a branch around it."""
    if opcode in ("bar", "barrier", *EXCHANGES, *ALIGNED):
        return True
    return (opcode == "mbarrier" and "try_wait" in modifiers) or (opcode == "tensormap" and "aligned" in modifiers)


def inverted(predicate: Register | Negated) -> Register | Negated:
    """The predicate that holds where this one does not."""
    return predicate.register if isinstance(predicate, Negated) else Negated(predicate)
