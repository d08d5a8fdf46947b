"""CuTe DSL: @cute.jit host functions, which launch @cute.kernel functions.

The DSL compiles a host function to machine code that makes TMA descriptors and calls the CUDA runtime. During a check
that code runs as it would for a GPU, but its calls come to the runtime here, which performs launches in the emulator.
"""

import ctypes
import gc
import inspect
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from tilewright.checking.doors import cuda_runtime
from tilewright.checking.doors.dlpack import Exported, as_if_on_gpu, memory_of
from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.doors.tma_bits import descriptors_in
from tilewright.checking.doors.user_code import Compiler
from tilewright.checking.host_memory import ByValue, arguments_of, host_array, span_of
from tilewright.checking.launch import Source, launch_of
from tilewright.checking.wording import CUTE_WORDS, PYTHON
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnavailableError, UnsupportedError
from tilewright.hardware import HOPPER
from tilewright.reference import Array

COMPILER = Compiler(
    "CuTe DSL",
    ("cutlass",),
    {
        "'NoneType' object has no attribute 'launch'": "decorate the function that is launched here with @cute.kernel",
        r"\n  suggestion: ": "",
    },
)

_COLORS = re.compile(r"\x1b\[[\d;]*m")
_OURS = re.compile(r"\n\s*--> \S*doors/cute\.py:[\d:]+\n(?:\s*(?:\d+ )?\|.*\n)*")
"""The place of the call that the DSL quotes, which is in this file."""


class CuteDoor:
    """Host functions of CuTe DSL."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is a @cute.jit or @cute.kernel function, an object that is called as one, or compiled."""
        return "cutlass.cute" in sys.modules and (_decorated(kernel) is not None or _is_compiled(kernel))

    def run(self, call: Call, perform: Perform) -> None:
        """Run the host function, whose launches come to the emulator."""
        what = "a function of CuTe DSL"
        call.refuse(what, "grid", "block", "cluster", "shared_bytes", remedy="its .launch(...) says it")
        call.refuse(what, "entry", remedy="it launches its kernels itself")
        function = _decorated(call.kernel)
        if function is not None and function._decorator_kind == "kernel":
            raise ArgumentTypeError(
                f"kernel is the @cute.kernel {function.__name__}: pass the @cute.jit function that launches it"
            )
        names = _names(function, len(call.arguments))
        given = [_lent(value, name) for name, value in zip(names, call.arguments, strict=True)]
        by_name = {name: _lent(value, name) for name, value in call.options.items()}
        tensors = dict(_tensors([*zip(names, given, strict=True), *by_name.items()]))
        memory = {name: memory_of(tensor._dlpack_data, name) for name, tensor in tensors.items()}
        _require_extents([*zip(names, given, strict=True), *by_name.items()], memory)
        with (
            as_if_on_gpu(tensor._dlpack_data for tensor in tensors.values()),
            on_emulator(perform, memory),
            _readable_errors(function),
        ):
            call.kernel(*given, **by_name)


@contextmanager
def on_emulator(perform: Perform, memory: Mapping[str, Array]) -> Iterator[None]:
    """Within this context, CuTe DSL compiles for Hopper, and what it compiles is launched in the emulator.

    memory: the arrays that kernels get, by name; they may grow meanwhile.
    """
    module = sys.modules.get("cutlass.cutlass_dsl.cuda_jit_executor")
    if module is None or not hasattr(module, "CudaDialectJitCompiledFunction"):
        raise UnsupportedError(
            "this CuTe DSL compiles host functions in a way of its own: install one like 4.8, with "
            "pip install --upgrade nvidia-cutlass-dsl"
        )
    executor = module.CudaDialectJitCompiledFunction
    environment = sys.modules["cutlass.cutlass_dsl"].CuTeDSL._get_dsl().envar

    def run(compiled: Any, arguments: list[Any]) -> None:
        _run(compiled, arguments, perform, memory)

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-"))
        wanted = {"arch": HOPPER, "keep_ptx": True, "no_cache": True, "lineinfo": True, "dump_dir": folder}
        for name, value in wanted.items():
            stack.enter_context(_changed(environment, name, value))
        stack.enter_context(_changed(executor, "run_compiled_program", run))
        yield


def _run(compiled: Any, arguments: list[Any], perform: Perform, memory: Mapping[str, Array]) -> None:
    """Run a compiled host function on the addresses of its arguments."""
    ptx = compiled.artifacts and compiled.artifacts.PTX
    if not ptx:
        raise ArgumentValueError("kernel was compiled without its PTX: pass the @cute.jit function instead")
    runtime = cuda_runtime.Runtime(partial(_launch, ptx, perform, memory))
    libraries = sys.modules["cutlass.cutlass_dsl"].CuTeDSL._get_dsl().get_shared_libs()
    engine = type(compiled.engine)(compiled.ir_module, opt_level=2, shared_libs=libraries)
    for name, address in runtime.functions.items():
        engine.raw_register_runtime(name, address)
    library, status = ctypes.c_void_p(), ctypes.c_int32()
    place = ctypes.pointer(library)
    for name in ("cuda_init", "cuda_load"):
        _call(engine.raw_lookup(name), [ctypes.addressof(place), ctypes.addressof(status)])
    function = engine.lookup(compiled.function_name)
    _call(ctypes.cast(function, ctypes.c_void_p).value, [*arguments, ctypes.addressof(status)])
    if runtime.error is not None:
        raise runtime.error
    if status.value:
        raise UnavailableError(
            f"the host function ended with CUDA error {status.value}: it asks the CUDA runtime for more than launches; "
            "leave that to its caller"
        )


