"""The emulated GPU as a host sees it: memory, tensor maps, kernels and launches."""

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.agents import nbytes_of_mbarriers
from tilewright.emulator.arguments import Argument, pack
from tilewright.emulator.asynchrony import POLICIES, Asynchrony, Policy
from tilewright.emulator.clocks import nbytes_of_lane
from tilewright.emulator.codegen import compile_entry
from tilewright.emulator.counters import Counters, Counts
from tilewright.emulator.errors import EmulatorError, LaunchError
from tilewright.emulator.launch_state import LaunchState
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.program import Program
from tilewright.emulator.ptx import Module, Parameter, Variable
from tilewright.emulator.ptx_parser import parse
from tilewright.emulator.rules import Reports
from tilewright.emulator.shadow import nbytes_of_shared
from tilewright.emulator.specials import Extent
from tilewright.emulator.tensor_map import TensorMap, element_type_of, encode_tensor_map, refuse_interleave

Extents: TypeAlias = int | Sequence[int]
"""How many along x, or along x, y and z; those that are left out are 1."""
RESIDENT_LANES = 1 << 16
"""A grid with at most so many threads is resident as a whole, as a persistent or cooperative kernel needs."""
CHUNK_LANES = 1 << 14
"""Threads that run together in a larger grid: enough to amortise Python, few enough for the caches."""
MAX_SHARED_BYTES = 227 * 1024
MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_CLUSTER = 16
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_LOCAL_BYTES = 512 * 1024
MACHINE_BYTES = 1 << 31
"""What the registers, memories and clocks of resident CTAs may take on the host; what they release comes on top."""
MAX_STEPS = 10_000_000
"""Steps of a launch, far beyond what anybody waits for."""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """A kernel ready to launch on the device that loaded it."""

    name: str
    program: Program
    variables: dict[str, int]

    @property
    def parameters(self) -> list[Parameter]:
        """What `args` of a launch must hold, in order."""
        return self.program.entry.parameters


