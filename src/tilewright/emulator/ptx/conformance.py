"""The check that an instruction has a known form, and registers of the types that the form asks for."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from tilewright.emulator.errors import PtxSyntaxError, UnsupportedInstruction
from tilewright.emulator.ptx.forms import FORMS, Form, Group
from tilewright.emulator.ptx.syntax import (
    TYPE_BITS,
    Address,
    Float,
    Instruction,
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
    described,
)

_BITS = {**TYPE_BITS, "tf32": 32, "e4m3x2": 16, "e5m2x2": 16, "u16x2": 32, "s16x2": 32}
_TYPES = frozenset((*_BITS, "e4m3", "e5m2", "s4", "u4", "s2", "u2", "b1"))  # the last seven are of no register
_UNTYPED = re.compile(r"b\d+", re.A)
_INTEGER = re.compile(r"[us]\d+(x2)?", re.A)
_PAIRS = ("f16x2", "bf16x2")
_LENGTH = re.compile(r"[vx](\d)", re.A)
_OPERAND_NAMES = {"A": "an address", "N": "an integer constant", "*": "anything", "...": "more"}


@dataclass(frozen=True, slots=True)
class _Fit:
    """The fit of an instruction's modifiers to a form: in its order, with the superfluous and the missing ones."""

    form: Form
    modifiers: tuple[str, ...]
    unknown: tuple[str, ...]
    lacking: tuple[Group, ...]


def check_form(instruction: Instruction) -> None:
    """Bring the modifiers into the order of the instruction's form.

    Raises:
        UnsupportedInstruction: if the emulator knows no form with these modifiers.
        PtxSyntaxError: if the operands do not match the form: PTX ISA, "Operand Type Checking".
    """
    guard = instruction.predicate
    register = guard.register if isinstance(guard, Negated) else guard
    if register is not None and register.type != "pred":
        raise PtxSyntaxError(f"the guard of {instruction} is {described(register)}, and a predicate is needed")
    if instruction.opcode not in FORMS:
        return
    fits = _fits_of(instruction.opcode, instruction.modifiers)
    matching = [fit for fit in fits if not fit.unknown and not fit.lacking]
    if not matching:
        raise _unknown_form(instruction, fits)
    counted = [fit for fit in matching if _takes(fit.form, len(instruction.operands))]
    if not counted:
        raise _wrong_number(instruction, matching)
    faults = [_fault(fit, instruction) for fit in counted]
    if all(faults):
        raise PtxSyntaxError(f"{instruction}: {faults[0]}")
    instruction.modifiers = counted[faults.index("")].modifiers


# Modifiers -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 12)
def _fits_of(opcode: str, modifiers: tuple[str, ...]) -> list[_Fit]:
    return [_fit(form, modifiers) for form in FORMS[opcode]]


def _fit(form: Form, modifiers: tuple[str, ...]) -> _Fit:
    left, ordered, lacking = list(modifiers), [], []
    for group in form.groups:
        kind = next((modifier for modifier in left if modifier in _TYPES), None)  # types keep their order
        chosen = next((name for name in left if group.has(name) and (name == kind or name not in _TYPES)), None)
        if chosen is not None:
            left.remove(chosen)
            ordered.append(chosen)
        elif group.required:
            lacking.append(group)
    return _Fit(form, tuple(ordered), tuple(left), tuple(lacking))


def _unknown_form(instruction: Instruction, fits: list[_Fit]) -> UnsupportedInstruction:
    """An error that names the faults against the nearest form, and how that form is written."""
    nearest = min(fits, key=lambda fit: (len(fit.unknown) + len(fit.lacking), len(fit.unknown)))
    faults = []
    if nearest.unknown:
        faults.append(f"no emulation of .{', .'.join(nearest.unknown)} in {instruction}")
    if nearest.lacking:
        missing = " and ".join(map(str, nearest.lacking))
        faults.append(f"{'it' if faults else instruction} lacks {missing}")
    known = {choice for fit in fits for group in fit.form.groups for choice in group.choices}
    return UnsupportedInstruction(
        f"{', and '.join(faults)}; expected {nearest.form}. {if_rightly_spelled(nearest.unknown, known, '.')}add it to "
        "tilewright.emulator.ptx.forms and to the emitter of the instruction"
    )


def if_rightly_spelled(names: Collection[str], known: Collection[str], mark: str = "") -> str:
    """A hint at names similar to unknown ones, before the remedy for what the emulator lacks."""
    close = [near for name in names if name not in known for near in get_close_matches(name, known, 1, cutoff=0.7)]
    meant = " and ".join(f"{mark}{name}" for name in close)
    return f"{f'Did you mean {meant}? ' * bool(close)}If it is spelled as in PTX, the emulator lacks it: "


# Operands ------------------------------------------------------------------------------------------------------------


def _takes(form: Form, count: int) -> bool:
    names = form.operands
    required = sum(not name.startswith("?") and name != "..." for name in names)
    return required <= count and (count <= len(names) or "..." in names)


def _wrong_number(instruction: Instruction, fits: list[_Fit]) -> PtxSyntaxError:
    expected = " or ".join(dict.fromkeys(_listed(fit) for fit in fits))
    return PtxSyntaxError(f"{instruction} has {len(instruction.operands)} operands; expected: {expected}")


