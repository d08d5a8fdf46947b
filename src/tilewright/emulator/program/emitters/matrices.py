"""Emitters of matrix instructions of warps and warpgroups. Sources: PTX ISA, the instructions of these names."""

from functools import partial
from typing import Any

from tilewright.emulator.lanes import WARP, WARPGROUP
from tilewright.emulator.program.dataflow import fragments_of_a
from tilewright.emulator.program.emitters.operands import address_of, count_of, elements_of, immediate_of, space_of
from tilewright.emulator.program.writer import BlockWriter, emits
from tilewright.emulator.ptx.syntax import Instruction, Operand, Vector
from tilewright.emulator.semantics.matrices import wmma
from tilewright.emulator.semantics.matrices.fragments import ELEMENT_TYPES, MmaForm, check_types
from tilewright.emulator.semantics.matrices.quad_pairs import mma_of_quad_pairs
from tilewright.emulator.semantics.matrices.sparse import sparse_mma
from tilewright.emulator.semantics.matrices.tensor_cores import WgmmaForm, mma_sync, movmatrix
from tilewright.emulator.semantics.matrix_descriptor import Major

_NUMBERS = {"f32": "f4", "f64": "f8"}
"""PTX types of registers that hold a number of a NumPy type; registers of other types hold words."""
_MAJORS: tuple[Major, Major] = ("k", "mn")
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_FLAGS = {"sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", "sp", "sp::ordered_metadata", *_ROUNDINGS}


def _fragment(w: BlockWriter, operand: Operand, kind: str) -> str:
    """A list of the registers of a fragment."""
    return f"[{', '.join(w.read(element, _NUMBERS.get(kind, 'u4')) for element in elements_of(operand))}]"


def _assign_fragment(w: BlockWriter, operand: Operand, kind: str, registers: str) -> None:
    for index, target in enumerate(elements_of(operand)):
        w.assign(target, f"{registers}[{index}]", _NUMBERS.get(kind, "u4"))


def _require_registers(operand: Operand, matrix: str, count: int) -> None:
    if len(elements_of(operand)) != count:
        raise ValueError(f"matrix {matrix} has {len(elements_of(operand))} registers instead of {count}")


def _form(i: Instruction, shape: str, types: tuple[str, str, str, str]) -> MmaForm:
    """The form of an mma or wmma.mma; types: of A, B, C and D."""
    a_layout, b_layout = (modifier for modifier in i.modifiers if modifier in ("row", "col"))
    rounding = next((modifier for modifier in i.modifiers if modifier in _ROUNDINGS), "rn")
    return MmaForm(
        shape, *types, (a_layout, b_layout), "satfinite" in i.modifiers, "xor" in i.modifiers, rounding
    )  # fmt: skip


