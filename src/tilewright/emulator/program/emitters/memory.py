"""Emitters of memory accesses, asynchronous copies and warp collectives.

They evaluate operands and call the machine's services, which act on all lanes of the group at once.
"""

from tilewright.emulator.program.code import DTYPES
from tilewright.emulator.program.emitters.operands import (
    address_of,
    count_of,
    elements_of,
    immediate_of,
    mbarrier_space,
    space_of,
)
from tilewright.emulator.program.writer import BlockWriter, emits, pair_of
from tilewright.emulator.ptx.syntax import Address, Instruction, Integer, Register, Sink, Symbol
from tilewright.emulator.ptx.variables import STACK_BYTES
from tilewright.emulator.semantics.reductions import require_bulk_reduction
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES
from tilewright.emulator.semantics.tensor_map_fields import require_field

_ATOMICS = {"add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor"}


def _writable_space(instruction: Instruction) -> str:
    space = space_of(instruction)
    if space == "param" or "const" in instruction.modifiers:
        raise ValueError("a read-only space")
    return space


def _vector_length(instruction: Instruction) -> int:
    return next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)


@emits("ld", "ldu")
def _load(w: BlockWriter, i: Instruction) -> None:
    dtype, space, count = DTYPES[i.modifiers[-1]], space_of(i), _vector_length(i)
    targets, address = elements_of(i.operands[0]), i.operands[1]
    if space == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
        if address.base.space != "param":
            raise ValueError("the argument of a call")
        name = address.base.name
        start = next(p.offset for p in w.program.entry.parameters if p.name == name) + address.offset
        for index, target in enumerate(targets):
            w.assign(target, f"m.parameter({start + index * int(dtype[1:])}, {dtype})", dtype)
        return
    where = address_of(w, address, space)
    if space == "param":
        where = w.variable(f"{where} + m.parameters_address")
    loaded = w.variable(f"m.access.load({w.site}, g, {space!r}, {where}, {dtype}, {count}, {w.active})")
    for index, target in enumerate(targets):
        w.assign(target, f"{loaded}[{index}]", dtype)
    w.suspects.load(targets)


@emits("st")
def _store(w: BlockWriter, i: Instruction) -> None:
    if i.action == "async":
        _send(w, i)
        return
    dtype, space = DTYPES[i.modifiers[-1]], _writable_space(i)
    where = address_of(w, i.operands[0], space)
    values = ", ".join(w.read(element, dtype) for element in elements_of(i.operands[1]))
    w.emit(f"m.access.store({w.site}, g, {space!r}, {where}, [{values}], {w.active})")


@emits("atom", "red")
def _atomic(w: BlockWriter, i: Instruction) -> None:
    if i.action == "async":
        _send(w, i)
        return
    kind, space = i.modifiers[-1], _writable_space(i)
    operation = next(modifier for modifier in i.modifiers if modifier in _ATOMICS)
    if kind == "b128":
        _atomic_of_pairs(w, i, operation, space)
        return
    dtype = DTYPES[kind]
    returns = i.opcode == "atom"
    address, *rest = i.operands[returns:]
    where = address_of(w, address, space)
    if operation in ("exch", "cas", "and", "or", "xor"):
        dtype = "u" + dtype[1:]
    compare = w.read(rest.pop(0), dtype) if operation == "cas" else None
    values = ", ".join(w.read(element, dtype) for element in elements_of(rest[0]))
    form = w.constant((operation, kind))
    found = w.variable(f"m.access.atomic({w.site}, g, {space!r}, {where}, {form}, [{values}], {compare}, {w.active})")
    for index, target in enumerate(elements_of(i.operands[0]) if returns else ()):
        if not isinstance(target, Sink):
            w.assign(target, f"{found}[{index}]", dtype)


def _atomic_of_pairs(w: BlockWriter, i: Instruction, operation: str, space: str) -> None:
    """atom.exch and atom.cas of b128, whose values are held in two registers each."""
    where = address_of(w, i.operands[1], space)
    pairs = [elements_of(operand) for operand in i.operands[2 : 4 if operation == "cas" else 3]]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("values of 128 bits that are not in registers")
    *compare, value = (w.variable(f"pair({w.read(low, 'u8')}, {w.read(high, 'u8')})") for low, high in pairs)
    expected = compare[0] if compare else None
    form = w.constant((operation, "b128"))
    found = w.variable(f"m.access.atomic({w.site}, g, {space!r}, {where}, {form}, [{value}], {expected}, {w.active})")
    for part, target in zip(("low", "high"), elements_of(i.operands[0]), strict=False):
        w.assign(target, f"{found}[0][{part!r}]", "u8")


