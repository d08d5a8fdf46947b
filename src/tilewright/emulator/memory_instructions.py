"""Emitters of memory accesses, barriers, asynchronous copies and warp collectives.

They evaluate operands and call the machine's services, which act on all lanes of the group at once.
"""

from tilewright.emulator.codegen import DTYPES, BlockWriter, emits, pair_of
from tilewright.emulator.operands import address_of as _address
from tilewright.emulator.operands import count_of as _count
from tilewright.emulator.operands import elements_of as _elements
from tilewright.emulator.operands import immediate_of as _immediate
from tilewright.emulator.operands import space_of as _space
from tilewright.emulator.ptx import Address, Instruction, Integer, Operand, Register, Sink, Symbol

_ATOMICS = {"add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor"}


def _writable_space(instruction: Instruction) -> str:
    space = _space(instruction)
    if space == "param" or "const" in instruction.modifiers:
        raise ValueError("a space that nobody writes to")
    return space


def _mbarrier_space(instruction: Instruction) -> str:
    space = _space(instruction)
    if space not in ("shared", "cluster", "generic"):
        raise ValueError("an mbarrier lies in shared memory")
    return space


def _vector_length(instruction: Instruction) -> int:
    return next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)


@emits("ld", "ldu")
def _load(w: BlockWriter, i: Instruction) -> None:
    dtype, space, count = DTYPES[i.modifiers[-1]], _space(i), _vector_length(i)
    targets, address = _elements(i.operands[0]), i.operands[1]
    if space == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
        if address.base.space != "param":
            raise ValueError("the argument of a call")
        name = address.base.name
        start = next(p.offset for p in w.program.entry.parameters if p.name == name) + address.offset
        for index, target in enumerate(targets):
            w.assign(target, f"m.parameter({start + index * int(dtype[1:])}, {dtype})", dtype)
        return
    where = _address(w, address, space)
    if space == "param":
        where = w.variable(f"{where} + m.parameters_address")
    loaded = w.variable(f"m.access.load({w.site}, g, {space!r}, {where}, {dtype}, {count}, {w.active})")
    for index, target in enumerate(targets):
        w.assign(target, f"{loaded}[{index}]", dtype)


@emits("st")
def _store(w: BlockWriter, i: Instruction) -> None:
    dtype, space = DTYPES[i.modifiers[-1]], _writable_space(i)
    where = _address(w, i.operands[0], space)
    values = ", ".join(w.read(element, dtype) for element in _elements(i.operands[1]))
    w.emit(f"m.access.store({w.site}, g, {space!r}, {where}, [{values}], {w.active})")


@emits("atom", "red")
def _atomic(w: BlockWriter, i: Instruction) -> None:
    kind, space = i.modifiers[-1], _writable_space(i)
    operation = next(modifier for modifier in i.modifiers if modifier in _ATOMICS)
    dtype = DTYPES[kind]
    returns = i.opcode == "atom"
    address, *rest = i.operands[returns:]
    where = _address(w, address, space)
    if operation in ("exch", "cas", "and", "or", "xor"):
        dtype = "u" + dtype[1:]
    targets = _elements(i.operands[0]) if returns else ()
    compare = w.read(rest.pop(0), dtype) if operation == "cas" else None
    for index, element in enumerate(_elements(rest[0])):
        place = w.variable(f"{where} + {index * int(dtype[1:])}") if index else where
        value = w.read(element, dtype)
        form = w.constant((operation, kind))
        call = f"m.access.atomic({w.site}, g, {space!r}, {place}, {form}, {value}, {compare}, {w.active})"
        if returns and not isinstance(targets[index], Sink):
            w.assign(targets[index], w.variable(call), dtype)
        else:
            w.emit(call)


