"""The emulated GPU as a host sees it: memory, tensor maps, kernels and launches."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt

from tilewright.emulator.checks.checker import Checker
from tilewright.emulator.checks.launch_state import LaunchState
from tilewright.emulator.checks.reporting.reports import Reports
from tilewright.emulator.checks.reporting.waivers import Ignored, waivers_of
from tilewright.emulator.counts.counters import Counters, Sites
from tilewright.emulator.counts.events import EventCounter
from tilewright.emulator.counts.memory import MemoryCounter
from tilewright.emulator.errors import DivergedCollective, EmulatorError, LaunchError
from tilewright.emulator.launch import (
    MACHINE_BYTES,
    MAX_STEPS,
    Argument,
    Extents,
    check_launch,
    extent_of,
    pack,
    resident_ctas,
)
from tilewright.emulator.machine.asynchrony import POLICIES, Asynchrony, Policy
from tilewright.emulator.machine.bound.images import Images
from tilewright.emulator.machine.bound.multicasts import Multicasts
from tilewright.emulator.machine.machine import Machine
from tilewright.emulator.machine.observer import Observer, require_observers
from tilewright.emulator.machine.wave import Launch, Wave
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.program.compile import compiled, parsed, text_of
from tilewright.emulator.program.program import Program
from tilewright.emulator.ptx.parser import source_files
from tilewright.emulator.ptx.syntax import Entry, Module, Parameter, Variable
from tilewright.emulator.semantics.matrices.accumulation import MODES, Arithmetic, require_modeled
from tilewright.emulator.semantics.tensor_map import (
    Im2colMap,
    TensorMap,
    encode_tensor_map,
    refuse_interleave,
)
from tilewright.emulator.semantics.tensor_map_arguments import element_type_given, fills_nan, numbers_given
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rounding import ceil_div, integers, natural

MAX_MEMORY_BYTES = 1 << 46
"""The most global memory of a device; addresses of x86 and of GPUs have 47 bits."""


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """A kernel ready to launch on the device that loaded it."""

    name: str
    program: Program
    variables: dict[str, int]

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters that `args` of a launch must match, in order."""
        return self.program.entry.parameters


