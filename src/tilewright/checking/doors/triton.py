"""Triton kernels: @triton.jit functions, also autotuned ones and ones with heuristics.

Triton launches through a driver, which it looks up at each launch. During a check that driver is the one here: Triton
itself binds the arguments, specializes on them and compiles, and the driver performs the launch in the emulator.
"""

import ast
import gc
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.checking.doors.door import Call, Perform, extents
from tilewright.checking.doors.user_code import Compiler, Place
from tilewright.checking.host_memory import TensorMap, arguments_of, host_array, span_of
from tilewright.checking.launch import Launch, Source, launch_of
from tilewright.checking.wording import PYTHON, TRITON_WORDS
from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.hardware import MAX_SMEM_BYTES
from tilewright.reference import Array

CAPABILITY = 90
"""The compute capability that kernels are compiled for, times ten."""
WARP = 32

NUMBERS: dict[str, Callable[[Any], "np.generic[Any]"]] = {
    "i1": np.int8, "u1": np.uint8, **{f"{sign}{bits}": np.dtype(f"{sign}{bits // 8}").type
    for sign in "iu" for bits in (8, 16, 32, 64)}, "fp16": np.float16, "fp32": np.float32, "f32": np.float32,
    "fp64": np.float64,
}  # fmt: skip
"""The types of numbers by Triton's names."""
COMPILER = Compiler(
    "Triton",
    ("triton",),
    {r"Unsupported function referenced: <function (\w+)": r"decorate \1 with @triton.jit"},
)
_AT = re.compile(r"\Aat (\d+):\d+:")
"""The place in a function with which Triton's messages begin."""


class TritonDoor:
    """Triton kernels."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is Triton's; does not import Triton."""
        runtime = sys.modules.get("triton.runtime")
        return runtime is not None and isinstance(kernel, runtime.KernelInterface)

    def run(self, call: Call, perform: Perform) -> None:
        """Let Triton launch the kernel on the emulator."""
        name = _function(call.kernel).__name__
        call.refuse("a Triton kernel", "block", remedy="its warps are given by num_warps")
        call.refuse("a Triton kernel", "cluster", remedy="give num_ctas")
        call.refuse("a Triton kernel", "shared_bytes", "entry")
        if call.grid is None:
            raise ArgumentTypeError(f"grid is missing: give the grid of {name}, a tuple or a function of its constants")
        given = [_lent(argument, f"arguments[{number}]") for number, argument in enumerate(call.arguments)]
        by_name = {key: _lent(value, key) for key, value in call.options.items()}
        launches: list[Launch] = []  # to be performed where no error counts as one of Triton's
        with on_emulator(launches.append), _untuned(call.kernel), _readable_errors(name):
            call.kernel.run(*given, grid=_grid(call.grid), warmup=False, **by_name)
        for launch in launches:
            perform(launch)


