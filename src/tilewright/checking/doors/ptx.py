"""PTX of any compiler: its text, or the path of a file with it."""

from pathlib import Path

from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.host_memory import arguments_of
from tilewright.checking.launch import Source, launch_of
from tilewright.checking.wording import PYTHON
from tilewright.errors import ArgumentTypeError


class PtxDoor:
    """PTX text and files."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is text, or a path."""
        return isinstance(kernel, str | bytes | Path)

    def run(self, call: Call, perform: Perform) -> None:
        """Launch the kernel of that name."""
        call.refuse_options("PTX")
        perform(
            launch_of(
                _source(call.kernel),
                call.entry,
                arguments_of(call.arguments),
                PYTHON,
                grid=call.extents("grid"),
                block=call.extents("block"),
                cluster=call.extents("cluster"),
                shared_bytes=call.shared_bytes,
            )
        )


def _source(kernel: object) -> Source:
    if isinstance(kernel, bytes):
        kernel = kernel.decode(errors="replace")
    if isinstance(kernel, Path) or (isinstance(kernel, str) and kernel.strip() and "\n" not in kernel):
        return Source.read(Path(kernel))
    if not isinstance(kernel, str):
        raise ArgumentTypeError(
            f"kernel is a {type(kernel).__name__}: pass PTX text, the path of a file with it, or a Triton kernel"
        )
    return Source("kernel", kernel.rstrip("\0"))


PTX = PtxDoor()
