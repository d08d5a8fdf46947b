"""`tilewright.check`: kernels of any compiler, launched in the emulator on host arrays, with every rule checked."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, overload

from tilewright.checking.asynchrony import asynchronies
from tilewright.checking.doors import Call, door_of
from tilewright.checking.host_memory import KernelArgument, write_back
from tilewright.checking.launch import Launch
from tilewright.checking.registers import Place
from tilewright.checking.result import CheckResult, merged
from tilewright.checking.wording import PYTHON
from tilewright.emulator import Coverage
from tilewright.emulator.checks.reporting.waivers import Ignored, waivers_of
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
from tilewright.errors import ArgumentTypeError
from tilewright.rounding import natural

Extent: TypeAlias = int | Sequence[int]
Grid: TypeAlias = Extent | Callable[..., Extent]


class Source(Protocol):
    """What CuPy and cuda-core compile: a RawModule, a Program."""

    def compile(self, *options: Any) -> Any:
        """Compile it."""


class Object(Protocol):
    """What cuda-core has compiled: an ObjectCode."""

    def get_kernel(self, name: Any) -> Any:
        """A kernel in it."""


@overload
def check(
    kernel: str | bytes | Path | Source | Object,
    *arguments: "KernelArgument",
    grid: Extent | None = None,
    block: Extent | None = None,
    cluster: Extent | None = None,
    shared_bytes: int = 0,
    entry: str | None = None,
    define: Mapping[str, object] | None = None,
    include: str | Path | Sequence[str | Path] | None = None,
    schedules: int = 2,
    ignore: Ignored = (),
    at: str | None = None,
    tensor_cores: Arithmetic = "exact",
) -> CheckResult: ...
@overload
def check(
    kernel: Callable[..., Any],
    *arguments: Any,
    grid: Grid | None = None,
    block: Extent | None = None,
    shared_bytes: int = 0,
    schedules: int = 2,
    ignore: Ignored = (),
    at: str | None = None,
    tensor_cores: Arithmetic = "exact",
    **options: Any,
) -> CheckResult: ...
def check(
    kernel: Any,
    *arguments: Any,
    grid: Grid | None = None,
    block: Extent | None = None,
    cluster: Extent | None = None,
    shared_bytes: int = 0,
    entry: str | None = None,
    schedules: int = 2,
    ignore: Ignored = (),
    at: str | None = None,
    tensor_cores: Arithmetic = "exact",
    **options: Any,
) -> CheckResult:
    """Launch a kernel in the emulator under several orders of asynchronous completion, and report broken rules.

        out = np.empty(256, np.float32)
        result = tw.check(Path("scale.ptx"), out, 2.5, grid=1, block=256)
        assert result.verified, result.reports
        result = tw.check(Path("scale.cu"), out, 2.5, grid=1, block=256, define={"TILE": 64})
        result = tw.check(triton_kernel, x, y, out, n, grid=(4,), BLOCK=128, num_warps=4)
        result = tw.check(cute_jit_function, a, b, c)

    kernel: CUDA C++ or PTX, as text or the path of a file; a @triton.jit function; a @cute.jit function of CuTe DSL; a
    RawKernel or RawModule of CuPy; a Program or ObjectCode of cuda-core. It needs no GPU.
    arguments: one for each parameter of the kernel. A NumPy array, or a torch tensor on the CPU, is passed by address,
    of whatever dtype, shape and strides; afterwards it holds the output of the first run that ended. Arrays that
    overlap do so on the device too, so `a[16:]` beside `a` points into it; others lie apart. Accesses outside the
    arrays are reported.
    None is a null pointer; numbers take the type of their parameter; a TMA descriptor is a `TensorMap`; a structure by
    value is bytes, a ctypes.Structure or a NumPy scalar, or a `Struct` of one, if it holds pointers or descriptors.
    grid, cluster: CTAs; block: threads; each a number or up to three, x first. Those that the PTX requires may be left
    out, and one CTA too.
    shared_bytes: dynamic shared memory of each CTA.
    entry: the kernel's name or a part of it, if there are several; in CUDA C++ also an instantiation, "scale<float>".
    define, include: of CUDA C++ in a file or text, macros by name and folders of headers. NVRTC compiles it, as C++17
    for sm_90a; headers of CUDA and CUTLASS are found where they are installed.
    schedules: random orders, besides eager and lazy completion.
    ignore: waivers of reports, KIND, KIND@FILE or KIND@FILE:LINE, such as "race@sum.cu:9"; one or several, or the Path
    of a file with one a line. The result's `waived` lists those that covered anything.
    at: a line and a thread of CTA 0, FILE:LINE or FILE:LINE@THREAD, such as "mma.cu:30@5": the result's `registers` has
    those of the thread there, before and after each instruction, the first time that it executes it.
    tensor_cores: "hardware" adds products as the tensor cores of an H200 do, bit for bit, and takes longer; "exact"
    adds them in float32.

    A Triton kernel takes what it takes on a GPU: its arguments, TensorDescriptors too, its constants and options by
    name, and a grid that may be a function of the constants. Of an autotuned one the first Config is taken that its
    pruning leaves; check `kernel.fn` for another. A @cute.jit function takes its arguments, and makes its launches with
    its own grid, block and cluster; each is checked, on what the ones before have left.

    A launch that takes longer than TILEWRIGHT_EMULATOR_SECONDS ends early: the result's `error` says so.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that do not fit the kernel, and for an array that is
            read-only and written to.
        CompilationError: for a kernel that does not compile.
        EmulatorError: for PTX that is wrong or not emulated, and launches that no GPU takes.
    """
    orders = asynchronies(natural("schedules", schedules))
    waivers = waivers_of(ignore, PYTHON.of_value("ignore"))
    if entry is not None and not isinstance(entry, str):
        raise ArgumentTypeError(f"entry={entry!r} is not a name: give the kernel's, or a part of it")
    place = None if at is None else Place.parse(at, PYTHON.written("at", at))
    results: list[CheckResult] = []
    coverage = Coverage()

    def perform(launch: Launch) -> None:
        result, contents = launch.check(orders, waivers=waivers, coverage=coverage, at=place, tensor_cores=tensor_cores)
        results.append(result)
        if result.interrupted:
            raise KeyboardInterrupt(result.error)
        write_back(launch.arguments, contents or {})

    call = Call(kernel, arguments, grid, block, cluster, natural("shared_bytes", shared_bytes), entry, options)
    door_of(kernel).run(call, perform)
    return merged(results)