@dataclass(frozen=True, slots=True)
class Lent:
    """A NumPy array in the shape of a tensor, by which Triton knows its pointer."""

    array: Array

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The elements' type."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    def data_ptr(self) -> int:
        """The address."""
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> int | tuple[int, ...]:
        """The strides in elements."""
        strides = tuple(stride // self.array.itemsize for stride in self.array.strides)
        return strides if axis is None else strides[axis]

    def numel(self) -> int:
        """The number of elements."""
        return self.array.size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.array.itemsize

    def zero_(self) -> "Lent":
        """Fill with zeros."""
        self.array[...] = 0
        return self


@contextmanager
def on_emulator(perform: Perform) -> Iterator[None]:
    """Within this context, Triton launches its kernels in the emulator."""
    active = sys.modules["triton.runtime.driver"].driver
    before = active._active
    active.set_active(EmulatedDriver(perform))
    try:
        yield
    finally:
        active.set_active(before)


class EmulatedDriver:
    """A driver for Triton, with what Triton and its kernels ask of one; `utils` is a part of it there.

    Each kernel is launched by the driver that is active then, since Triton keeps launchers with what it has compiled.
    """

    DEVICE = "tilewright"
    """The key under which Triton keeps what it has compiled for this driver, apart from that of GPUs."""

    def __init__(self, perform: Perform) -> None:
        self.perform, self.utils, self.launcher_cls = perform, self, _Launcher

    def get_current_target(self) -> Any:
        """The GPU to compile for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, WARP)

    def get_current_device(self) -> str:
        """The device."""
        return self.DEVICE

    def get_current_stream(self, device: object) -> int:
        """The default stream."""
        return 0

    def get_device_properties(self, device: object) -> dict[str, int]:
        """Facts of the GPU."""
        return {"max_shared_mem": MAX_SMEM_BYTES, "multiprocessor_count": 2, "warpSize": WARP, "max_num_regs": 65536}

    def load_binary(self, name: str, binary: bytes, shared: int, device: object) -> tuple[None, None, int, int, int]:
        """Module and function, of which there are none; registers, spills, and the most threads of a CTA."""
        return None, None, 0, 0, 1024

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """A benchmark that runs nothing and finds all Configs equally fast: the first one wins."""
        return lambda kernel_call, **options: [1.0, 1.0, 1.0]

    def get_active_torch_device(self) -> Any:
        """The device of the tensors of a check."""
        return sys.modules["torch"].device("cpu")


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The launcher of a compiled kernel, as Triton calls it: an ASTSource and what compilation told about it."""

    source: Any
    metadata: Any

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, about: Any, enter: Any, leave: Any,
        *values: Any,
    ) -> None:  # fmt: skip
        """Launch on a grid; the values are those of the parameters of the Python function."""
        driver = sys.modules["triton.runtime.driver"].driver.active
        jitted, metadata = self.source.fn, self.metadata
        compiled = next(
            kernel for kernel in jitted.device_caches[driver.DEVICE][0].values() if kernel.src is self.source
        )
        ctas = metadata.num_ctas
        given = _Arguments(iter(getattr(metadata, "tensordesc_meta", None) or ()))
        for (name, kind), value in zip(self.source.signature.items(), values, strict=True):
            given.add(name, kind, value)
        given.scratch("global scratch", metadata.global_scratch_size * x * y * z * ctas)
        given.scratch("profile scratch", metadata.profile_scratch_size * x * y * z * ctas)
        driver.perform(
            launch_of(
                Source(jitted.fn.__code__.co_filename, compiled.asm["ptx"]),
                metadata.name,
                arguments_of(given.values, given.labels),
                PYTHON,
                grid=(x * ctas, y, z),
                block=None if ".reqntid" in compiled.asm["ptx"] else (WARP * metadata.num_warps,),
                cluster=(ctas,),
                shared_bytes=metadata.shared,
                dependent=metadata.launch_pdl,
                remedies=TRITON_WORDS,
            )
        )


class _Arguments:
    """The parameters of the PTX, of those of the Python function.

    descriptors: what compilation told about the tensor descriptors, in order.
    """

    def __init__(self, descriptors: Iterator[Mapping[str, Any] | None]) -> None:
        self.values: list[Any] = []
        self.labels: list[str] = []
        self._descriptors = descriptors

    def add(self, name: str, kind: Any, value: Any) -> None:
        """Add a parameter by its type in Triton's signature; constants are in the PTX already."""
        if isinstance(kind, tuple):
            for number, (inner, part) in enumerate(zip(kind, value, strict=True)):
                self.add(f"{name}[{number}]", inner, part)
        elif kind.startswith("tensordesc"):
            self._add_descriptor(name, value, next(self._descriptors, None))
        elif kind.startswith("*"):
            self._append(name, None if value is None else _array(value, name))
        elif kind != "constexpr":
            self._append(name, _number(kind, value))

    def scratch(self, name: str, nbytes: int) -> None:
        """Add memory that the compiler asks for."""
        self._append(name, np.zeros(nbytes, np.uint8) if nbytes else None)

    def _add_descriptor(self, name: str, descriptor: Any, facts: Mapping[str, Any] | None) -> None:
        """Add a tensor map, and the extents and strides that follow it."""
        if facts is None or facts["fp4_padded"] or facts.get("is_im2col"):
            raise UnsupportedError(f"{name} is a descriptor of im2col or of padded fp4: pass one of tiles of elements")
        base = _array(descriptor.base, name)
        strides = [stride * base.itemsize for stride in descriptor.strides]
        described = np.lib.stride_tricks.as_strided(base, descriptor.shape, strides)
        (low, high), (first, last) = span_of(base), span_of(described)
        if first < low or high < last:
            raise ArgumentValueError(
                f"{name} is a descriptor of shape {list(descriptor.shape)} and strides {list(descriptor.strides)}, "
                f"which leave its tensor of shape {list(base.shape)}: pass one of all that memory"
            )
        self._append(
            name,
            TensorMap(
                described,
                facts["block_size"],
                SWIZZLE_SPANS[facts["swizzle"]],
                oob_fill="nan" if getattr(descriptor, "padding", "zero") == "nan" else "zeros",
                dtype="tf32" if getattr(descriptor, "round_f32_to_tf32", False) else None,
            ),
        )
        for axis, extent in enumerate(descriptor.shape):
            self._append(f"{name}.shape[{axis}]", np.int32(extent))
        for axis, stride in enumerate(descriptor.strides):
            self._append(f"{name}.strides[{axis}]", np.int64(stride))

    def _append(self, label: str, value: Any) -> None:
        self.labels.append(label)
        self.values.append(value)