def _call(address: int | None, arguments: list[Any]) -> None:
    """Call a function that takes an array of the addresses of its arguments and of its result."""
    if not address:
        raise UnavailableError(
            "the compiled host function lacks what makes launches: pass a @cute.jit function that launches a kernel"
        )
    addresses = [each.value if isinstance(each, ctypes.c_void_p) else each for each in arguments]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)((ctypes.c_void_p * len(addresses))(*addresses))


def _launch(ptx: str, perform: Perform, memory: Mapping[str, Array], asked: cuda_runtime.Launched) -> None:
    """Perform a launch; the addresses of host memory in the values are those of the arrays."""
    file = re.search(r'^\s*\.file\s+1\s+"([^"]+)"', ptx, re.MULTILINE)
    source = Source(file[1] if file else asked.kernel, ptx)
    sizes = [parameter.size for parameter in source.load(asked.kernel, PYTHON).parameters]
    spans = [span_of(array) for array in memory.values()]

    def is_address(number: int) -> bool:
        return any(low <= number < high for low, high in spans)

    given = [ctypes.string_at(asked.parameters[number], size) for number, size in enumerate(sizes)]
    values = [ByValue(data, descriptors_in(data, is_address)) for data in given]
    perform(
        launch_of(
            source,
            asked.kernel,
            arguments_of(values, [f"parameter {number + 1}" for number in range(len(sizes))], memory),
            PYTHON,
            grid=asked.grid,
            block=asked.block,
            cluster=asked.cluster,
            shared_bytes=asked.shared_bytes,
            title=_title(asked.kernel),
            dependent=asked.dependent,
            remedies=CUTE_WORDS,
        )
    )


def _title(compiled: str) -> str:
    """The name of the function that was compiled under a name, which also has the types of its arguments and a number.

    The function itself knows the name under which it was compiled last.
    """
    wanted = compiled.rpartition("_")[0]
    for each in gc.get_objects():
        if type(each) is FunctionType and vars(each).get("_dsl_kernel_name", "").rpartition("_")[0] == wanted:
            return each.__qualname__
    return compiled


def _lent(value: Any, name: str) -> Any:
    """An argument as the DSL takes it; arrays as the DSL itself would take those on a GPU."""
    if type(value) in (tuple, list):
        return type(value)(_lent(part, f"{name}[{number}]") for number, part in enumerate(value))
    array = host_array(value, name)
    if array is None:
        return value
    runtime = sys.modules["cutlass.cute.runtime"]
    return runtime.from_dlpack(Exported(value) if isinstance(value, np.ndarray) else value).mark_layout_dynamic()


def _tensors(arguments: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The tensors among arguments, with their names; those in tuples and lists too."""
    for name, value in arguments:
        if hasattr(value, "_dlpack_data"):
            yield name, value
        elif isinstance(value, tuple | list):
            yield from _tensors([(f"{name}[{number}]", part) for number, part in enumerate(value)])


def _require_extents(arguments: list[tuple[str, Any]], memory: Mapping[str, Array]) -> None:
    """Raise an ArgumentTypeError for a pointer into memory of unknown extent."""
    for name, value in arguments:
        address = getattr(value, "_pointer", None)
        if address and not any(low <= address < high for low, high in map(span_of, memory.values())):
            raise ArgumentTypeError(
                f"{name} is a pointer, and how much memory it leads to is unknown: pass a tensor of all that memory, "
                "as this argument or another"
            )


def _decorated(kernel: Any) -> Any:
    """The decorated function that a call of the kernel runs; None if there is none."""
    for function in (kernel, vars(type(kernel)).get("__call__")):
        if hasattr(function, "_dsl_cls") and hasattr(function, "_decorator_kind"):
            return function
    return None


def _is_compiled(kernel: object) -> bool:
    executor = sys.modules.get("cutlass.cutlass_dsl.cuda_jit_executor")
    return executor is not None and isinstance(kernel, executor.CudaDialectJitCompiledFunction)


def _names(function: Any, count: int) -> list[str]:
    """The names of the first parameters of a function, for messages."""
    names = [] if function is None else [name for name in inspect.signature(function).parameters if name != "self"]
    return [names[number] if number < len(names) else f"arguments[{number}]" for number in range(count)]


@contextmanager
def _changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within this context, an attribute has another value."""
    before = vars(owner).get(name, owner)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is owner:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def _readable_errors(function: Any) -> Iterator[None]:
    """Turn errors of the DSL into errors for the caller."""
    from cutlass.base_dsl.common import DSLBaseError

    name = getattr(function, "__qualname__", "the function")
    with COMPILER.readable_errors(name):
        try:
            yield
        except DSLBaseError as error:
            log = _OURS.sub("\n", _COLORS.sub("", str(error))).strip()
            raise COMPILER.refusal(name, log) from error


CUTE = CuteDoor()