def _listed(fit: _Fit) -> str:
    """The operands of a form in words."""
    names = []
    for name in fit.form.operands:
        plain = name.strip("?{}").rstrip(".-")
        text = _OPERAND_NAMES.get(plain) or ("a fragment" if plain == "F" else _types(fit, plain))
        text = f"{{{text}, ...}}" if name.strip("?").startswith("{") and _length(fit) != 1 else text
        names.append(f"[{text}]" if name.startswith("?") else text)
    return ", ".join(names) or "none"


def _types(fit: _Fit, name: str) -> str:
    return "|".join(f".{_type_of(part, fit)}" for part in name.rstrip("+").split("|"))


def _type_of(name: str, fit: _Fit) -> str:
    """The type that an operand's name in the table stands for."""
    types = [modifier for modifier in fit.modifiers if modifier in _BITS]
    match name:
        case "T" | "M":
            return types[-1]
        case "D":
            return types[-2]
        case "W":
            return f"{types[-1][0]}{2 * _BITS[types[-1]]}"
        case "F":
            return "b64" if "f64" in fit.modifiers else "b32"
    return name


def _length(fit: _Fit) -> int:
    """The number of elements of a vector."""
    lengths = [int(match[1]) for modifier in fit.modifiers if (match := _LENGTH.fullmatch(modifier))]
    return lengths[0] if lengths else 1


def _fault(fit: _Fit, instruction: Instruction) -> str:
    """The fault of the operands in words; empty if they are right."""
    for number, (name, operand) in enumerate(zip(fit.form.operands, instruction.operands, strict=False), 1):
        if name == "...":
            break
        if fault := _operand_fault(fit, name.removeprefix("?"), operand):
            return f"operand {number} is {fault}"
    return ""


def _operand_fault(fit: _Fit, name: str, operand: Operand) -> str:
    if isinstance(operand, Pair) and "|" in name:
        first, second = name.split("|")
        return _operand_fault(fit, first, operand.first) or _operand_fault(fit, second, operand.second)
    name = name.split("|")[0]
    if isinstance(operand, Selected) and name.endswith((".", "-")):
        if operand.negated and not name.endswith("-"):
            return f"{described(operand)}, and may not be negated"
        operand = operand.operand
    name = name.rstrip(".-")
    if name == "*":
        return ""
    if name == "A":
        return _address_fault(operand)
    if name == "N":
        return "" if isinstance(operand, Integer) else f"{described(operand)}, and an integer constant is needed"
    if isinstance(operand, Vector):
        return _vector_fault(fit, name, operand)
    if name.startswith("{") and name != "{F}" and _length(fit) != 1:
        return f"{described(operand)}, and a vector of {_length(fit)} is needed"
    plain = name.strip("{}")
    kind = _type_of(plain.rstrip("+"), fit)
    fits = _width_fits if plain == "F" else _fits
    return "" if fits(operand, kind, plain.endswith("+")) else f"{described(operand)}, and .{kind} is needed"


def _address_fault(operand: Operand) -> str:
    if not isinstance(operand, Address):
        return f"{described(operand)}, and an address in brackets is needed"
    base = operand.base
    if isinstance(base, Register) and not (_UNTYPED.fullmatch(base.type) or _INTEGER.fullmatch(base.type)):
        return f"an address in {described(base)}, and an integer or untyped register is needed"
    return ""


def _vector_fault(fit: _Fit, name: str, vector: Vector) -> str:
    elements, length = vector.elements, _length(fit)
    if name == "M":
        widths = [_BITS[element.type] for element in elements if isinstance(element, Register)]
        kind = _type_of(name, fit)
        if len(widths) == len(elements) and sum(widths) != _BITS[kind]:
            return f"a vector of {sum(widths)} bits, and .{kind} is needed"
        return ""
    if not name.startswith("{"):
        return f"a vector, and .{_type_of(name.rstrip('+'), fit)} is needed"
    if name != "{F}" and len(elements) != length:
        return f"a vector of {len(elements)}, and one of {length} is needed"
    return next((fault for element in elements if (fault := _operand_fault(fit, name[1:-1], element))), "")


def _fits(operand: Operand, kind: str, wider: bool) -> bool:
    """Whether an operand may stand where a type is asked for."""
    match operand:
        case Register(_, own):
            if "pred" in (own, kind):
                return own == kind
            both_whole = _INTEGER.fullmatch(own) and _INTEGER.fullmatch(kind)
            untyped = _UNTYPED.fullmatch(own) or _UNTYPED.fullmatch(kind)
            as_word = own in _PAIRS and _INTEGER.fullmatch(kind)  # not in the manual, but ptxas accepts it
            return bool(own == kind or both_whole or untyped or as_word) and _width_fits(operand, kind, wider)
        case Negated(register):
            return kind == "pred" and register.type == "pred"
        case Integer():
            return _UNTYPED.fullmatch(kind) is not None or _INTEGER.fullmatch(kind) is not None or kind == "pred"
        case Float():
            return _INTEGER.fullmatch(kind) is None and kind != "pred"
        case Symbol() | Special() | Sink():
            return True
    return False


def _width_fits(operand: Operand, kind: str, wider: bool) -> bool:
    """Whether an operand is as wide as a type or, if allowed, wider."""
    if not isinstance(operand, Register):
        return isinstance(operand, Integer | Float | Sink)
    width = _BITS[operand.type]
    return width == _BITS[kind] or (wider and width > _BITS[kind])