def _send(w: BlockWriter, i: Instruction) -> None:
    """st.async and red.async, to shared memory and with an mbarrier."""
    kind, space = i.modifiers[-1], space_of(i)
    operation = next((modifier for modifier in i.modifiers if modifier in _ATOMICS), None)
    form = operation and w.constant((operation, kind))
    where, barrier = address_of(w, i.operands[0], space), address_of(w, i.operands[2], space)
    values = ", ".join(w.read(element, DTYPES[kind]) for element in elements_of(i.operands[1]))
    w.emit(f"m.remote.send({w.site}, g, {space!r}, {where}, [{values}], {form}, {barrier}, {w.active})")


@emits("multimem")
def _multimem(w: BlockWriter, i: Instruction) -> None:
    kind, loads = i.modifiers[-1], i.action == "ld_reduce"
    count, dtype = _vector_length(i), DTYPES[kind]
    bits = 8 * int(dtype[1:]) * count
    if "f" in kind and kind != "f64" and bits not in (32, 64, 128):
        raise ValueError(f"{bits} bits, and floating-point types take 32, 64 or 128 in all")
    place = address_of(w, i.operands[loads], "global")
    operation = next((modifier for modifier in i.modifiers[1:] if modifier in _ATOMICS), None)
    form = w.constant((operation, kind))
    if loads:
        in_float = "acc::f32" in i.modifiers
        if in_float and operation != "add":
            raise ValueError(".acc::f32 belongs to .add")
        arguments = f"{dtype}, {count}, {form}, {in_float}, {w.active}"
        loaded = w.variable(f"m.multimem.load_reduce({w.site}, g, {place}, {arguments})")
        for index, target in enumerate(elements_of(i.operands[0])):
            w.assign(target, f"{loaded}[{index}]", dtype)
        return
    values = ", ".join(w.read(element, dtype) for element in elements_of(i.operands[1]))
    if i.action == "st":
        w.emit(f"m.multimem.store({w.site}, g, {place}, [{values}], {w.active})")
    else:
        w.emit(f"m.multimem.reduce({w.site}, g, {place}, {form}, [{values}], {w.active})")