def _require_accumulators(i: Instruction, shape: str, d_type: str, c_type: str, threads: int, matrices: int) -> None:
    """Require D, and C if separate, to have a thread's registers for `matrices` products of this shape."""
    m, n, _ = wmma.extents_of(shape)
    elements = m * n * matrices // threads
    for matrix, kind, operand in (("D", d_type, i.operands[0]), ("C", c_type, i.operands[3])):
        if threads == WARP or matrix == "D":
            _require_registers(operand, matrix, elements // 2 if kind == "f16" else elements)


def _of_warps(w: BlockWriter, function: Any, counted: Any, fragments: list[str]) -> str:
    """A variable with the result of a function of fragments; counted: see TensorCores.of_warps."""
    form = w.constant(function)
    return w.variable(f"m.tensor_cores.of_warps({w.site}, g, {form}, {w.constant(counted)}, {', '.join(fragments)})")


@emits("mma")
def _multiply_warp(w: BlockWriter, i: Instruction) -> None:
    modifiers = [modifier for modifier in i.modifiers if modifier not in _FLAGS]
    shape, d_type, a_type, b_type, c_type = modifiers
    form, types = _form(i, shape, (a_type, b_type, c_type, d_type)), (d_type, a_type, b_type)
    in_quads = (shape, a_type) == ("m8n8k4", "f16")
    if in_quads and (b_type != "f16" or not {c_type, d_type} <= {"f16", "f32"}):
        raise ValueError("m8n8k4 takes A and B of f16 and C and D of f16 or f32, or all of f64")
    _require_accumulators(i, shape, d_type, c_type, WARP, 4 if in_quads else 1)
    fragments = [_fragment(w, x, kind) for x, kind in zip(i.operands[1:4], (a_type, b_type, c_type), strict=True)]
    if in_quads:
        result = _of_warps(w, partial(mma_of_quad_pairs, form), ("mma", shape, types, 4), fragments)
    elif form.layouts != ("row", "col") or c_type != d_type:
        raise ValueError("these types and this shape take A by rows and B by columns")
    elif i.modifiers[0].startswith("sp"):
        fragments.append(_fragment(w, i.operands[4], "b32"))
        multiply = partial(sparse_mma, form, immediate_of(i.operands[5]))
        result = _of_warps(w, multiply, ("mma.sp", shape, types, 1), fragments)
    else:
        result = _of_warps(w, partial(mma_sync, form), ("mma", shape, types, 1), fragments)
    _assign_fragment(w, i.operands[0], d_type, result)


@emits("movmatrix")
def _transpose_matrix(w: BlockWriter, i: Instruction) -> None:
    result = _of_warps(w, movmatrix, None, [_fragment(w, i.operands[1], "b16")])
    _assign_fragment(w, i.operands[0], "b16", result)


@emits("wmma")
def _wmma(w: BlockWriter, i: Instruction) -> None:
    if i.modifiers[0] == "mma":
        _wmma_multiply(w, i)
        return
    action, matrix, *flags, kind = i.modifiers
    layout = next(flag for flag in flags if flag in ("row", "col"))
    shape = next(flag for flag in flags if flag[0] == "m" and flag[1:2].isdigit())
    fragment = wmma.Fragment(matrix, shape, kind, layout)
    registers, address, *stride = i.operands if action == "load" else (i.operands[1], i.operands[0], *i.operands[2:])
    if len(elements_of(registers)) != fragment.registers:
        raise ValueError(f"a fragment of {len(elements_of(registers))} registers instead of {fragment.registers}")
    space = space_of(i)
    where = address_of(w, address, space)
    contiguous = fragment.extents[1] if layout == "row" else fragment.extents[0]
    step = w.read(stride[0], "u4") if stride else w.constant(contiguous, "u4")
    arguments = f"{w.site}, g, {w.constant(fragment)}, {space!r}, {where}, {step}"
    if action == "load":
        result = w.variable(f"m.tensor_cores.load_fragment({arguments})")
        for index, target in enumerate(elements_of(registers)):
            width = 8 if kind == "f64" else 4
            w.assign(target, f"{result}[{index}]", f"u{width}")
        w.suspects.load(elements_of(registers))
    else:
        values = ", ".join(w.read(element, "u8" if kind == "f64" else "u4") for element in elements_of(registers))
        w.emit(f"m.tensor_cores.store_fragment({arguments}, [{values}])")


def _wmma_multiply(w: BlockWriter, i: Instruction) -> None:
    shape, *kinds = [modifier for modifier in i.modifiers[1:] if modifier not in _FLAGS]
    d_type, a_type, b_type, c_type = (kinds[0], "f16", "f16", kinds[1]) if len(kinds) == 2 else kinds
    multiply = partial(wmma.multiply, _form(i, shape, (a_type, b_type, c_type, d_type)))
    fragments = [_fragment(w, x, kind) for x, kind in zip(i.operands[1:], (a_type, b_type, c_type), strict=True)]
    _require_accumulators(i, shape, d_type, c_type, WARP, 1)
    for matrix, kind, operand in (("a", a_type, i.operands[1]), ("b", b_type, i.operands[2])):
        _require_registers(operand, matrix.upper(), wmma.Fragment(matrix, shape, kind).registers)
    counted = "wmma", shape, (d_type, a_type, b_type), 1
    _assign_fragment(w, i.operands[0], d_type, _of_warps(w, multiply, counted, fragments))


@emits("wgmma")
def _multiply_warpgroup(w: BlockWriter, i: Instruction) -> None:
    action = i.modifiers[0]
    if action == "fence":
        w.emit(f"m.tensor_cores.fence({w.site}, g)")
        w.touch_again()
        return
    if action == "commit_group":
        w.emit("m.tensor_cores.groups.commit(g, None)")
        return
    if action == "wait_group":
        w.emit(f"m.tensor_cores.groups.wait(g, {count_of(i.operands[0])})")
        w.forget(w.program.accumulators)
        return
    saturate = "satfinite" in i.modifiers
    shape, d_type, a_type, b_type = [modifier for modifier in i.modifiers[1:] if modifier not in _FLAGS]
    accumulators, a, b, scale, *flags = i.operands
    immediates = [immediate_of(flag) for flag in flags]
    transposable = 1 if isinstance(a, Vector) else 2
    if len(immediates) not in (0, 2, 2 + transposable):
        raise ValueError(
            f"{len(immediates)} immediates after scale-d: these are none, the scales of A and B, or these and "
            f"{transposable} for the operands in shared memory that may be transposed"
        )
    if not (set(immediates[:2]) <= {-1, 1} and set(immediates[2:]) <= {0, 1}):
        raise ValueError("the scales of A and B are 1 or -1, and their transpositions 0 or 1")
    fragments = fragments_of_a(i)
    w.leave_to_wgmma(fragments)
    matrix_a = _fragment(w, a, a_type) if isinstance(a, Vector) else w.read(a, "u8")
    matrix_b, keep = w.read(b, "u8"), w.read(scale, "b1")
    negate_a, negate_b = [value < 0 for value in immediates[:2]] or [False, False]
    of_registers = [0] if isinstance(a, Vector) else []
    a_major, b_major = (_MAJORS[value] for value in [*of_registers, *immediates[2:], 0, 0][:2])
    _require_accumulators(i, shape, d_type, d_type, WARPGROUP, 1)
    if isinstance(a, Vector):
        _require_registers(a, "A", 4)
    check_types(a_type, b_type, d_type)
    if wmma.extents_of(shape)[2] != 8 * ELEMENT_TYPES[a_type].per_register:
        raise ValueError(f"K is not {8 * ELEMENT_TYPES[a_type].per_register}, as it is for {a_type}")
    form = WgmmaForm(
        wmma.extents_of(shape)[1], a_type, b_type, d_type, a_major, b_major, negate_a, negate_b, saturate
    )  # fmt: skip
    w.accumulate(elements_of(accumulators), keep)
    rows = w.rows_in_place(elements_of(accumulators))
    watched = w.constant(tuple(w.program.watched[register] for register in fragments))
    operands = f"{rows}, {watched}, {matrix_a}, {matrix_b}, {keep}"
    w.emit(f"m.tensor_cores.multiply_async({w.site}, g, {w.constant(form)}, {operands})")
