"""The rules of a launch: extents and limits, the bytes of its arguments, and how many CTAs run together."""

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from tilewright.emulator.checks.clocks import nbytes_of_lane
from tilewright.emulator.checks.mbarriers import nbytes_of_mbarriers
from tilewright.emulator.checks.shadow import nbytes_of_shared
from tilewright.emulator.errors import LaunchError
from tilewright.emulator.lanes import Extent
from tilewright.emulator.program.program import Program, bytes_of
from tilewright.emulator.ptx.syntax import Entry, Parameter
from tilewright.errors import ArgumentTypeError
from tilewright.hardware import MAX_SMEM_BYTES
from tilewright.rounding import integers

Extents: TypeAlias = int | Sequence[int]
"""The number along x, or the numbers along x, y and z; missing ones are 1."""
RESIDENT_LANES = 1 << 16
"""The most threads of a grid that is resident as a whole, as persistent and cooperative kernels need."""
CHUNK_LANES = 1 << 14
"""Threads that run together in a larger grid: enough to amortize Python, few enough for the caches."""
MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_CLUSTER = 16
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_LOCAL_BYTES = 512 * 1024
MACHINE_BYTES = 1 << 31
"""Host memory for the registers, memories and clocks of resident CTAs; their releases need more on top."""
MAX_STEPS = 10_000_000
"""The default step limit of a launch, far more than anyone would wait for."""

Argument: TypeAlias = "int | float | bytes | np.generic | ctypes.Structure"
"""The types of a kernel argument; see Device.launch."""


def pack(kernel: str, entry: Entry, args: Sequence[Argument]) -> bytes:
    """The parameter space. Raises LaunchError for arguments that do not fit the parameters of the kernel."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ArgumentTypeError(f"args is {args!r} and must be a sequence, one argument for each parameter: [...]")
    parameters = entry.parameters
    _require(len(args) == len(parameters), f"{kernel} takes {len(parameters)} arguments and args has {len(args)}")
    packed = bytearray(entry.parameter_bytes)
    for index, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        data = _bytes_of(value, f"args[{index}]", parameter)
        _require(
            len(data) == parameter.size,
            f"args[{index}] has {len(data)} bytes; parameter {parameter.name} of {kernel} has {parameter.size}",
        )
        packed[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(packed)


def _bytes_of(value: Argument, name: str, parameter: Parameter) -> bytes:
    """The bytes of an argument; Python's numbers take the size of their parameter."""
    size = parameter.size
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, int):
        _require(size <= 8, f"{name} is an int; parameter {parameter.name} has {size} bytes")
        fits = -(1 << 8 * size - 1) <= value < 1 << 8 * size
        _require(fits, f"{name} is {value}, which does not fit the {size} bytes of parameter {parameter.name}")
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(value, float):
        _require(
            parameter.type[0] not in "us",
            f"{name} is the float {value}; parameter {parameter.name} is of type .{parameter.type}: give an int",
        )
        _require(
            size in (4, 8),
            f"{name} is a float; parameter {parameter.name} has {size} bytes: give a NumPy scalar of its type",
        )
        return (np.float32 if size == 4 else np.float64)(value).tobytes()
    _require(
        isinstance(value, bytes | bytearray | ctypes.Structure),
        f"{name} is a {type(value).__name__} and must be an int, a float, a NumPy scalar, bytes or a ctypes.Structure: "
        "for an array pass the address that Device.upload returns",
    )
    return bytes(value)


def check_launch(entry: Entry, grid: Extent, block: Extent, cluster: Extent, shared_bytes: int) -> None:
    """Raise LaunchError for a launch that the kernel or the hardware does not allow."""
    threads = prod(block)
    _require(threads <= MAX_THREADS, f"block {block} has {threads} threads; the limit is {MAX_THREADS}")
    for name, extent, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        within = all(size <= limit for size, limit in zip(extent, limits, strict=True))
        _require(within, f"{name} {extent} has an extent above the limits, {limits}")
    total = entry.dynamic_offset + shared_bytes
    _require(
        total <= MAX_SMEM_BYTES,
        f"{entry.name} needs {total} bytes of shared memory; a CTA has {MAX_SMEM_BYTES}",
    )
    _require(
        all(extent % size == 0 for extent, size in zip(grid, cluster, strict=True)),
        f"grid {grid} must be a multiple of cluster {cluster} in each dimension",
    )
    _require(
        entry.local_bytes <= MAX_LOCAL_BYTES,
        f"{entry.name} needs {entry.local_bytes} bytes of local memory; a thread has {MAX_LOCAL_BYTES}",
    )
    _require(prod(cluster) <= MAX_CLUSTER, f"cluster {cluster} has more than {MAX_CLUSTER} CTAs")
    required = entry.directives.get("reqntid")
    if required is not None:
        needed = (*required, 1, 1)[:3]
        _require(block == needed, f"{entry.name} requires blocks of {needed} threads, not {block}")
    most = entry.directives.get("maxntid")
    if most is not None:
        _require(
            threads <= prod(most),
            f"{entry.name} is compiled for at most {prod(most)} threads in a block, not {threads}",
        )
    clustered = entry.directives.get("reqnctapercluster")
    if clustered:
        needed = (*clustered, 1, 1)[:3]
        _require(cluster == needed, f"{entry.name} requires clusters of {needed} CTAs, not {cluster}")


def resident_ctas(program: Program, total: int, threads: int, cluster: int, shared_bytes: int, checks: bool) -> int:
    """The number of CTAs that run together: all of a small grid, else whole clusters up to CHUNK_LANES threads.

    Raises LaunchError if MACHINE_BYTES are too few for one cluster.
    """
    kept = sum(width * rows for width, rows in program.bank_sizes.items()) + sum(map(bytes_of, program.suspects))
    kept += program.entry.local_bytes * (1 + checks)
    wanted = total if total * threads <= RESIDENT_LANES else max(CHUNK_LANES // (threads * cluster), 1) * cluster
    clocks = nbytes_of_lane(program.traits, threads, cluster, wanted // cluster) if checks else 0
    shared = program.entry.dynamic_offset + shared_bytes
    shadow = nbytes_of_shared(shared, program.traits.shared_cell, threads, cluster > 1) if checks else 0
    mbarriers = nbytes_of_mbarriers(program.traits, threads, cluster, clocks) if checks else 0
    followed = threads * clocks + mbarriers
    nbytes = threads * kept + followed + shared + shadow
    most = MACHINE_BYTES // max(nbytes * cluster, 1) * cluster
    _require(
        most > 0,
        f"a cluster of {program.entry.name} takes {nbytes * cluster} bytes to emulate, {threads * cluster * kept} for "
        f"local memory and registers and {cluster * followed} for checks, and the limit is {MACHINE_BYTES}: launch "
        "smaller blocks or clusters",
    )
    return min(wanted, most)


def extent_of(name: str, extents: Extents) -> Extent:
    """The extent along x, y and z. Raises LaunchError, with the name, if it is not an extent."""
    sizes = integers(extents)
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise LaunchError(f"{name} is {extents!r} and must be one to three integers from 1 on: give n, or (x, y, z)")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise LaunchError(message)
