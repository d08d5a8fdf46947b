"""NVRTC compiles one translation unit: to PTX for the emulator, or in one run to the same PTX and a cubin for the GPU.

A virtual architecture ends with PTX, without the half of the time that ptxas takes. The PTX of a real one is the same
text, so the emulator checks what the GPU runs; only `simt` differs in the order of some loads, in one of ten runs of
NVRTC for either. No driver and no CUDA toolkit are needed.
"""

import contextlib
import functools
import os
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError, TilewrightError, UnavailableError
from tilewright.hardware import HOPPER
from tilewright.jit.source import TranslationUnit

# -v makes ptxas report registers and spills; line information maps PTX and SASS back to the headers.
# --no-cache: NVRTC's own disk cache returns no log, and the register count is in the log.
OPTIONS = ("-std=c++20", "-default-device", "-lineinfo", "--ptxas-options=-v", "--no-cache")

# Line information names files below this root instead of the current directory, so the same source compiles to the
# same bytes everywhere.
SOURCE_ROOT = "/tilewright/"

INSTALL = {
    12: "pip install 'cuda-bindings==12.*' nvidia-cuda-nvrtc-cu12",
    13: "pip install 'cuda-bindings==13.*' 'nvidia-cuda-nvrtc==13.*'",
}
"""What installs the compiler and the bindings of a CUDA major version, from the registry of Python packages."""

_ERROR_LINE = r"(?m)^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?:catastrophic )?error"
# Compiler warnings and numbered ptxas remarks: setmaxnreg ignored (C7508), wgmma serialized (C7510 to C7518).
_WARNING_LINE = r"(?mi)^.*(?:\bwarning\s*[#:]|\(C7\d{3}\)).*$"


class CompilerMissing(UnavailableError):
    """NVRTC, or its Python binding, is not installed."""


class CompilationError(TilewrightError, RuntimeError):
    """NVRTC refused a translation unit; `log` is its complete log."""

    def __init__(self, message: str, log: str):
        super().__init__(message)
        self.log = log

    def __reduce__(self) -> tuple[type["CompilationError"], tuple[str, str]]:
        return CompilationError, (str(self), self.log)


class MachineCode(NamedTuple):
    """What ptxas makes of a kernel's PTX, with the resources that it reports.

    `registers` counts 32-bit registers per thread; `spill_bytes` adds stores and loads; `stack_bytes` is per
    thread, `static_smem_bytes` per CTA.
    """

    cubin: bytes
    registers: int
    spill_bytes: int
    stack_bytes: int
    static_smem_bytes: int


class CompiledKernel(NamedTuple):
    """One kernel compiled for one architecture.

    `machine_code` is None for a virtual architecture; then what is read of it raises an UnavailableError. `warnings`
    are one line each, with ptxas' performance remarks.
    """

    name: str
    arch: str
    ptx: str
    machine_code: MachineCode | None
    compile_seconds: float
    nvrtc_version: str
    warnings: tuple[str, ...]

    @property
    def cubin(self) -> bytes:
        """What a GPU loads."""
        return self._assembled.cubin

    @property
    def registers(self) -> int:
        """32-bit registers per thread."""
        return self._assembled.registers

    @property
    def spill_bytes(self) -> int:
        """Bytes of a thread's registers that are stored to local memory, and of those that are loaded back."""
        return self._assembled.spill_bytes

    @property
    def stack_bytes(self) -> int:
        """Bytes of local memory per thread."""
        return self._assembled.stack_bytes

    @property
    def static_smem_bytes(self) -> int:
        """Bytes of shared memory per CTA that the kernel declares."""
        return self._assembled.static_smem_bytes

    @property
    def _assembled(self) -> MachineCode:
        if self.machine_code is None:
            raise UnavailableError(
                f"{self.name} was compiled for {self.arch}, to PTX alone, since the emulator runs that: take "
                f"`tilewright inspect` for registers and SASS, or plan with backend='gpu'"
            )
        return self.machine_code