class Device:
    """An emulated GPU with its own global memory.

    memory_bytes: capacity of global memory; pages cost nothing until they are used. asynchrony, seed: when asynchronous
    operations take effect (see the module asynchrony). progress: called with the finished fraction of a launch,
    again and again; a TimeoutError that it raises ends the launch, with a note on what ran, as KeyboardInterrupt gets.
    count_memory: also count sectors and wavefronts, which costs time. checks: check the order of all accesses; what is
    found is added to `reports`.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = 1 << 30,
        asynchrony: Policy = "eager",
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
        count_memory: bool = False,
        checks: bool = True,
    ) -> None:
        if asynchrony not in POLICIES:
            raise ValueError(f"asynchrony is {asynchrony!r} and must be one of {', '.join(POLICIES)}")
        self._memory = GlobalMemory(memory_bytes)
        self._asynchrony, self._seed = asynchrony, seed
        self._progress, self._count_memory = progress, count_memory
        self._checks, self.reports = checks, Reports()
        self._variables: dict[str, dict[str, int]] = {}  # by PTX text

    def allocate(self, nbytes: int, *, align: int = 256) -> int:
        """The address of `nbytes` fresh bytes, poisoned with 0xff and fenced by bytes that nobody may touch.

        Raises:
            ValueError: for a size below 1 or an alignment that is no power of two.
            MemoryError: if the device is full.
        """
        if nbytes < 1:
            raise ValueError(f"nbytes is {nbytes} and must be at least 1")
        if align < 1 or align & (align - 1):
            raise ValueError(f"align is {align} and must be a power of two")
        return self._memory.allocate(nbytes, align)

    def upload(self, array: npt.NDArray[np.generic]) -> int:
        """Allocate and copy an array's elements in C order; returns the address."""
        address = self.allocate(max(array.nbytes, 1))
        self.write(address, array)
        return address

    def write(self, address: int, data: npt.NDArray[np.generic]) -> None:
        """Copy an array's elements in C order to an address. Raises ValueError outside allocations."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if flat.size:
            self._memory.slice(address, flat.size)[...] = flat

    def read(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """A copy of `nbytes` bytes. Raises ValueError outside allocations."""
        return self._memory.slice(address, nbytes).copy()

    def free(self, address: int) -> None:
        """End an allocation. Raises ValueError if none starts at the address."""
        self._memory.free(address)

    def tensor_map(
        self,
        *,
        dtype: npt.DTypeLike,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        oob_fill: Literal["zeros", "nan"] = "zeros",
    ) -> bytes:
        """A kernel argument that stands for the 128 bytes of cuTensorMapEncodeTiled, whose arguments these are.

        dtype: of the elements, as NumPy has it or by its name in PTX ("bf16"); what the driver has no type for is taken
        as unsigned. shape, box, element_strides: elements, innermost dimension first, 1 to 5 dimensions. strides:
        bytes, of dimensions 1 and up. swizzle: span in bytes, 0, 32, 64 or 128. l2_promotion: bytes; makes no
        difference here. oob_fill: what loads put where the box leaves the tensor.

        Raises:
            ValueError: where cuTensorMapEncodeTiled would refuse.
            NotImplementedError: for interleaved layouts.
        """
        if l2_promotion not in (0, 64, 128, 256):
            raise ValueError(f"l2_promotion is {l2_promotion} and must be 0, 64, 128 or 256 bytes")
        if oob_fill not in ("zeros", "nan"):
            raise ValueError(f"oob_fill is {oob_fill!r} and must be 'zeros' or 'nan'")
        tensor_map = TensorMap(
            address, element_type_of(dtype), tuple(shape), tuple(strides), tuple(box), swizzle,
            tuple(element_strides or ()), oob_fill == "nan",
        )  # fmt: skip
        refuse_interleave(interleave, address, tensor_map.strides, swizzle)
        return encode_tensor_map(tensor_map)

    @staticmethod
    def entries(ptx: str | bytes) -> list[str]:
        """The names of a PTX module's kernels, any of which `load` takes."""
        return list(_parse(_text(ptx)).entries)

    def load(self, ptx: str | bytes, entry: str | None = None) -> Kernel:
        """Prepare a kernel of a PTX module; `entry` may be left out if the module has one only.

        ptx: the text, also as nvrtcGetPTX gives it: bytes that a zero ends.

        Raises:
            PtxSyntaxError, UnsupportedInstruction: naming the line.
            TypeError: if ptx is no text.
            ValueError: if the entry is not there.
        """
        ptx = _text(ptx)
        module = _parse(ptx)
        if entry is None and len(module.entries) == 1:
            entry = next(iter(module.entries))
        if entry not in module.entries:
            names = ", ".join(module.entries) or "none"
            raise ValueError(f"entry is {entry!r} and must name one of the module's entries: {names}")
        return Kernel(entry, _compile(ptx, entry), self._allocate_variables(ptx, module))

    def launch(
        self,
        kernel: Kernel,
        grid: Extents,
        block: Extents,
        args: Sequence[Argument],
        *,
        cluster: Extents = 1,
        smem: int = 0,
        max_steps: int = MAX_STEPS,
    ) -> Counters:
        """Run a kernel to its end.

        grid (CTAs), block (threads), cluster (CTAs): a number, or up to three, x first. args: one for each kernel
        parameter: an int (an integer of the parameter's size, or an address), a float (f32 or f64 by the parameter's
        size, which must not be of an integer type), a NumPy scalar or the bytes of exactly that size, such as a tensor
        map. smem: dynamic shared memory of each CTA in bytes. max_steps: how many steps, of a group of threads through
        a basic block, the launch may take.

        Raises:
            LaunchError: for a launch that the kernel or the hardware does not allow.
            StepLimit: if it takes more steps.
            EmulatorError: whatever the kernel did wrong; its `counters` are those up to there.
        """
        grid_, block_, cluster_ = _extent("grid", grid), _extent("block", block), _extent("cluster", cluster)
        self._check_launch(kernel, grid_, block_, cluster_, smem)
        parameters = pack(kernel.name, kernel.program.entry, args)
        by_site: defaultdict[int, Counts] = defaultdict(Counts)
        asynchrony = Asynchrony(self._asynchrony, self._seed)
        total = grid_[0] * grid_[1] * grid_[2]
        resident = _resident_ctas(kernel, total, _volume(block_), _volume(cluster_), smem, self._checks)
        _require(
            -(-total // resident) <= max_steps,
            f"grid {grid_} has {total} CTAs, of which {resident} run together: more turns than max_steps, {max_steps}",
        )
        steps = 0
        state = LaunchState(self.reports, MACHINE_BYTES) if self._checks else None
        address = self._memory.allocate(max(len(parameters), 1), 256, internal=True)
        try:
            self.write(address, np.frombuffer(parameters, np.uint8))
            for first in range(0, total, resident):
                last = min(first + resident, total)
                steps += Machine(
                    kernel.program,
                    self._memory,
                    grid=grid_,
                    block=block_,
                    cluster=cluster_,
                    cta_numbers=np.arange(first, last),
                    shared_bytes=smem,
                    parameters=parameters,
                    parameters_address=address,
                    variables=kernel.variables,
                    asynchrony=asynchrony,
                    counters=by_site,
                    count_memory=self._count_memory,
                    checks=state,
                    max_steps=max_steps - steps,
                    on_progress=lambda done, first=first, last=last: self._report(  # type: ignore[misc]
                        (first + done * (last - first)) / total
                    ),
                ).run()
        except EmulatorError as error:
            error.counters = Counters.summed(by_site, kernel.program.entry.instructions)
            raise
        finally:
            self._memory.free(address)
        return Counters.summed(by_site, kernel.program.entry.instructions)

    def _report(self, fraction: float) -> None:
        if self._progress is not None:
            self._progress(fraction)

    def _allocate_variables(self, ptx: str, module: Module) -> dict[str, int]:
        """Addresses of the module's variables, which are shared by its kernels on this device."""
        if ptx not in self._variables:
            self._variables[ptx] = {name: self._place(variable) for name, variable in module.variables.items()}
        return self._variables[ptx]

    def _place(self, variable: Variable) -> int:
        try:
            address = self._memory.allocate(max(variable.size, 1), max(variable.align, 16))
        except MemoryError as error:
            raise LaunchError(f"the module's variable {variable.name}: {error}") from error
        initial = variable.data.ljust(variable.size, b"\0")
        self.write(address, np.frombuffer(initial, np.uint8))
        return address

    def _check_launch(self, kernel: Kernel, grid: Extent, block: Extent, cluster: Extent, smem: int) -> None:
        entry = kernel.program.entry
        threads = _volume(block)
        _require(threads <= MAX_THREADS, f"block {block} has {threads} threads; the limit is {MAX_THREADS}")
        for name, extent, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
            within = all(size <= limit for size, limit in zip(extent, limits, strict=True))
            _require(within, f"{name} {extent} has an extent above the limits, {limits}")
        _require(smem >= 0, f"smem is {smem} and must not be negative")
        total = entry.dynamic_offset + smem
        _require(
            total <= MAX_SHARED_BYTES,
            f"{kernel.name} needs {total} bytes of shared memory; a CTA has {MAX_SHARED_BYTES}",
        )
        _require(
            all(extent % size == 0 for extent, size in zip(grid, cluster, strict=True)),
            f"grid {grid} must be a multiple of cluster {cluster} in each dimension",
        )
        _require(
            entry.local_bytes <= MAX_LOCAL_BYTES,
            f"{kernel.name} needs {entry.local_bytes} bytes of local memory; a thread has {MAX_LOCAL_BYTES}",
        )
        _require(_volume(cluster) <= MAX_CLUSTER, f"cluster {cluster} has more than {MAX_CLUSTER} CTAs")
        required = entry.directives.get("reqntid")
        if required is not None:
            needed = (*required, 1, 1)[:3]
            _require(block == needed, f"{kernel.name} requires blocks of {needed} threads, not {block}")
        most = entry.directives.get("maxntid")
        if most is not None:
            _require(
                threads <= prod(most),
                f"{kernel.name} is compiled for at most {prod(most)} threads in a block, not {threads}",
            )
        clustered = entry.directives.get("reqnctapercluster")
        if clustered:
            needed = (*clustered, 1, 1)[:3]
            _require(cluster == needed, f"{kernel.name} requires clusters of {needed} CTAs, not {cluster}")


def _text(ptx: str | bytes) -> str:
    if not isinstance(ptx, str | bytes):
        raise TypeError(f"ptx is a {type(ptx).__name__}, and must be the text or its bytes: path.read_text() of a file")
    return (ptx if isinstance(ptx, str) else ptx.decode()).rstrip("\0")


@lru_cache(maxsize=64)
def _parse(ptx: str) -> Module:
    return parse(ptx)


@lru_cache(maxsize=64)
def _compile(ptx: str, entry: str) -> Program:
    return compile_entry(_parse(ptx), entry)


def _resident_ctas(kernel: Kernel, total: int, threads: int, cluster: int, smem: int, checks: bool) -> int:
    """How many CTAs run together: all of a small grid, else whole clusters up to CHUNK_LANES threads.

    Raises LaunchError if MACHINE_BYTES are too few for one cluster.
    """
    program = kernel.program
    kept = sum(width * rows for width, rows in program.bank_sizes.items()) + len(program.suspects)
    kept += program.entry.local_bytes * (1 + checks)
    wanted = total if total * threads <= RESIDENT_LANES else max(CHUNK_LANES // (threads * cluster), 1) * cluster
    clocks = nbytes_of_lane(program.traits, threads, cluster, wanted // cluster) if checks else 0
    shared = program.entry.dynamic_offset + smem
    shadow = nbytes_of_shared(shared, program.traits.shared_cell, threads, cluster > 1) if checks else 0
    mbarriers = nbytes_of_mbarriers(program.traits, threads, cluster, clocks) if checks else 0
    followed = threads * clocks + mbarriers
    nbytes = threads * kept + followed + shared + shadow
    most = MACHINE_BYTES // max(nbytes * cluster, 1) * cluster
    _require(
        most > 0,
        f"a cluster of {kernel.name} takes {nbytes * cluster} bytes to emulate, of which local memory and registers "
        f"{threads * cluster * kept} and checks {cluster * followed}; the limit is {MACHINE_BYTES}",
    )
    return min(wanted, most)


def _extent(name: str, extents: Extents) -> Extent:
    try:
        sizes = tuple(map(operator.index, extents if isinstance(extents, Sequence | np.ndarray) else (extents,)))
    except TypeError:  # no sequence, or not of integers
        sizes = ()
    if isinstance(extents, bytes) or not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise LaunchError(f"{name} is {extents!r} and must be one to three integers from 1 on: give n, or (x, y, z)")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _volume(extent: Extent) -> int:
    return extent[0] * extent[1] * extent[2]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise LaunchError(message)
