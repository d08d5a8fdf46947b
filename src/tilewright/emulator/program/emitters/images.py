"""Emitters of texture and surface instructions, whose images are named by handles in registers."""

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.emitters.operands import elements_of
from tilewright.emulator.program.writer import BlockWriter, emits
from tilewright.emulator.ptx.syntax import Address, Instruction, Operand

_AXES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4}
"""Elements of the coordinates in each geometry; in four, those beyond the third are ignored."""


@emits("tex")
def _look_up(w: BlockWriter, i: Instruction) -> None:
    place = _place(w, i, i.operands[1], "f4" if i.modifiers[-1] == "f32" else "i4")
    found = w.variable(f"m.images.fetch({w.site}, g, {place}, {w.active})")
    _assign(w, i, found)


@emits("tld4")
def _gather(w: BlockWriter, i: Instruction) -> None:
    place, channel = _place(w, i, i.operands[1], "f4"), "rgba".index(i.modifiers[0])
    found = w.variable(f"m.images.gather({w.site}, g, {place}, {channel}, {w.active})")
    _assign(w, i, found)


@emits("txq", "suq")
def _query(w: BlockWriter, i: Instruction) -> None:
    handle = _handle(w, i.operands[1])
    found = w.variable(f"m.images.query({w.site}, g, {handle}, {i.modifiers[0]!r}, {w.active})")
    w.assign(i.operands[0], found, "u4")


@emits("suld")
def _load(w: BlockWriter, i: Instruction) -> None:
    dtype, targets = DTYPES[_type(i)], elements_of(i.operands[0])
    place = _place(w, i, i.operands[1], "i4")
    form = f"{dtype}, {len(targets)}, {_outside(i)!r}, {w.active}"
    loaded = w.variable(f"m.images.load({w.site}, g, {place}, {form})")
    for index, target in enumerate(targets):
        w.assign(target, f"{loaded}[{index}]", dtype)


@emits("sust")
def _store(w: BlockWriter, i: Instruction) -> None:
    dtype, place = DTYPES[_type(i)], _place(w, i, i.operands[0], "i4")
    values = ", ".join(w.read(element, dtype) for element in elements_of(i.operands[1]))
    w.emit(f"m.images.store({w.site}, g, {place}, [{values}], {_outside(i)!r}, {w.active})")


@emits("sured")
def _reduce(w: BlockWriter, i: Instruction) -> None:
    kind, place = _type(i), _place(w, i, i.operands[0], "i4")
    operation = next(modifier for modifier in i.modifiers if modifier in ("add", "min", "max", "and", "or"))
    value = w.read(elements_of(i.operands[1])[0], DTYPES[kind])
    w.emit(f"m.images.reduce({w.site}, g, {place}, {(operation, kind)}, {value}, {_outside(i)!r}, {w.active})")


def _place(w: BlockWriter, i: Instruction, operand: Operand, dtype: str) -> str:
    """The arguments for geometry, handle and coordinates."""
    geometry = next(modifier for modifier in i.modifiers if modifier in _AXES)
    if not isinstance(operand, Address) or len(operand.coordinates) != _AXES[geometry]:
        raise ValueError(f".{geometry} takes a handle and a vector of {_AXES[geometry]} coordinates in brackets")
    layered = geometry[0] == "a"
    axes = [w.read(axis, "i4" if layered and not d else dtype) for d, axis in enumerate(operand.coordinates)]
    return f"{geometry!r}, {_handle(w, operand)}, [{', '.join(axes)}]"


def _handle(w: BlockWriter, operand: Operand) -> str:
    if not isinstance(operand, Address) or operand.offset:
        raise ValueError("an image is named by a handle in a register, and texture references are not emulated")
    return w.read(operand.base, "u8")


def _assign(w: BlockWriter, i: Instruction, found: str) -> None:
    for channel, target in enumerate(elements_of(i.operands[0])):
        w.assign(target, f"{found}[{channel}]", "u4")


def _type(i: Instruction) -> str:
    return next(modifier for modifier in reversed(i.modifiers) if modifier in DTYPES)


def _outside(i: Instruction) -> str:
    """What happens outside the surface; .trap if nothing is said."""
    return next((modifier for modifier in i.modifiers if modifier in ("clamp", "zero")), "trap")