class Translation(NamedTuple):
    """What NVRTC makes of a source; without PTX and cubin if it refuses it, without cubin for a virtual architecture.

    lowered: the name in the PTX of the instantiation that was asked for.
    """

    status: str
    log: str
    ptx: str = ""
    cubin: bytes = b""
    lowered: str = ""


def translate(
    text: str, name: str, headers: Mapping[str, str], options: Sequence[str], instantiation: str = ""
) -> Translation:
    """Run NVRTC once. name: of the source in messages; headers: texts by name; instantiation: a C++ name expression."""
    nvrtc = load_nvrtc()
    program = _checked(
        nvrtc.nvrtcCreateProgram(
            text.encode(),
            name.encode(),
            len(headers),
            [header.encode() for header in headers.values()],
            [header.encode() for header in headers],
        )
    )
    try:
        if instantiation:
            _checked(nvrtc.nvrtcAddNameExpression(program, instantiation.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
        log = log.rstrip("\0").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return Translation(status.name, log)
        ptx = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode()
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)  # of no bytes where there is none
        lowered = _checked(nvrtc.nvrtcGetLoweredName(program, instantiation.encode())) if instantiation else b""
        return Translation(status.name, log, ptx, cubin, lowered.decode())
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compile(unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel:
    """Compile `unit` for `arch`, on a machine with any GPU or none.

    arch: a real architecture ("sm_80", "sm_90a"...), or a virtual one ("compute_90a") for PTX alone.

    Raises CompilationError with the log and the source around each error, CompilerMissing without NVRTC.
    """
    load_nvrtc()
    if not re.fullmatch(r"(sm|compute)_\d+[af]?", arch):
        raise ArgumentValueError(f"arch = {arch!r}: name an architecture such as 'sm_80', 'sm_90a' or 'compute_90a'")
    headers = unit.header_texts()
    start = time.perf_counter()
    made = translate(
        unit.text,
        f"{SOURCE_ROOT}{unit.name}.cu",
        {name: f'#line 1 "{SOURCE_ROOT}{name}"\n{text}' for name, text in headers.items()},
        (f"--gpu-architecture={arch}", *OPTIONS),
    )
    if not made.ptx:
        raise CompilationError(_explain_failure(unit, headers, arch, made.status, made.log), made.log)
    if made.cubin and "Used " not in made.log:
        raise CompilationError(f"ptxas reported no registers for {unit.name}; the log was:\n{made.log}", made.log)
    return compiled_kernel(unit.name, arch, made, time.perf_counter() - start)


def compiled_kernel(name: str, arch: str, made: Translation, seconds: float) -> CompiledKernel:
    """The kernel that NVRTC made, with what ptxas reported of it; of several kernels, the most."""
    return CompiledKernel(
        name=name,
        arch=arch,
        ptx=made.ptx,
        machine_code=_machine_code(made) if made.cubin else None,
        compile_seconds=seconds,
        nvrtc_version=nvrtc_version(),
        warnings=tuple(line.strip() for line in re.findall(_WARNING_LINE, made.log)),
    )


def _machine_code(made: Translation) -> MachineCode:
    # One line for each entry and one for each function that was not inlined.
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", made.log)
    return MachineCode(
        cubin=made.cubin,
        registers=max(map(int, re.findall(r"Used (\d+) registers", made.log)), default=0),
        spill_bytes=sum(int(stores) + int(loads) for _, stores, loads in frames),
        stack_bytes=sum(int(stack) for stack, _, _ in frames),
        static_smem_bytes=max(map(int, re.findall(r"(\d+) bytes smem", made.log)), default=0),
    )


def _read(get_size: Any, get: Any, program: Any) -> bytes:
    buffer = bytes(_checked(get_size(program)))
    _checked(get(program, buffer))  # the binding writes into the buffer
    return buffer


def _checked(result: tuple[Any, ...]) -> Any:
    """The value of an NVRTC call, whose first element is the status."""
    status, *values = result
    if status.value != 0:
        raise UnavailableError(f"NVRTC failed with {status.name}; this is a bug in tilewright or in the compiler")
    return values[0] if values else None


def _explain_failure(unit: TranslationUnit, headers: dict[str, str], arch: str, status: str, log: str) -> str:
    sources = {SOURCE_ROOT + name: text for name, text in {f"{unit.name}.cu": unit.text, **headers}.items()}
    places = dict.fromkeys((m["file"], int(m["line"])) for m in re.finditer(_ERROR_LINE, log))
    excerpts = [_excerpt(file, sources[file], line) for file, line in places if file in sources]
    return "\n\n".join([f"compiling {unit.name} for {arch} failed with {status}", log, *excerpts])


def _excerpt(file: str, text: str, line: int, context: int = 3) -> str:
    first = max(line - context, 1)
    rows = text.splitlines()[first - 1 : line + context]
    numbered = (f"{'>' if n == line else ' '}{n:5d} | {row}" for n, row in enumerate(rows, first))
    return "\n".join([f"{file}:", *numbered])


_load_lock = threading.Lock()
_loaded: tuple[ModuleType, str] | None = None


def _unlock_in_child() -> None:
    global _load_lock
    _load_lock = threading.Lock()  # a thread that is not in the child may hold the other one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def load_nvrtc() -> ModuleType:
    """The binding `cuda.bindings.nvrtc` with its library loaded; CompilerMissing names the packages to install."""
    global _loaded
    with _load_lock:
        if _loaded is None:
            try:
                from cuda.bindings import nvrtc

                _, major, minor = nvrtc.nvrtcVersion()  # loads the library
            except (ImportError, RuntimeError) as error:
                raise CompilerMissing(
                    f"NVRTC, NVIDIA's run-time compiler, cannot be loaded: {error}\n"
                    f"install it with: {INSTALL[13]} (driver 580 or later), or {INSTALL[12]}"
                ) from error
            _loaded = nvrtc, _name_loaded_version(f"{major}.{minor}")
        return _loaded[0]


def compilable() -> list[int]:
    """The compute capabilities, times ten, that NVRTC compiles for; raises CompilerMissing without NVRTC."""
    return list(_checked(load_nvrtc().nvrtcGetSupportedArchs()))


def nvrtc_version() -> str:
    """The NVRTC that this process compiles with: "13.5.37" for the wheel's, "13.5 at PATH" for another one.

    Importing the binding and loading its library takes 30 to 150 ms. So until something is compiled, the answer
    is the wheel's version by its metadata; the loader prefers the wheel to a toolkit. If the process has
    already loaded another libnvrtc, `load_nvrtc` finds out, and from then on the answer is that one.
    """
    if _loaded is None:
        wheel = _nvrtc_wheel()
        if wheel is not None:
            return wheel.version
        load_nvrtc()
    assert _loaded is not None
    return _loaded[1]


def _name_loaded_version(major_minor: str) -> str:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = str(load_nvidia_dynamic_lib("nvrtc").abs_path)  # the binding's own, remembered result
    wheel = _nvrtc_wheel()
    if wheel is not None and path.startswith(str(wheel.folder / "nvidia")):
        return wheel.version
    return f"{major_minor} at {path}"


class _Wheel(NamedTuple):
    """An installed wheel: its version, and the folder that it is in."""

    version: str
    folder: Path


@functools.cache
def _nvrtc_wheel() -> _Wheel | None:
    """The NVRTC wheel that belongs to the installed cuda-bindings, or None."""
    bindings = _wheel("cuda_bindings")
    if bindings is None:
        return None
    return _wheel("nvidia_cuda_nvrtc_cu12" if bindings.version.startswith("12.") else "nvidia_cuda_nvrtc")


def _wheel(name: str) -> _Wheel | None:
    """The first wheel of this name on Python's path, by the folder of its metadata; None if there is none.

    importlib.metadata says the same, and takes 20 ms to import.
    """
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder or "."):
                if entry.startswith(f"{name}-") and entry.endswith(".dist-info"):
                    return _Wheel(entry.removeprefix(f"{name}-").removesuffix(".dist-info"), Path(folder))
    return None