def _array(value: Any, name: str) -> Array:
    """The memory of a pointer argument."""
    array = value.array if isinstance(value, Lent) else host_array(value, name)
    if array is None:
        raise ArgumentTypeError(f"{name} is a {type(value).__name__}: pass a NumPy array or a torch tensor on the CPU")
    return array


def _number(kind: str, value: Any) -> "np.generic[Any]":
    if kind == "bf16":
        import ml_dtypes

        return ml_dtypes.bfloat16(value)  # type: ignore[no-any-return]
    return NUMBERS[kind](value)


def _lent(value: Any, label: str) -> Any:
    """An argument as Triton takes it."""
    if isinstance(value, np.ndarray):
        return Lent(value)
    if isinstance(value, tuple):
        parts = [_lent(part, f"{label}[{number}]") for number, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, TensorMap):
        raise ArgumentTypeError(f"{label} is a TensorMap: pass triton.tools.tensor_descriptor.TensorDescriptor")
    if isinstance(value, np.generic):
        return value.item()
    host_array(value, label)  # refuses tensors on a GPU
    return value


def _grid(grid: Any) -> Any:
    """A grid as Triton takes it."""
    if callable(grid):
        return lambda constants: extents("grid", grid(constants))
    return extents("grid", grid)


def _function(kernel: Any) -> Any:
    """The @triton.jit function inside decorators."""
    runtime = sys.modules["triton.runtime"]
    while not isinstance(kernel, runtime.JITFunction):
        if not isinstance(getattr(kernel, "fn", None), runtime.KernelInterface):
            raise ArgumentTypeError(
                f"kernel is a {type(kernel).__name__}, which Triton does not compile: leave out TRITON_INTERPRET"
            )
        kernel = kernel.fn
    return kernel


@contextmanager
def _untuned(kernel: Any) -> Iterator[None]:
    """Within this context, autotuners choose without remembering it, in memory or on disk."""
    tuners = []
    while isinstance(getattr(kernel, "fn", None), sys.modules["triton.runtime"].KernelInterface):
        if hasattr(kernel, "configs"):
            tuners.append((kernel, dict(kernel.cache), kernel.cache_results, kernel.__dict__.get("do_bench")))
        kernel = kernel.fn
    benchmark = sys.modules["triton.runtime.driver"].driver.active.get_benchmarker()
    try:
        for tuner, *_ in tuners:
            tuner.cache_results, tuner.do_bench = False, benchmark
        yield
    finally:
        for tuner, cache, cache_results, before in tuners:
            tuner.cache, tuner.cache_results = cache, cache_results
            del tuner.do_bench
            if before is not None:
                tuner.do_bench = before


@contextmanager
def _readable_errors(name: str) -> Iterator[None]:
    """Turn Triton's errors about the kernel and its arguments into errors for the caller."""
    from triton.errors import TritonError

    with COMPILER.readable_errors(name):
        try:
            yield
        except TritonError as error:
            raise COMPILER.refusal(name, "\n".join(_causes(error))) from error
        except RuntimeError as error:
            raise COMPILER.refusal(name, str(error), _place_while_hashing(error)) from error


def _causes(error: BaseException) -> Iterator[str]:
    """The messages of an error and what it comes from: for each function the place of the call, and the reason."""
    said = ""
    step: BaseException | None = error
    while step is not None:
        if str(step) not in said:
            said = str(step)
            yield _AT.sub(partial(_in_file, getattr(step, "src", None)), said)
        step = step.__cause__


def _in_file(text: object, at: re.Match[str]) -> str:
    """A place in the text of a function as one in the user's file."""
    for each in gc.get_objects():
        # isinstance would ask objects for their class, and some warn then
        if issubclass(type(each), sys.modules["triton.runtime"].JITFunction) and each.src == text:
            return f"{each.file_name}:{each.def_file_line_number + int(at[1]) - 1}:"
    return at[0]


def _place_while_hashing(error: BaseException) -> Place | None:
    """The line of the name that Triton was at when it went through what a function refers to."""
    function, node = None, None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(found := frame.f_locals.get("self"), sys.modules["triton.runtime"].JITFunction):
            function = found
        if isinstance(found := frame.f_locals.get("node"), ast.expr):
            node = found
    if function is None or node is None:
        return None
    return function.file_name, function.def_file_line_number + node.lineno - 1


TRITON = TritonDoor()