@emits("mapa")
def _map_to_cta(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    address, rank = w.read(i.operands[1], dtype), w.read(i.operands[2], "u4")
    w.assign(i.operands[0], f"m.access.map_to_cta({address}, {rank})", dtype)


@emits("getctarank")
def _rank_of_address(w: BlockWriter, i: Instruction) -> None:
    address = w.read(i.operands[1], "u4" if "shared::cluster" in i.modifiers else "u8")
    w.assign(i.operands[0], f"m.access.rank_of({address}, g)", "u4")


@emits("alloca")
def _allocate(w: BlockWriter, i: Instruction) -> None:
    align = immediate_of(i.operands[2]) if len(i.operands) > 2 else 8
    if align < 1 or align & (align - 1) or align > STACK_BYTES:
        raise ValueError(f"the alignment {align}, which is not a power of two up to {STACK_BYTES}")
    dtype = DTYPES[i.modifiers[-1]]
    size = w.read(i.operands[1], dtype)
    start = w.variable(f"m.stack.allocate({w.site}, g, {size}, {max(align, 8)}, {w.active}).astype({dtype})")
    w.assign(i.operands[0], start, dtype)


@emits("stacksave", "stackrestore")
def _mark_stack(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    if i.opcode == "stacksave":
        w.assign(i.operands[0], w.variable(f"m.stack.save(g).astype({dtype})"), dtype)
    else:
        w.emit(f"m.stack.restore({w.site}, g, {w.read(i.operands[0], dtype)}, {w.active})")


@emits("vprintf")
def _print(w: BlockWriter, i: Instruction) -> None:
    w.emit(f"m.print({w.site}, g, {w.active})")


@emits("tensormap")
def _tensor_map(w: BlockWriter, i: Instruction) -> None:
    """tensormap.replace and tensormap.cp_fenceproxy."""
    if i.action == "cp_fenceproxy":
        if immediate_of(i.operands[2]) != TENSOR_MAP_BYTES:
            raise ValueError(f"a tensor map has {TENSOR_MAP_BYTES} bytes")
        to, source = address_of(w, i.operands[0], "global"), address_of(w, i.operands[1], "shared")
        w.emit(f"m.tensor_maps.copy({w.site}, g, {to}, {source})")
        return
    field, space, dtype = i.modifiers[2], space_of(i), DTYPES[i.modifiers[-1]]
    where, (*ordinal, value) = address_of(w, i.operands[0], space), i.operands[1:]
    dimension = immediate_of(ordinal[0]) if ordinal else 0
    require_field(field, dimension, value.value if isinstance(value, Integer) else None)
    arguments = f"{field!r}, {dimension}, {w.read(value, dtype)}, {w.active}"
    w.emit(f"m.tensor_maps.replace({w.site}, g, {space!r}, {where}, {arguments})")


# Warp collectives ----------------------------------------------------------------------------------------------------


@emits("shfl")
def _shuffle(w: BlockWriter, i: Instruction) -> None:
    value, unset = w.suspects.read_if_taken(i.operands[1], "u4")
    lane, clamp = (w.read(operand, "u4") for operand in i.operands[2:4])
    first, second = pair_of(i.operands[0])
    result = w.exchange("m.collectives.shuffle", i, repr(i.modifiers[1]), value, lane, clamp, unset)
    w.assign(first, f"{result}[0]", "u4")
    w.suspects.lose(first, f"{result}[2]")
    w.assign(second, f"{result}[1]", "b1")


@emits("vote")
def _vote(w: BlockWriter, i: Instruction) -> None:
    mode = i.modifiers[1]
    result = w.exchange("m.collectives.vote", i, repr(mode), w.read(i.operands[1], "b1"))
    w.assign(i.operands[0], result, "u4" if mode == "ballot" else "b1")


@emits("match")
def _match(w: BlockWriter, i: Instruction) -> None:
    value = w.read(i.operands[1], DTYPES[i.modifiers[-1]])
    first, second = pair_of(i.operands[0])
    result = w.exchange("m.collectives.match", i, repr(i.modifiers[0]), value)
    w.assign(first, f"{result}[0]", "u4")
    w.assign(second, f"{result}[1]", "b1")


@emits("redux")
def _reduce(w: BlockWriter, i: Instruction) -> None:
    dtype = DTYPES[i.modifiers[-1]]
    value = w.read(i.operands[1], dtype)
    w.assign(i.operands[0], w.exchange("m.collectives.reduce", i, repr(i.modifiers[1]), value), dtype)


@emits("elect")
def _elect(w: BlockWriter, i: Instruction) -> None:
    first, second = pair_of(i.operands[0])
    result = w.exchange("m.collectives.elect", i)
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
    where = address_of(w, i.operands[1], "shared")
    loaded = w.variable(f"m.tensor_cores.load_matrix({w.site}, g, {where}, {count}, {transpose})")
    for index, target in enumerate(elements_of(i.operands[0])):
        w.assign(target, f"{loaded}[{index}]", "u4")
    w.suspects.load(elements_of(i.operands[0]))


@emits("stmatrix")
def _store_matrix(w: BlockWriter, i: Instruction) -> None:
    _, transpose = _matrix_form(i)
    where = address_of(w, i.operands[0], "shared")
    values = ", ".join(w.read(element, "u4") for element in elements_of(i.operands[1]))
    w.emit(f"m.tensor_cores.store_matrix({w.site}, g, {where}, [{values}], {transpose})")


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
        pending = count_of(i.operands[0]) if i.operands else 0
        w.emit(f"m.copies.groups.wait(g, {pending}, {w.active})")
    elif "mbarrier" in modifiers:
        space = mbarrier_space(i)
        where = address_of(w, i.operands[0], space)
        w.emit(f"m.copies.arrive_when_done({w.site}, g, {space!r}, {where}, {'noinc' in modifiers}, {w.active})")
    else:
        _copy_async(w, i)


def _copy_async(w: BlockWriter, i: Instruction) -> None:
    """cp.async of 4, 8 or 16 bytes per thread; bytes beyond the source size are zeros."""
    destination, source, size, *rest = i.operands
    if "L2::cache_hint" in i.modifiers:
        rest.pop()
    if immediate_of(size) not in (4, 8, 16):
        raise ValueError("a copy is of 4, 8 or 16 bytes")
    to, of = address_of(w, destination, "shared"), address_of(w, source, "global")
    taken = None
    if rest and isinstance(rest[0], Register) and rest[0].bits == 1:  # ignore-src
        taken = w.variable(f"np.where({w.read(rest[0], 'b1')}, u4(0), {w.constant(immediate_of(size), 'u4')})")
    elif rest:
        taken = w.read(rest[0], "u4")
    w.emit(f"m.copies.copy({w.site}, g, {to}, {of}, {immediate_of(size)}, {taken}, {w.active})")


def _bulk(w: BlockWriter, i: Instruction) -> None:
    modifiers, operands = i.modifiers, list(i.operands)
    if "commit_group" in modifiers:
        w.emit(f"m.bulk.groups.commit(g, {w.active})")
        return
    if "wait_group" in modifiers:
        w.emit(f"m.bulk.groups.wait(g, {count_of(operands[0])}, {w.active}, {'read' in modifiers})")
        return
    if "prefetch" in modifiers:
        if "tensor" not in modifiers:
            of, size = address_of(w, operands[0], "global"), w.read(operands[1], "u4")
            w.emit(f"m.bulk.prefetch({w.site}, g, {of}, {size}, {w.active})")
        return
    reduction = _bulk_reduction(i)
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
        handle = address_of(w, Address(tensor.base, tensor.offset), "generic")
        places = [w.read(coordinate, "i4") for coordinate in tensor.coordinates]
        if "im2col" in modifiers:
            offsets = elements_of(operands[3])
            if len(offsets) != dimensions - 2:
                raise ValueError(f"{len(offsets)} offsets in {dimensions} dimensions")
            places += [w.read(offset, "u2") for offset in offsets]
        coordinates = ", ".join(places)
        where = address_of(w, shared, "cluster")
        if loads:
            barrier = address_of(w, operands[2], "cluster")
            arguments = f"{where}, {handle}, [{coordinates}], {barrier}, {mask}, {w.active}"
            w.emit(f"m.bulk.load_tensor({w.site}, g, {arguments})")
        else:
            operation = reduction and reduction[0]
            w.emit(f"m.bulk.store_tensor({w.site}, g, {where}, {handle}, [{coordinates}], {operation!r}, {w.active})")
        return
    size = w.read(operands[2], "u4")
    if not loads:
        to, of = address_of(w, operands[0], "global"), address_of(w, operands[1], "cluster")
        w.emit(f"m.bulk.store({w.site}, g, {to}, {of}, {size}, {reduction}, {w.active})")
        return
    sends = "shared::cta" in modifiers and "global" not in modifiers
    to, of = address_of(w, operands[0], "cluster"), address_of(w, operands[1], "cluster" if sends else "global")
    barrier = address_of(w, operands[3], "cluster")
    method, last = ("send", reduction) if sends else ("load", mask)
    w.emit(f"m.bulk.{method}({w.site}, g, {to}, {of}, {size}, {barrier}, {last}, {w.active})")


def _bulk_reduction(i: Instruction) -> tuple[str, str] | None:
    """The operation and type of cp.reduce.async.bulk; None for a copy. A tensor's type is that of its map."""
    if "reduce" not in i.modifiers:
        return None
    operation = next(modifier for modifier in i.modifiers if modifier in _ATOMICS)
    if "tensor" in i.modifiers:
        return operation, ""
    kind = i.modifiers[-1]
    require_bulk_reduction("global" if "bulk_group" in i.modifiers else "shared", operation, kind)
    if ("noftz" in i.modifiers) != (operation == "add" and kind in ("f16", "bf16")):
        raise ValueError(".noftz belongs to .add of .f16 and .bf16, and must stand there")
    return operation, kind
