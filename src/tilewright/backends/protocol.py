"""The protocol of backends, where plans run. Kernels and planner see only this protocol, never a certain backend."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from tilewright.hardware import Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import Arguments, LaunchShape
from tilewright.operand import Operand
from tilewright.problem import WRITTEN

ALIGNMENT = 16
"""The largest alignment in bytes that plans distinguish; copies keep addresses modulo this."""


class Executable(Protocol):
    """A compiled kernel with its launch shape, ready for pointers."""

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Launch with the backend's addresses in the order of problem.operand_names, 0 where absent.

        `stream` is a CUstream handle, which the emulator ignores. Returns the emulator's Counters, or None on a
        GPU, where the launch is asynchronous.
        """


class Workspaces(Protocol):
    """Where calls get memory of their own."""

    def prepare_workspace(self) -> None:
        """Make what `workspace` needs and what may not be made while a stream is captured."""

    def workspace(self, nbytes: int, stream: int) -> AbstractContextManager[int]:
        """The address of memory for the launches on `stream` within the context, aligned to 256 bytes.

        They may still run when the context ends: later work gets the memory in their order. A stream that is captured
        captures the memory too.
        """


class Backend(Workspaces, Protocol):
    """A place that runs compiled kernels."""

    @property
    def name(self) -> str:
        """`gpu` or `emulator`."""

    @property
    def hardware(self) -> Hardware:
        """The GPU that the backend is, or stands in for."""

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for: a virtual one where their PTX runs."""

    def reads_in_place(self, device: int) -> bool:
        """Whether kernels use the memory of a device (HOST or a GPU's number) where it is, without copies."""

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments) -> Executable:
        """Load the kernel and prebuild everything that does not change from call to call."""

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Whether the kernel is loaded, so that `prepare` may be called while a stream is captured."""

    def resident(self, operands: Mapping[str, Operand], stream: int) -> AbstractContextManager[Mapping[str, int]]:
        """The operands' addresses on this backend. Those elsewhere are copied in, and WRITTEN ones back at the end."""

    def fill(self, address: int, nbytes: int, byte: int, stream: int) -> None:
        """Set memory on this backend to a byte, in the order of the stream."""

    def check_stream(self, stream: int) -> None:
        """Raise ValueError for a stream that this backend cannot launch on."""

    def is_capturing(self, stream: int) -> bool:
        """Whether `stream` is being captured into a CUDA graph; then nothing may be compiled or loaded."""


class Memory(Protocol):
    """A backend's memory as `mirrored` uses it; addresses on the host are plain numbers."""

    def allocate(self, nbytes: int) -> int:
        """The address of fresh memory, aligned to 256 bytes."""

    def free(self, address: int) -> None:
        """Give back what `allocate` returned, once no kernel uses it."""

    def copy_in(self, address: int, host: int, nbytes: int) -> None:
        """Copy from the host."""

    def copy_out(self, host: int, address: int, nbytes: int) -> None:
        """Copy to the host after the launched kernels have finished, and wait for the copy."""


@contextmanager
def mirrored(operands: Mapping[str, Operand], memory: Memory) -> Iterator[Mapping[str, int]]:
    """Addresses of copies of host operands; at the end the bytes that WRITTEN ones span are copied back.

    Operands that share memory share it in the copy too, and addresses keep their alignment.
    """
    copies: list[tuple[int, int, int]] = []  # first and one-past-last address on the host, address of the copy
    try:
        for low, high in merge_ranges(operand.byte_range() for operand in operands.values()):
            skew = low % ALIGNMENT
            copies.append((low, high, memory.allocate(high - low + skew) + skew))
            memory.copy_in(copies[-1][2], low, high - low)
        yield {name: _translated(operand.pointer, copies) for name, operand in operands.items()}
        for name in operands.keys() & set(WRITTEN):
            first, last = operands[name].byte_range()
            for low, high, address in copies:
                if low <= first < last <= high:
                    memory.copy_out(first, address + first - low, last - first)
    finally:
        for low, _, address in copies:
            memory.free(address - low % ALIGNMENT)


def _translated(pointer: int, copies: list[tuple[int, int, int]]) -> int:
    """The address in the copy; 0 for the pointer of an empty array, which is never read."""
    return next((pointer - low + address for low, high, address in copies if low <= pointer < high), 0)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The half-open address ranges, sorted; overlapping ones are joined, and empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if high <= low:
            continue
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
