"""Emitters of memory accesses, asynchronous copies and warp collectives.

They evaluate operands and call the machine's services, which act on all lanes of the group at once.
"""

from tilewright.emulator.codegen import DTYPES, BlockWriter, emits, pair_of
from tilewright.emulator.errors import UnsupportedInstruction
from tilewright.emulator.operands import SPACES, check_modifiers, mbarrier_space
from tilewright.emulator.operands import address_of as _address
from tilewright.emulator.operands import count_of as _count
from tilewright.emulator.operands import elements_of as _elements
from tilewright.emulator.operands import immediate_of as _immediate
from tilewright.emulator.operands import space_of as _space
from tilewright.emulator.ptx import Address, Instruction, Register, Sink, Symbol
from tilewright.emulator.reductions import require_bulk_reduction

_ACCESS_MODIFIERS = {
    *SPACES, "shared::cta", "shared::cluster", "param::entry", "nc", "ca", "cg", "cs", "lu", "cv", "wb",
    "wt", "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "sys", "gpu", "cta",
    "cluster", "mmio", "v2", "v4", "v8",
}  # fmt: skip
_ATOMICS = {"add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor"}
_BULK_MODIFIERS = {
    "async", "bulk", "tensor", "1d", "2d", "3d", "4d", "5d", "tile", "global", "shared::cta", "shared::cluster",
    "mbarrier::complete_tx::bytes", "bulk_group", "multicast::cluster", "L2::cache_hint", "reduce", "noftz",
    *_ATOMICS, *DTYPES,
}  # fmt: skip


def _check_access(instruction: Instruction, extra: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    hints = {modifier for modifier in instruction.modifiers if modifier.startswith(("L1::", "L2::", "level::"))}
    check_modifiers(instruction, _ACCESS_MODIFIERS | hints | extra)


def _writable_space(instruction: Instruction) -> str:
    space = _space(instruction)
    if space == "param" or "const" in instruction.modifiers:
        raise ValueError("a space that nobody writes to")
    return space


def _vector_length(instruction: Instruction) -> int:
    return next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)


@emits("ld", "ldu")
def _load(w: BlockWriter, i: Instruction) -> None:
    _check_access(i)
    dtype, space, count = DTYPES[i.modifiers[-1]], _space(i), _vector_length(i)
    targets, address = _elements(i.operands[0]), i.operands[1]
    if len(targets) != count:
        raise ValueError(f"{len(targets)} destinations of {count} values")
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
    if i.action == "async":
        _send(w, i)
        return
    _check_access(i)
    dtype, space = DTYPES[i.modifiers[-1]], _writable_space(i)
    where = _address(w, i.operands[0], space)
    values = ", ".join(w.read(element, dtype) for element in _elements(i.operands[1]))
    w.emit(f"m.access.store({w.site}, g, {space!r}, {where}, [{values}], {w.active})")


@emits("atom", "red")
def _atomic(w: BlockWriter, i: Instruction) -> None:
    if i.action == "async":
        _send(w, i)
        return
    _check_access(i, _ATOMICS | {"noftz"})
    kind, space = i.modifiers[-1], _writable_space(i)
    if kind == "noftz":
        raise ValueError("a type")
    operation = next(modifier for modifier in i.modifiers if modifier in _ATOMICS)
    if kind == "b128":
        _atomic_of_pairs(w, i, operation, space)
        return
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


def _atomic_of_pairs(w: BlockWriter, i: Instruction, operation: str, space: str) -> None:
    """atom.exch and atom.cas of b128, which registers hold in halves."""
    if operation not in ("exch", "cas"):
        raise ValueError("an operation on b128")
    where = _address(w, i.operands[1], space)
    *compare, value = (
        w.variable(f"pair({w.read(low, 'u8')}, {w.read(high, 'u8')})") for low, high in map(_elements, i.operands[2:])
    )
    expected = compare[0] if operation == "cas" else None
    form = w.constant((operation, "b128"))
    found = w.variable(f"m.access.atomic({w.site}, g, {space!r}, {where}, {form}, {value}, {expected}, {w.active})")
    for part, target in zip(("low", "high"), _elements(i.operands[0]), strict=False):
        w.assign(target, f"{found}[{part!r}]", "u8")


_ASYNC_REDUCTIONS = {
    "inc": "u32", "dec": "u32", "min": "u32 s32", "max": "u32 s32", "and": "b32", "or": "b32", "xor": "b32",
    "add": "u32 s32 u64",
}  # fmt: skip
"""The types of each operation of red.async."""


