"""Runs one matrix instruction of PTX on a warp; converts between matrices and registers by tables of the PTX ISA."""

import itertools

import ml_dtypes
import numpy as np

from tilewright.emulator import Device

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}  # fmt: skip
BITS = {"s4": 4, "u4": 4, "b1": 1, **{name: 8 * np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}}
RANGES = {
    "e4m3": (-8, 9),
    "e5m2": (-4, 5),
    "s8": (-128, 128),
    "u8": (0, 256),
    "s4": (-8, 8),
    "u4": (0, 16),
    "b1": (0, 2),
}


def integers(generator, kind, *shape):
    """Integers that the type and every sum of their products represent exactly."""
    return generator.integers(*RANGES.get(kind, (-8, 9)), shape)


def bits_of(value, kind):
    """A number as bits of a PTX type."""
    if kind in DTYPES:
        return int.from_bytes(np.array(value).astype(DTYPES[kind]).tobytes(), "little")
    return int(value) & ((1 << BITS[kind]) - 1)


def to_registers(matrix, kind, count, position):
    """(32, registers): element i of a lane is at position(i, lane) in the matrix and in the table's order."""
    width, bits = (64 if kind == "f64" else 32), BITS[kind]
    registers = np.zeros((32, count * bits // width), f"u{width // 8}")
    for lane, i in itertools.product(range(32), range(count)):
        word = bits_of(matrix[position(i, lane)], kind) << (i * bits % width)
        registers[lane, i * bits // width] |= registers.dtype.type(word)
    return registers


def from_registers(registers, kind, count, position, shape):
    """The matrix in registers (32, n); every element must be in one."""
    values = np.ascontiguousarray(registers).view(DTYPES[kind])
    assert values.shape == (32, count)
    matrix = np.full(shape, np.nan)
    for lane, i in itertools.product(range(32), range(count)):
        matrix[position(i, lane)] = values[lane, i]
    return matrix


def run_warp(instruction, *inputs, outputs, arch="sm_90a", tensor_cores="exact"):
    """Run an instruction written with {d}, {0}, {1}... for braced registers, once on a warp and once on another.

    inputs: (32, registers) of uint32 or uint64. outputs: registers of D and their bits. tensor_cores: how they add.
    Returns (32, registers).
    """
    count, bits = outputs
    declarations = [f".reg .b{bits} %d<{count}>;", ".reg .b64 %p, %q; .reg .b32 %t, %o, %lane;"]
    loads, lists = [], {"d": "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"}
    for number, values in enumerate(inputs):
        width = 8 * values.itemsize
        declarations.append(f".reg .b{width} %r{number}_<{values.shape[1]}>;")
        names = [f"%r{number}_{i}" for i in range(values.shape[1])]
        size = values.shape[1] * values.itemsize
        loads.append(f"ld.param.u64 %p, [in{number}]; mul.lo.u32 %o, %lane, {size}; cvt.u64.u32 %q, %o;")
        loads.append("add.u64 %p, %p, %q;")
        loads += [f"ld.global.b{width} {name}, [%p+{i * values.itemsize}];" for i, name in enumerate(names)]
        lists[str(number)] = "{" + ", ".join(names) + "}"
        lists[f"r{number}"] = names[0]
    for name, text in lists.items():
        instruction = instruction.replace("{" + name + "}", text)
    size = count * bits // 8
    stores = [f"st.global.b{bits} [%p+{i * bits // 8}], %d{i};" for i in range(count)]
    parameters = "".join(f", .param .u64 in{number}" for number in range(len(inputs)))
    ptx = f"""
.version 9.0
.target {arch}
.address_size 64
.visible .entry op(.param .u64 out{parameters}) {{
  {" ".join(declarations)}
  mov.u32 %t, %tid.x;
  and.b32 %lane, %t, 31;
  {" ".join(loads)}
  {instruction}
  ld.param.u64 %p, [out]; mul.wide.u32 %q, %t, {size}; add.u64 %p, %p, %q;
  {" ".join(stores)}
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20, tensor_cores=tensor_cores)
    out = device.allocate(64 * size)
    device.launch(device.load(ptx), (1,), (64,), [out, *(device.upload(values) for values in inputs)])
    both = device.read(out, 64 * size).view(f"u{bits // 8}").reshape(2, 32, count)
    np.testing.assert_array_equal(both[0], both[1])
    return both[0]
