"""Emitters of barriers, fences and mbarriers."""

from tilewright.emulator.program.emitters.operands import address_of, mbarrier_space
from tilewright.emulator.program.writer import BlockWriter, emits
from tilewright.emulator.ptx.syntax import Address, Instruction, Integer, Operand, Sink


@emits("bar", "barrier")
def _barrier(w: BlockWriter, i: Instruction) -> None:
    kind = i.modifiers[0]
    if kind == "warp":  # the lanes have met at the start of the block
        w.exchange("m.tell.warp_synchronized", i)
        return
    if kind == "cluster":
        w.emit(f"m.barriers.cluster_{i.modifiers[1]}({w.site}, g)")
        return
    action = next(modifier for modifier in i.modifiers if modifier in ("sync", "arrive", "red"))
    operands = list(i.operands)
    target = operands.pop(0) if action == "red" else Sink()
    condition = w.stable(w.read(operands.pop(), "b1")) if action == "red" else None
    name = w.stable(w.read(operands[0], "u4"))
    count = w.stable(w.read(operands[1], "u4")) if len(operands) > 1 else None
    if action == "red":
        operation = next(modifier for modifier in i.modifiers if modifier in ("popc", "and", "or"))
        arguments = f"{name}, {count}, {operation!r}, {condition}, {w.place_of(target)}"
        w.emit(f"m.barriers.reduce({w.site}, g, {arguments})")
    else:
        w.emit(f"m.barriers.{action}({w.site}, g, {name}, {count})")


@emits("setmaxnreg")
def _set_registers(w: BlockWriter, i: Instruction) -> None:
    count = i.operands[0]
    if not isinstance(count, Integer) or not 24 <= count.value <= 256 or count.value % 8:
        raise ValueError("the number of registers is a multiple of 8 from 24 to 256")
    w.emit(f"m.tell.registers_held({w.site}, {w.active_group}, {count.value})")


@emits("griddepcontrol")
def _depend_on_grids(w: BlockWriter, i: Instruction) -> None:
    """The grids of a device run one after another, so only the checks need to know of a wait."""
    if "wait" in i.modifiers:
        w.emit(f"m.tell.grids_awaited({w.active_group})")


@emits("fence", "membar")
def _fence(w: BlockWriter, i: Instruction) -> None:
    """A fence: memory here is always coherent, so only the checks need to know of it."""
    if i.modifiers[:2] == ("proxy", "tensormap::generic"):
        if "acquire" in i.modifiers:
            where = address_of(w, i.operands[0], "generic")
            w.emit(f"m.tensor_maps.acquire({w.site}, g, {where}, {w.active})")
        else:
            w.emit(f"m.tell.tensor_map_released({w.site}, {w.active_group})")
    elif i.modifiers[0] == "proxy":
        if i.modifiers[1] == "async":
            named = [space for space in ("shared", "global") if any(m.split("::")[0] == space for m in i.modifiers)]
            _tell_fence(w, "proxy", tuple(named) or ("shared", "global"))
    elif i.modifiers[0] == "mbarrier_init":
        _tell_fence(w, "mbarrier_init")
    else:
        _tell_fence(w, "memory")


def _tell_fence(w: BlockWriter, what: str, spaces: tuple[str, ...] = ()) -> None:
    w.emit(f"m.tell.fenced({w.site}, {w.active_group}, {what!r}, {spaces})")


@emits("mbarrier")
def _mbarrier(w: BlockWriter, i: Instruction) -> None:
    action = i.modifiers[0]
    operands = list(i.operands)
    target: Operand = Sink()
    if action == "pending_count":
        w.assign(operands[0], f"m.mbarriers.pending_count({w.read(operands[1], 'u8')})", "u4")
        return
    if not isinstance(operands[0], Address):
        target = operands.pop(0)
    space = mbarrier_space(i)
    where = w.stable(address_of(w, operands[0], space))
    place = f"{w.site}, g, {space!r}, {where}"
    rest = operands[1:]
    if action in ("try_wait", "test_wait"):
        if "parity" in i.modifiers:
            parity = w.variable(f"{w.read(rest[0], 'u4')} & {w.constant(1, 'u4')}")
        else:
            parity = w.variable(f"m.mbarriers.parity({place}, {w.read(rest[0], 'u8')}, {w.active})")
        if action == "test_wait":
            w.assign(target, f"m.mbarriers.test({place}, {parity}, {w.active})", "b1")
        else:
            stays = w.variable(f"m.mbarriers.attempt({place}, {parity})")
            w.assign(target, stays, "b1")
            w.emit(f"m.mbarriers.wait({place}, {parity}, {stays}, {w.row_of(target)})")
    elif action == "init":
        w.emit(f"m.mbarriers.init({place}, {w.read(rest[0], 'u4')}, {w.active})")
    elif action == "inval":
        w.emit(f"m.mbarriers.invalidate({place}, {w.active})")
    elif action in ("expect_tx", "complete_tx"):
        sign = "" if action == "expect_tx" else "-"
        w.emit(f"m.mbarriers.expect({place}, {sign}{w.read(rest[0], 'u4')}.astype(i8), {w.active})")
    else:  # arrive, arrive_drop
        expects = "expect_tx" in i.modifiers
        count = w.read(rest[0], "u4") if rest else w.constant(1, "u4")
        count, expected = (w.constant(1, "u4"), count) if expects else (count, w.constant(0, "u4"))
        drop = action == "arrive_drop"
        state = w.variable(f"m.mbarriers.arrive({place}, {count}, {expected}, {drop}, {w.active})")
        w.assign(target, state, "u8")