def _send(w: BlockWriter, i: Instruction) -> None:
    """st.async and red.async, to shared memory and with an mbarrier."""
    completion = "mbarrier::complete_tx::bytes"
    check_modifiers(i, {"async", "weak", "relaxed", "cluster", "shared::cluster", completion, "v2", "v4"} | _ATOMICS)
    kind, space = i.modifiers[-1], _space(i)
    if completion not in i.modifiers or (i.opcode == "red" and not {"relaxed", "cluster"} <= set(i.modifiers)):
        raise UnsupportedInstruction(f"no emulation of {i}")
    dtype, form = DTYPES[kind], None
    if i.opcode == "red":
        operation = next(modifier for modifier in i.modifiers if modifier in _ATOMICS)
        if kind not in _ASYNC_REDUCTIONS[operation].split():
            raise ValueError(f"no type of {operation}")
        form = w.constant((operation, kind))
    elements = _elements(i.operands[1])
    if len(elements) != _vector_length(i) or int(dtype[1:]) * len(elements) not in (4, 8, 16):
        raise ValueError(f"{len(elements)} values")
    where, barrier = _address(w, i.operands[0], space), _address(w, i.operands[2], space)
    values = ", ".join(w.read(element, dtype) for element in elements)
    w.emit(f"m.remote.send({w.site}, g, {space!r}, {where}, [{values}], {form}, {barrier}, {w.active})")


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
    check_modifiers(i, {"sync", "up", "down", "bfly", "idx"})
    value, lane, clamp, _ = (w.read(operand, "u4") for operand in i.operands[1:5])
    first, second = pair_of(i.operands[0])
    result = w.variable(f"m.collectives.shuffle(g, {i.modifiers[1]!r}, {value}, {lane}, {clamp})")
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("vote")
def _vote(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, {"sync", "all", "any", "uni", "ballot"})
    mode = i.modifiers[1]
    condition, mask = w.read(i.operands[1], "b1"), w.read(i.operands[2], "u4")
    w.assign(
        i.operands[0],
        f"m.collectives.vote(g, {mode!r}, {condition}, {mask}, {w.active})",
        "u4" if mode == "ballot" else "b1",
    )


@emits("match")
def _match(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, {"sync", "any", "all"})
    mode = i.modifiers[0]
    value, mask = w.read(i.operands[1], DTYPES[i.modifiers[-1]]), w.read(i.operands[2], "u4")
    first, second = pair_of(i.operands[0])
    result = w.variable(f"m.collectives.match(g, {mode!r}, {value}, {mask})")
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("redux")
def _reduce(w: BlockWriter, i: Instruction) -> None:
    check_modifiers(i, {"sync", "add", "min", "max", "and", "or", "xor"})
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
    check_modifiers(i, {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"})
    if i.modifiers[-1] != "b16":
        raise UnsupportedInstruction(f"no emulation of {i}")
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
        space = mbarrier_space(i)
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
        w.emit(f"m.bulk.groups.wait(g, {_count(operands[0])}, {w.active}, {'read' in modifiers})")
        return
    if "prefetch" in modifiers:
        return
    check_modifiers(i, _BULK_MODIFIERS, types=0)
    reduction = _bulk_reduction(i)
    if "L2::cache_hint" in modifiers:
        operands.pop()
    mask = w.read(operands.pop(), "u2") if "multicast::cluster" in modifiers else None
    loads = "bulk_group" not in modifiers
    if "tensor" in modifiers:
        shared, tensor = operands[:2] if loads else operands[1::-1]
        if not isinstance(tensor, Address):
            raise ValueError(f"{tensor} is not a tensor address")
        handle = _address(w, Address(tensor.base, tensor.offset), "generic")
        coordinates = ", ".join(w.read(coordinate, "i4") for coordinate in tensor.coordinates)
        where = _address(w, shared, "cluster")
        if loads:
            barrier = _address(w, operands[2], "cluster")
            arguments = f"{where}, {handle}, [{coordinates}], {barrier}, {mask}, {w.active}"
            w.emit(f"m.bulk.load_tensor({w.site}, g, {arguments})")
        else:
            operation = reduction and reduction[0]
            w.emit(f"m.bulk.store_tensor({w.site}, g, {where}, {handle}, [{coordinates}], {operation!r}, {w.active})")
        return
    size = w.read(operands[2], "u4")
    if not loads:
        to, of = _address(w, operands[0], "global"), _address(w, operands[1], "cluster")
        w.emit(f"m.bulk.store({w.site}, g, {to}, {of}, {size}, {reduction}, {w.active})")
        return
    of_shared = "shared::cta" in modifiers and "global" not in modifiers
    to, of = _address(w, operands[0], "cluster"), _address(w, operands[1], "cluster" if of_shared else "global")
    barrier = _address(w, operands[3], "cluster")
    arguments = f"{to}, {of}, {size}, {barrier}, {of_shared}, {mask}, {reduction}, {w.active}"
    w.emit(f"m.bulk.load({w.site}, g, {arguments})")


def _bulk_reduction(i: Instruction) -> tuple[str, str] | None:
    """Operation and type of cp.reduce.async.bulk, the type of a tensor's being its map's; None for a copy."""
    if "reduce" not in i.modifiers:
        return None
    operations = [modifier for modifier in i.modifiers if modifier in _ATOMICS]
    if len(operations) != 1 or operations[0] in ("exch", "cas"):
        raise ValueError("a bulk reduction has one of .add, .min, .max, .inc, .dec, .and, .or and .xor")
    if "tensor" in i.modifiers:
        return operations[0], ""
    operation, kind = operations[0], i.modifiers[-1]
    require_bulk_reduction("global" if "bulk_group" in i.modifiers else "shared", operation, kind)
    if ("noftz" in i.modifiers) != (operation == "add" and kind in ("f16", "bf16")):
        raise ValueError(".noftz belongs to .add of .f16 and .bf16, and must stand there")
    return operation, kind
