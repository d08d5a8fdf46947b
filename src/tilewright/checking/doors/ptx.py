"""PTX of any compiler: its text, or the path of a file with it."""

import re
from pathlib import Path

from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.host_memory import arguments_of
from tilewright.checking.launch import Source, launch_of
from tilewright.checking.wording import PYTHON
from tilewright.errors import ArgumentTypeError

_OF_A_SOURCE = re.compile(r"\n|\b__global__\b|\.version\s+\d|\.entry\s")
"""What a source has, even on one line, and a path has not."""


class PtxDoor:
    """PTX text and files."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is text, or a path."""
        return isinstance(kernel, str | bytes | Path)

    def run(self, call: Call, perform: Perform) -> None:
        """Launch the kernel of that name."""
        call.refuse_options("PTX")
        launch_module(_source(call.kernel), call.entry, call, perform)


def is_source(text: str) -> bool:
    """Whether a text is a source, CUDA C++ or PTX, and not the path of one."""
    return not text.strip() or bool(_OF_A_SOURCE.search(text))


def launch_module(source: Source, entry: str | None, call: Call, perform: Perform, title: str = "") -> None:
    """Launch an entry of a PTX module as a call says; title: its name in results."""
    perform(
        launch_of(
            source,
            entry,
            arguments_of(call.arguments),
            PYTHON,
            grid=call.extents("grid"),
            block=call.extents("block"),
            cluster=call.extents("cluster"),
            shared_bytes=call.shared_bytes,
            title=title,
        )
    )


def _source(kernel: object) -> Source:
    if isinstance(kernel, bytes):
        kernel = kernel.decode(errors="replace")
    if isinstance(kernel, Path) or (isinstance(kernel, str) and not is_source(kernel)):
        return Source.read(Path(kernel))
    if not isinstance(kernel, str):
        raise ArgumentTypeError(
            f"kernel is a {type(kernel).__name__}: pass PTX text, the path of a PTX or CUDA C++ file, "
            "or a kernel of Triton, CuTe DSL, CuPy or cuda-core"
        )
    return Source("kernel", kernel.rstrip("\0"))


PTX = PtxDoor()
