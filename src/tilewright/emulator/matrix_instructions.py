"""Emitters of matrix instructions of warps and warpgroups."""

from tilewright.emulator.codegen import BlockWriter, emits
from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.operands import count_of, elements_of, immediate_of
from tilewright.emulator.ptx import Instruction, Vector


@emits("mma")
def _multiply_warp(w: BlockWriter, i: Instruction) -> None:
    *flags, shape, row, column, d_type, a_type, b_type, c_type = i.modifiers
    if (row, column) != ("row", "col") or flags != ["sync", "aligned"] or d_type != c_type:
        raise UnsupportedInstruction(f"no emulation of {i}")
    accumulator = "f4" if d_type == "f32" else "u4"
    a, b = ([w.read(element, "u4") for element in elements_of(operand)] for operand in i.operands[1:3])
    c = [w.read(element, accumulator) for element in elements_of(i.operands[3])]
    form = w.constant((shape, a_type, b_type, d_type))
    lists = ", ".join(f"[{', '.join(registers)}]" for registers in (a, b, c))
    result = w.variable(f"m.tensor.multiply({w.site}, g, {form}, {lists})")
    for index, target in enumerate(elements_of(i.operands[0])):
        w.assign(target, f"{result}[{index}]", accumulator)


@emits("wgmma")
def _multiply_warpgroup(w: BlockWriter, i: Instruction) -> None:
    action = i.modifiers[0]
    if action == "fence":
        w.emit("m.tensor.fence(g)")
        return
    if action == "commit_group":
        w.emit("m.tensor.groups.commit(g, None)")
        return
    if action == "wait_group":
        w.emit(f"m.tensor.groups.wait(g, {count_of(i.operands[0])})")
        w.forget(w.program.accumulators)
        return
    _, _, _, shape, d_type, a_type, b_type = i.modifiers
    accumulators, a, b, scale, *flags = i.operands
    immediates = [immediate_of(flag) for flag in flags]
    from_registers = isinstance(a, Vector)
    matrix_a = (
        f"[{', '.join(w.read(element, 'u4') for element in a.elements)}]" if isinstance(a, Vector) else w.read(a, "u8")
    )
    matrix_b, keep = w.read(b, "u8"), w.read(scale, "b1")
    negate = [value < 0 for value in immediates[:2]] or [False, False]
    majors = [("k", "mn")[value] for value in immediates[2:]]
    if from_registers:
        majors = ["k", *majors]
    majors += ["k"] * (2 - len(majors))
    form = w.constant((int(shape.split("n")[1].split("k")[0]), a_type, b_type, d_type, *majors, *negate))
    w.accumulate(elements_of(accumulators), keep)
    rows = w.rows_in_place(elements_of(accumulators))
    w.emit(f"m.tensor.multiply_async({w.site}, g, {form}, {rows}, {matrix_a}, {matrix_b}, {keep}, {w.active})")