class Device:
    """An emulated GPU with its own global memory.

    memory_bytes: capacity of global memory; pages cost nothing until they are used.
    asynchrony, seed: when asynchronous operations take effect (see the module asynchrony).
    tensor_cores: how they add floating-point products: "exact", products exactly and sums in float32, or "hardware",
    bit for bit like those of an H200, which takes longer.
    progress: called repeatedly with the finished fraction of a launch; a TimeoutError that it raises ends the launch,
    with a note on what ran. KeyboardInterrupt gets the same note.
    count_memory: also count sectors and wavefronts, which costs time.
    checks: check the order of all accesses; findings are added to `reports`, those that are no faults to
    `reports.warnings`.
    ignore: waivers, KIND, KIND@FILE or KIND@FILE:LINE, or Paths of files with one a line; `reports.waived` counts what
    they cover.
    observers: also told of all events (see Observer).
    trace: source lines, FILE:LINE or PTX:LINE, whose registers observers are told of (the event `traced`).
    printed: called with what each thread prints; by default it goes to stdout.

    `images` makes images, and handles of textures and surfaces (see Images); `multicasts` binds multimem addresses.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = 1 << 30,
        asynchrony: Policy = "eager",
        seed: int = 0,
        tensor_cores: Arithmetic = "exact",
        progress: Callable[[float], None] | None = None,
        count_memory: bool = False,
        checks: bool = True,
        ignore: Ignored = (),
        observers: Sequence[Observer] = (),
        trace: Sequence[str] = (),
        printed: Callable[[str], object] | None = None,
    ) -> None:
        require_observers(observers)
        if asynchrony not in POLICIES:
            raise ArgumentValueError(f"asynchrony is {asynchrony!r} and must be one of {', '.join(POLICIES)}")
        if tensor_cores not in MODES:
            raise ArgumentValueError(f"tensor_cores is {tensor_cores!r} and must be one of {', '.join(MODES)}")
        if natural("memory_bytes", memory_bytes, 1) > MAX_MEMORY_BYTES:
            raise ArgumentValueError(f"memory_bytes is {memory_bytes} and must be at most {MAX_MEMORY_BYTES}")
        self._memory = GlobalMemory(memory_bytes)
        self.images, self.multicasts = Images(self._memory), Multicasts(self._memory)
        self._asynchrony, self._seed, self._arithmetic = asynchrony, natural("seed", seed), tensor_cores
        self._progress, self._count_memory, self._printed = progress, count_memory, printed
        self._checks, self.reports, self._observers = checks, Reports(waivers_of(ignore)), tuple(observers)
        self._trace = (trace,) if isinstance(trace, str) else tuple(trace)
        self._variables: dict[str, dict[str, int]] = {}  # by PTX text

    def allocate(self, nbytes: int, *, align: int = 256, skew: int = 0) -> int:
        """The address of `nbytes` fresh bytes, filled with 0xff and surrounded by bytes that no thread may touch.

        align, skew: the address is `skew` bytes past a multiple of `align`.

        Raises:
            ValueError: for a size below 1 or an alignment that is not a power of two.
            OutOfMemoryError: if the device is full.
        """
        nbytes, align = natural("nbytes", nbytes, 1), natural("align", align, 1)
        if align & (align - 1):
            raise ArgumentValueError(f"align is {align} and must be a power of two")
        return self._memory.allocate(nbytes, align, skew=natural("skew", skew))

    def upload(self, array: npt.NDArray[np.generic]) -> int:
        """Allocate and copy an array's elements in C order; returns the address. Raises TypeError for no array."""
        _require_array(array)
        address = self.allocate(max(array.nbytes, 1))
        self.write(address, array)
        return address

    def write(self, address: int, data: npt.NDArray[np.generic]) -> None:
        """Copy an array's elements in C order to an address.

        Raises ValueError outside allocations, TypeError for no array.
        """
        _require_array(data, "data")
        address = natural("address", address)
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if flat.size:
            self._memory.slice(address, flat.size)[...] = flat

    def read(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """A copy of `nbytes` bytes. Raises ValueError outside allocations."""
        return self._memory.slice(natural("address", address), natural("nbytes", nbytes)).copy()

    def free(self, address: int) -> None:
        """End an allocation. Raises ValueError if none starts at the address."""
        self._memory.free(natural("address", address))

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
        """A kernel argument that stands for the 128 bytes of cuTensorMapEncodeTiled, which takes the same arguments.

        dtype: the elements' type, as in NumPy or by its name in PTX ("bf16"); types that the driver lacks count as
        unsigned.
        shape, box, element_strides: elements, innermost dimension first, 1 to 5 dimensions.
        strides: bytes, of dimensions 1 and up.
        swizzle: span in bytes, 0, 32, 64 or 128.
        l2_promotion: bytes; it makes no difference here.
        oob_fill: the value that loads put where the box leaves the tensor.

        Raises:
            ValueError: where cuTensorMapEncodeTiled would refuse.
            NotImplementedError: for interleaved layouts.
        """
        tensor_map = TensorMap(
            natural("address", address), element_type_given(dtype), numbers_given("shape", shape),
            numbers_given("strides", strides), numbers_given("box", box), swizzle,
            numbers_given("element_strides", element_strides or ()), fills_nan(l2_promotion, oob_fill),
        )  # fmt: skip
        refuse_interleave(interleave, address, tensor_map.strides, swizzle)
        return encode_tensor_map(tensor_map)

    def tensor_map_im2col(
        self,
        *,
        dtype: npt.DTypeLike,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        lower_corner: Sequence[int],
        upper_corner: Sequence[int],
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: Sequence[int] | None = None,
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        oob_fill: Literal["zeros", "nan"] = "zeros",
    ) -> bytes:
        """A kernel argument that stands for the 128 bytes of cuTensorMapEncodeIm2col, which takes the same arguments.

        shape: channels, width, height and depth if there are any, and images: 3 to 5 dimensions.
        lower_corner, upper_corner: pixels from the first and from the last one of an image, width first.
        element_strides: one for each dimension; those of the channels and of the images count as 1.

        Other arguments and errors are those of `tensor_map`.
        """
        tensor_map = Im2colMap(
            natural("address", address), element_type_given(dtype), numbers_given("shape", shape),
            numbers_given("strides", strides), integers(lower_corner), integers(upper_corner),
            natural("channels_per_pixel", channels_per_pixel), natural("pixels_per_column", pixels_per_column), swizzle,
            numbers_given("element_strides", element_strides or ()), fills_nan(l2_promotion, oob_fill),
        )  # fmt: skip
        refuse_interleave(interleave, address, tensor_map.strides, swizzle)
        return encode_tensor_map(tensor_map)

    @property
    def sources(self) -> dict[str, str]:
        """The paths of the source files of all modules loaded so far, by their names in reports."""
        return {name: path for text in self._variables for name, path in source_files(text).items()}

    @staticmethod
    def entries(ptx: str | bytes) -> list[str]:
        """The names of a PTX module's kernels; `load` takes any of them."""
        return list(parsed(text_of(ptx)).entries)

    def load(self, ptx: str | bytes, entry: str | None = None) -> Kernel:
        """Prepare a kernel of a PTX module; `entry` may be left out if the module has only one.

        ptx: the text, or bytes that end with a zero, as nvrtcGetPTX returns them.

        Raises:
            PtxSyntaxError, UnsupportedInstruction: naming the line.
            TypeError: if ptx is not text.
            ValueError: if the entry or a traced line does not exist, or if tensor_cores is "hardware" and the module is
                for GPUs whose tensor cores are not modeled.
        """
        ptx = text_of(ptx)
        if entry is not None and not isinstance(entry, str):
            raise ArgumentTypeError(f"entry is {entry!r} and must be the name of one of the module's kernels")
        module = parsed(ptx)
        require_modeled(self._arithmetic, module.target)
        if entry is None and len(module.entries) == 1:
            entry = next(iter(module.entries))
        if entry not in module.entries:
            names = ", ".join(module.entries) or "none"
            raise ArgumentValueError(f"entry is {entry!r} and must name one of the module's entries: {names}")
        program = compiled(ptx, entry, self._trace)
        return Kernel(entry, program, self._allocate_variables(ptx, module, program.entry))

    def launch(
        self,
        kernel: Kernel,
        grid: Extents,
        block: Extents,
        args: Sequence[Argument],
        *,
        cluster: Extents = 1,
        shared_bytes: int = 0,
        dependent: bool = False,
        max_steps: int = MAX_STEPS,
    ) -> Counters:
        """Run a kernel to its end.

        grid (CTAs), block (threads), cluster (CTAs): a number, or up to three, x first.
        args: one for each kernel parameter: an int (an integer of the parameter's size, or an address), a float (f32 or
        f64 by the parameter's size, not for integer types), a NumPy scalar, or bytes or a ctypes.Structure of exactly
        the parameter's size, such as a tensor map.
        shared_bytes: dynamic shared memory of each CTA in bytes.
        dependent: whether the grid may start before the one ahead of it has ended (programmatic dependent launch); the
        checks then report accesses to global memory that do not follow griddepcontrol.wait.
        max_steps: the most steps that the launch may take; in a step, a group of threads runs a basic block.

        Raises:
            LaunchError: for a launch that the kernel or the hardware does not allow.
            StepLimit: if it takes more steps.
            EmulatorError: for any error of the kernel; its `counters` are those up to the error.
        """
        if not isinstance(kernel, Kernel):
            raise ArgumentTypeError(f"kernel is {kernel!r} and must be what load returned: device.load(ptx)")
        shared_bytes, max_steps = natural("shared_bytes", shared_bytes), natural("max_steps", max_steps, 1)
        program, entry = kernel.program, kernel.program.entry
        grid_, block_, cluster_ = extent_of("grid", grid), extent_of("block", block), extent_of("cluster", cluster)
        check_launch(entry, grid_, block_, cluster_, shared_bytes)
        parameters = pack(kernel.name, entry, args)
        total = prod(grid_)
        resident = resident_ctas(program, total, prod(block_), prod(cluster_), shared_bytes, self._checks)
        if ceil_div(total, resident) > max_steps:
            raise LaunchError(
                f"grid {grid_} has {total} CTAs and runs {resident} of them at a time, which takes more turns than "
                f"max_steps, {max_steps}: raise max_steps, or launch fewer CTAs"
            )
        sites = Sites(entry.instructions)
        state = LaunchState(self.reports, MACHINE_BYTES, dependent) if self._checks else None
        counters = [EventCounter(sites), *([MemoryCounter(sites)] if self._count_memory else [])]
        address = self._memory.allocate(max(len(parameters), 1), 256, internal=True)
        launch = Launch(
            program, self._memory, grid_, block_, cluster_, shared_bytes, parameters, address, kernel.variables,
            self.images.bound, self.multicasts.bound, Asynchrony(self._asynchrony, self._seed), self._arithmetic,
            self._printed or sys.stdout.write,
        )  # fmt: skip
        steps = 0
        try:
            self.write(address, np.frombuffer(parameters, np.uint8))
            for first in range(0, total, resident):
                last = min(first + resident, total)
                wave = Wave(launch, np.arange(first, last))
                progress = partial(self._tell_progress, first / total, (last - first) / total)
                steps += self._run(wave, counters, state, max_steps - steps, progress)
        except EmulatorError as error:
            error.counters = Counters.summed(sites)
            kinds = {report.kind for report in self.reports}
            error.reported = isinstance(error, DivergedCollective) and "divergent-collective" in kinds
            raise
        finally:
            self._memory.free(address)
        return Counters.summed(sites)

    def _run(
        self,
        wave: Wave,
        counters: Sequence[Observer],
        state: LaunchState | None,
        max_steps: int,
        progress: Callable[[float], None],
    ) -> int:
        """Run a wave and free what it held; returns the number of steps."""
        checks = [] if state is None else [Checker(wave, state)]
        wave.tell.listen([*counters, *checks, *self._observers])
        try:
            wave.tell.began(wave.words)
            steps = Machine(wave, max_steps, progress).run()
        except BaseException:
            with suppress(Exception):  # an observer's error must not hide this one
                wave.tell.ended()
            raise
        else:
            wave.tell.ended()
            return steps
        finally:
            wave.let_go()

    def _tell_progress(self, before: float, share: float, done: float) -> None:
        if self._progress is not None:
            self._progress(before + done * share)

    def _allocate_variables(self, ptx: str, module: Module, entry: Entry) -> dict[str, int]:
        """Addresses of the variables that an entry may ask for; the module's kernels share them on this device."""
        addresses = self._variables.setdefault(ptx, {})
        for name in (*entry.variables, *module.constants):
            if name not in addresses:
                addresses[name] = self._place(module.variables[name])
        return addresses

    def _place(self, variable: Variable) -> int:
        try:
            address = self._memory.allocate(max(variable.size, 1), max(variable.align, 16))
        except MemoryError as error:
            raise LaunchError(f"the module's variable {variable.name}: {error}") from error
        initial = variable.data.ljust(variable.size, b"\0")
        self.write(address, np.frombuffer(initial, np.uint8))
        return address


def _require_array(array: object, name: str = "array") -> None:
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.hasobject:
        kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
        raise ArgumentTypeError(f"{name} is {kind} and must be a NumPy array of numbers: np.array(..., np.float32)")
