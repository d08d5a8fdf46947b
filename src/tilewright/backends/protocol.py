"""Where a plan runs. Kernels and planner see only this protocol, never which backend is behind it."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tilewright.hardware import Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import KernelArguments, LaunchShape
from tilewright.operand import Operand


class Executable(Protocol):
    """A compiled kernel with its launch shape, ready for pointers."""

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Launch with the backend's addresses in the order of binding.OPERANDS, 0 where absent.

        `stream` is a CUstream handle, which the emulator ignores. Returns the emulator's Counters, or None on a
        GPU, where the launch is asynchronous.
        """


class Backend(Protocol):
    """A place that runs compiled kernels."""

    @property
    def name(self) -> str:
        """`gpu` or `emulator`."""

    @property
    def hardware(self) -> Hardware:
        """The GPU it is, or stands for."""

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: KernelArguments) -> Executable:
        """Load the kernel and prebuild everything that does not change from call to call."""

    def resident(self, operands: Mapping[str, Operand], stream: int) -> AbstractContextManager[Mapping[str, int]]:
        """The operands' addresses on this backend; what lives elsewhere is copied in, and `out` back at the end."""

    def check_stream(self, stream: int) -> None:
        """Raise ValueError for a stream that this backend cannot launch on."""


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open address ranges, overlapping and touching ones joined, empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if high <= low:
            continue
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
