"""A GPU that is not there: products are planned for it, to time what planning costs the host."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilewright.backends.protocol import Executable
from tilewright.hardware import H200, Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import Arguments, LaunchShape
from tilewright.operand import Operand


class AbsentGpu:
    """A Backend that stands in for a GPU and never launches anything."""

    name = "absent"

    def __init__(self, hardware: Hardware = H200):
        self.hardware, self.arch = hardware, hardware.arch

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments) -> Executable:
        """Write the parameters, as the backend of a GPU does, and return an Executable that launches nothing."""
        arguments.structure()
        return lambda pointers, alpha, beta, stream: None

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        """Copy nothing: there are no addresses."""
        yield {}

    def fill(self, address: int, nbytes: int, byte: int, stream: int) -> None:
        """Nothing is there to fill."""

    def prepare_workspace(self) -> None:
        """Nothing is needed."""

    @contextmanager
    def workspace(self, nbytes: int, stream: int) -> Iterator[int]:
        """No memory: nothing is launched."""
        yield 0

    def reads_in_place(self, device: int) -> bool:
        """Always, as a GPU reads its own memory."""
        return True

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Always: there is nothing to load."""
        return True

    def check_stream(self, stream: int) -> None:
        """Accept any stream."""

    def is_capturing(self, stream: int) -> bool:
        """Never: there are no streams."""
        return False
