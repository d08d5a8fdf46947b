"""CuPy: RawKernel and RawModule, whose CUDA C++ is compiled here, since CuPy compiles for a GPU that it finds."""

import re
import sys
from pathlib import Path
from typing import Any

from tilewright.checking.doors.cuda import launch_source
from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.doors.ptx import launch_module
from tilewright.checking.launch import Source
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.hardware import HOPPER
from tilewright.jit.user_source import UserSource


class CupyDoor:
    """Kernels of CuPy from source."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is a RawKernel or a RawModule; does not import CuPy."""
        cupy = sys.modules.get("cupy")
        return cupy is not None and isinstance(kernel, cupy.RawKernel | cupy.RawModule)

    def run(self, call: Call, perform: Perform) -> None:
        """Compile the source with its options, and launch the kernel."""
        kernel = call.kernel
        call.refuse_options("CuPy kernels")
        entry = call.entry
        if isinstance(kernel, sys.modules["cupy"].RawKernel):
            call.refuse("a RawKernel", "entry", remedy="it names its kernel")
            entry = kernel.name
        named = Call(kernel, call.arguments, call.grid, call.block, call.cluster, call.shared_bytes, entry)
        if kernel.file_path is not None:
            if not str(kernel.file_path).endswith(".ptx"):
                raise ArgumentValueError(f"kernel is of {kernel.file_path}: pass one of PTX or of CUDA C++")
            launch_module(Source.read(Path(kernel.file_path)), entry, named, perform)
            return
        if not isinstance(kernel.code, str):
            raise ArgumentTypeError(f"kernel has {type(kernel.code).__name__} for code: give CuPy CUDA C++ text")
        launch_source(_source(kernel, entry), named, perform)


_ARCHITECTURE = re.compile(r"--?(?:gpu-architecture|arch)(?:[= ](\S+))?")


def _source(kernel: Any, entry: str | None) -> UserSource:
    file = f"{entry if entry is not None and entry.isidentifier() else 'module'}.cu"
    headers = Path(str(sys.modules["cupy"].__file__)).parent / "_core" / "include"
    options, architecture = [], HOPPER
    given = iter(kernel.options)
    for option in given:
        if match := _ARCHITECTURE.fullmatch(option):  # a second one beside ours would be an error
            architecture = (match[1] or next(given, "")).replace("compute_", "sm_")
        else:
            options.append(option)
    return UserSource(file, kernel.code, (str(headers),), options=tuple(options), architecture=architecture)


CUPY = CupyDoor()