@emits("mapa")
def _map_to_cta(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    address, rank = w.read(i.operands[1], dtype), w.read(i.operands[2], "u4")
    w.assign(i.operands[0], f"m.access.map_to_cta({address}, {rank})", dtype)


@emits("getctarank")
def _rank_of_address(w: BlockWriter, i: Instruction) -> None:
    address = w.read(i.operands[1], "u4" if "shared::cluster" in i.modifiers else "u8")
    w.assign(i.operands[0], f"m.access.rank_of({address}, g)", "u4")


# Warp collectives ----------------------------------------------------------------------------------------------------


@emits("shfl")
def _shuffle(w: BlockWriter, i: Instruction) -> None:
    value, lane, clamp, mask = (w.read(operand, "u4") for operand in i.operands[1:5])
    first, second = pair_of(i.operands[0])
    arguments = f"{value}, {lane}, {clamp}, {mask}, {w.active}"
    result = w.variable(f"m.collectives.shuffle(g, {i.modifiers[1]!r}, {arguments})")
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("vote")
def _vote(w: BlockWriter, i: Instruction) -> None:
    mode = i.modifiers[1]
    condition, mask = w.read(i.operands[1], "b1"), w.read(i.operands[2], "u4")
    w.assign(
        i.operands[0],
        f"m.collectives.vote(g, {mode!r}, {condition}, {mask}, {w.active})",
        "u4" if mode == "ballot" else "b1",
    )


@emits("match")
def _match(w: BlockWriter, i: Instruction) -> None:
    mode = i.modifiers[0]
    value, mask = w.read(i.operands[1], DTYPES[i.modifiers[-1]]), w.read(i.operands[2], "u4")
    first, second = pair_of(i.operands[0])
    result = w.variable(f"m.collectives.match(g, {mode!r}, {value}, {mask})")
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("redux")
def _reduce(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    value, mask = w.read(i.operands[1], dtype), w.read(i.operands[2], "u4")
    w.assign(i.operands[0], f"m.collectives.reduce(g, {i.modifiers[1]!r}, {value}, {mask})", dtype)


@emits("elect")
def _elect(w: BlockWriter, i: Instruction) -> None:
    first, second = pair_of(i.operands[0])
    result = w.variable(f"m.collectives.elect(g, {w.read(i.operands[1], 'u4')})")
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("activemask")
def _active_mask(w: BlockWriter, i: Instruction) -> None:
    w.assign(i.operands[0], "m.collectives.active_mask(g)", "u4")


def _matrix_form(i: Instruction) -> tuple[int, bool]:
    """Number of matrices and whether they are transposed, of ldmatrix and stmatrix."""
    return next(int(m[1]) for m in i.modifiers if m in ("x1", "x2", "x4")), "trans" in i.modifiers


@emits("ldmatrix")
def _load_matrix(w: BlockWriter, i: Instruction) -> None:
    count, transpose = _matrix_form(i)
    where = _address(w, i.operands[1], "shared")
    loaded = w.variable(f"m.tensor.load_matrix({w.site}, g, {where}, {count}, {transpose})")
    for index, target in enumerate(_elements(i.operands[0])):
        w.assign(target, f"{loaded}[{index}]", "u4")


@emits("stmatrix")
def _store_matrix(w: BlockWriter, i: Instruction) -> None:
    _, transpose = _matrix_form(i)
    where = _address(w, i.operands[0], "shared")
    values = ", ".join(w.read(element, "u4") for element in _elements(i.operands[1]))
    w.emit(f"m.tensor.store_matrix({w.site}, g, {where}, [{values}], {transpose})")


# Barriers ------------------------------------------------------------------------------------------------------------


@emits("bar", "barrier")
def _barrier(w: BlockWriter, i: Instruction) -> None:
    kind = i.modifiers[0]
    if kind == "warp":  # the lanes have met at the start of the block
        w.emit(f"m.warp_barrier(g, {w.read(i.operands[-1], 'u4')})")
        return
    if kind == "cluster":
        w.emit(f"m.barriers.cluster_{i.modifiers[1]}({w.site}, g)")
        return
    kind = i.modifiers[1] if kind == "cta" else kind
    name = w.stable(w.read(i.operands[0], "u4"))
    count = w.stable(w.read(i.operands[1], "u4")) if len(i.operands) > 1 else None
    w.emit(f"m.barriers.{kind}({w.site}, g, {name}, {count})")


@emits("setmaxnreg")
def _set_registers(w: BlockWriter, i: Instruction) -> None:
    count = i.operands[0]
    if not isinstance(count, Integer) or not 24 <= count.value <= 256 or count.value % 8:
        raise ValueError("the number of registers is a multiple of 8 from 24 to 256")
    w.emit(f"m.hold_registers({w.site}, g, {count.value})")


@emits("membar")
def _memory_barrier(w: BlockWriter, i: Instruction) -> None:
    w.emit(f"m.memory_fence({w.site}, g, {w.active})")


@emits("fence")
def _fence(w: BlockWriter, i: Instruction) -> None:
    """Memory here is always coherent; the checks want to know who fences what."""
    if i.modifiers[0] == "proxy":
        if i.modifiers[1] == "async" and "global" not in i.modifiers:
            w.emit(f"m.proxy_fence(g, {w.active})")
    elif i.modifiers[0] == "mbarrier_init":
        w.emit(f"m.mbarrier_fence(g, {w.active})")
    else:
        w.emit(f"m.memory_fence({w.site}, g, {w.active})")


@emits("mbarrier")
def _mbarrier(w: BlockWriter, i: Instruction) -> None:
    action = i.modifiers[0]
    operands = list(i.operands)
    target: Operand = Sink()
    if not isinstance(operands[0], Address):
        target = operands.pop(0)
    space = _mbarrier_space(i)
    where = w.stable(_address(w, operands[0], space))
    place = f"{w.site}, g, {space!r}, {where}"
    rest = operands[1:]
    if action in ("try_wait", "test_wait"):
        # A state and a parity both ask whether the phase of that parity is over.
        phase = w.read(rest[0], "u4" if "parity" in i.modifiers else "u8")
        parity = w.variable(f"{phase} & {w.constant(1, 'u4' if 'parity' in i.modifiers else 'u8')}")
        if action == "test_wait":
            w.assign(target, f"m.mbarriers.test({place}, {parity}, {w.active})", "b1")
        else:
            stays = w.variable(f"m.mbarriers.attempt({place}, {parity})")
            w.assign(target, stays, "b1")
            w.emit(f"m.mbarriers.wait({place}, {parity}, {stays})")
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


# Asynchronous copies -------------------------------------------------------------------------------------------------


@emits("cp")
def _copy(w: BlockWriter, i: Instruction) -> None:
    modifiers = i.modifiers
    if "bulk" in modifiers:
        _bulk(w, i)
    elif "commit_group" in modifiers:
        w.emit(f"m.copies.groups.commit(g, {w.active})")
    elif "wait_group" in modifiers or "wait_all" in modifiers:
        if "wait_all" in modifiers:
            w.emit(f"m.copies.groups.commit(g, {w.active})")
        pending = _count(i.operands[0]) if i.operands else 0
        w.emit(f"m.copies.groups.wait(g, {pending}, {w.active})")
    elif "mbarrier" in modifiers:
        space = _mbarrier_space(i)
        where = _address(w, i.operands[0], space)
        w.emit(f"m.copies.arrive_when_done({w.site}, g, {space!r}, {where}, {'noinc' in modifiers}, {w.active})")
    else:
        _copy_async(w, i)


def _copy_async(w: BlockWriter, i: Instruction) -> None:
    """cp.async of 4, 8 or 16 bytes per thread; bytes beyond the source size are zeros."""
    destination, source, size, *rest = i.operands
    if "L2::cache_hint" in i.modifiers:
        rest.pop()
    if _immediate(size) not in (4, 8, 16):
        raise ValueError("a copy is of 4, 8 or 16 bytes")
    to, of = _address(w, destination, "shared"), _address(w, source, "global")
    taken = None
    if rest and isinstance(rest[0], Register) and rest[0].bits == 1:  # ignore-src
        taken = w.variable(f"np.where({w.read(rest[0], 'b1')}, u4(0), {w.constant(_immediate(size), 'u4')})")
    elif rest:
        taken = w.read(rest[0], "u4")
    w.emit(f"m.copies.copy({w.site}, g, {to}, {of}, {_immediate(size)}, {taken}, {w.active})")


def _bulk(w: BlockWriter, i: Instruction) -> None:
    modifiers, operands = i.modifiers, list(i.operands)
    if "commit_group" in modifiers:
        w.emit(f"m.bulk.groups.commit(g, {w.active})")
        return
    if "wait_group" in modifiers:
        w.emit(f"m.bulk.groups.wait(g, {_count(operands[0])}, {w.active})")
        return
    if "prefetch" in modifiers:
        return
    if "L2::cache_hint" in modifiers:
        operands.pop()
    mask = w.read(operands.pop(), "u2") if "multicast::cluster" in modifiers else None
    loads = "bulk_group" not in modifiers
    if "tensor" in modifiers:
        shared, tensor = operands[:2] if loads else operands[1::-1]
        assert isinstance(tensor, Address)
        dimensions = next(int(modifier[0]) for modifier in modifiers if modifier[0].isdigit())
        if len(tensor.coordinates) != dimensions:
            raise ValueError(f"{len(tensor.coordinates)} coordinates in {dimensions} dimensions")
        handle = _address(w, Address(tensor.base, tensor.offset), "generic")
        coordinates = ", ".join(w.read(coordinate, "i4") for coordinate in tensor.coordinates)
        where = _address(w, shared, "cluster")
        if loads:
            barrier = _address(w, operands[2], "cluster")
            arguments = f"{where}, {handle}, [{coordinates}], {barrier}, {mask}, {w.active}"
            w.emit(f"m.bulk.load_tensor({w.site}, g, {arguments})")
        else:
            w.emit(f"m.bulk.store_tensor({w.site}, g, {where}, {handle}, [{coordinates}], {w.active})")
        return
    size = w.read(operands[2], "u4")
    if not loads:
        to, of = _address(w, operands[0], "global"), _address(w, operands[1], "cluster")
        w.emit(f"m.bulk.store({w.site}, g, {to}, {of}, {size}, {w.active})")
        return
    of_shared = "shared::cta" in modifiers and "global" not in modifiers
    to, of = _address(w, operands[0], "cluster"), _address(w, operands[1], "cluster" if of_shared else "global")
    barrier = _address(w, operands[3], "cluster")
    w.emit(f"m.bulk.load({w.site}, g, {to}, {of}, {size}, {barrier}, {of_shared}, {mask}, {w.active})")
