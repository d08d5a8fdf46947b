"""cuda-core: a Program, compiled without a GPU, and an ObjectCode of PTX."""

from pathlib import Path
from typing import Any

from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.doors.ptx import launch_module
from tilewright.checking.launch import Source
from tilewright.errors import ArgumentValueError
from tilewright.jit.compile import CompilationError, load_nvrtc
from tilewright.jit.user_source import is_expression


class CudaCoreDoor:
    """Programs and object code of cuda-core."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is one of these; does not import cuda-core."""
        kind = type(kernel)
        return kind.__module__.startswith("cuda.core") and kind.__name__ in ("Program", "ObjectCode", "Kernel")

    def run(self, call: Call, perform: Perform) -> None:
        """Launch an entry of the PTX."""
        call.refuse_options("cuda-core objects")
        kind = type(call.kernel).__name__
        if kind == "Program":
            _run_program(call, perform)
        elif kind == "ObjectCode" and call.kernel.code_type == "ptx":
            launch_module(_module(call.kernel), call.entry, call, perform)
        else:
            what = call.kernel.code_type if kind == "ObjectCode" else "machine code"
            raise ArgumentValueError(f"kernel is of {what}: pass the Program, or its ObjectCode of 'ptx'")


def _module(kernel: Any) -> Source:
    """The PTX of an ObjectCode, which holds its bytes or the path of its file."""
    if isinstance(kernel.code, str) and "\n" not in kernel.code:
        return Source.read(Path(kernel.code))
    text = kernel.code if isinstance(kernel.code, str) else _text(kernel.code)
    return Source(kernel.name or "kernel", text.rstrip("\0"))


def _run_program(call: Call, perform: Perform) -> None:
    """Compile a program to machine code, which needs no GPU, and launch the PTX that comes with it."""
    program = call.kernel
    if program.backend.lower() != "nvrtc":
        raise ArgumentValueError(f"kernel is a Program of {program.backend}, not of CUDA C++: pass the PTX text")
    expression = call.entry if call.entry is not None and is_expression(call.entry) else ""
    nvrtc = load_nvrtc()
    handle = nvrtc.nvrtcProgram(int(program.handle))
    status, size = nvrtc.nvrtcGetPTXSize(handle)
    if status.value or size <= 1:
        try:
            program.compile("cubin", name_expressions=(expression,) if expression else ())
        except Exception as error:  # its class differs among versions
            raise CompilationError(f"the Program does not compile:\n{error}", str(error)) from error
        _, size = nvrtc.nvrtcGetPTXSize(handle)
    text = bytes(size)
    nvrtc.nvrtcGetPTX(handle, text)
    entry = call.entry
    if expression:
        status, lowered = nvrtc.nvrtcGetLoweredName(handle, expression.encode())
        if status.value:
            raise ArgumentValueError(
                f"entry={expression!r} is not an instantiation that the Program was compiled with: pass a new Program"
            )
        entry = lowered.decode()
    launch_module(Source("program", _text(text)), entry, call, perform, expression)


def _text(ptx: Any) -> str:
    return bytes(ptx).rstrip(b"\0").decode(errors="replace")


CUDA_CORE = CudaCoreDoor()
