"""Run plans in the emulator: the kernel's own PTX, on NumPy, without a GPU."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal
from weakref import WeakSet

import numpy as np

from tilewright.backends.protocol import mirrored
from tilewright.emulator import Counters, Device, Observer
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200, Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import Arguments, LaunchShape, parameters_of
from tilewright.operand import HOST, Operand
from tilewright.problem import OPERANDS


class EmulatedBackend:
    """An emulated GPU that stands in for `hardware`; each launch gets fresh memory between redzones.

    asynchrony, seed: when asynchronous copies and products complete: "eager" (at once), "lazy" (as late as allowed) or
    "random". A result that depends on it is a race.
    tensor_cores: "exact", or "hardware" to add as those of an H200 do (see `Device`).
    memory_bytes: of the emulated GPU; pages cost nothing until they are used.
    count_memory: also count sectors and wavefronts, which costs time.
    checks: look for races and other broken rules; `device.reports` then lists them.
    progress: called with the finished share of a launch.
    observers: told of all events (`tilewright.emulator.Observer`).
    """

    name = "emulator"

    def __init__(
        self,
        hardware: Hardware = H200,
        *,
        asynchrony: Literal["eager", "lazy", "random"] = "eager",
        seed: int = 0,
        tensor_cores: Arithmetic = "exact",
        memory_bytes: int = 1 << 30,
        count_memory: bool = False,
        checks: bool = False,
        progress: Callable[[float], None] | None = None,
        observers: Sequence[Observer] = (),
    ):
        self.hardware, self.arch = hardware, hardware.virtual_arch
        self._turn = threading.Lock()
        self._make_device = partial(
            Device,
            asynchrony=asynchrony,
            seed=seed,
            tensor_cores=tensor_cores,
            memory_bytes=memory_bytes,
            count_memory=count_memory,
            checks=checks,
            progress=progress,
            observers=observers,
        )
        self.device = self._make_device()
        _BACKENDS.add(self)

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments) -> "EmulatedExecutable":
        """Parse the PTX and generate its NumPy code (cached by text)."""
        with self._turn:
            return EmulatedExecutable(self, compiled, shape, arguments)

    def reads_in_place(self, device: int) -> bool:
        """Never: kernels see emulated memory."""
        return False

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Whether there is nothing to load, as always."""
        return True

    def check_stream(self, stream: int) -> None:
        """The emulator has no streams: any number is ignored."""

    def is_capturing(self, stream: int) -> bool:
        """Never: there are no streams."""
        return False

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        """Addresses of copies of the operands, which keep their alignment; `out` is copied back, gaps included."""
        for name, operand in operands.items():
            if operand.device != HOST:
                raise ArgumentValueError(
                    f"{name} is on GPU {operand.device} and backend='emulator' runs on host memory: move it to the "
                    f"CPU, or leave backend='auto'"
                )
        with self._turn, mirrored(operands, self.memory) as addresses:
            yield addresses

    def fill(self, address: int, nbytes: int, byte: int, stream: int) -> None:
        """Set memory to a byte."""
        self.device.write(address, np.full(nbytes, byte, np.uint8))

    def prepare_workspace(self) -> None:
        """Nothing is needed."""

    @contextmanager
    def workspace(self, nbytes: int, stream: int) -> Iterator[int]:
        """Fresh memory between redzones, for callers that have the operands `resident`."""
        address = self.device.allocate(nbytes)
        try:
            yield address
        finally:
            self.device.free(address)

    @property
    def memory(self) -> "_EmulatedMemory":
        """The emulated GPU's memory."""
        return _EmulatedMemory(self.device)

    def start_over_in_child(self) -> None:
        """After a fork: a thread that is not in this process may have held the turn, and left the device half-done."""
        if self._turn.locked():
            self.device = self._make_device()
        self._turn = threading.Lock()


_BACKENDS: WeakSet[EmulatedBackend] = WeakSet()


def _start_over_in_child() -> None:
    for backend in _BACKENDS:
        backend.start_over_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over_in_child)


class _EmulatedMemory:
    """The emulated device's memory, with copies from and to the host's."""

    def __init__(self, device: Device):
        self.allocate = device.allocate
        self.free = device.free
        self._device = device

    def copy_in(self, address: int, host: int, nbytes: int) -> None:
        self._device.write(address, _host_bytes(host, nbytes))

    def copy_out(self, host: int, address: int, nbytes: int) -> None:
        _host_bytes(host, nbytes)[:] = self._device.read(address, nbytes)


class EmulatedExecutable:
    """A kernel's PTX with its launch shape."""

    def __init__(self, backend: EmulatedBackend, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments):
        self._backend, self._compiled = backend, compiled
        self._load()
        self._shape = shape
        self._arguments = arguments

    def _load(self) -> None:
        self._device = self._backend.device
        self._kernel = self._device.load(self._compiled.ptx, self._compiled.name)

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Counters:
        """Run to completion and return what was counted."""
        if self._device is not self._backend.device:  # a fork has replaced it
            self._load()
        by_name = dict(zip(OPERANDS, pointers, strict=False))  # of those of an expression none has a tensor map
        maps = [
            self._device.tensor_map(
                address=by_name[spec.operand],
                dtype=spec.dtype.numpy_dtype,
                shape=spec.shape,
                strides=spec.strides,
                box=spec.box,
                swizzle=spec.swizzle,
            )
            for spec in self._arguments.tensor_maps
        ]
        parameters = bytes(parameters_of(self._arguments, pointers, alpha, beta))
        return self._device.launch(
            self._kernel,
            (self._shape.grid, 1, 1),
            (self._shape.block, 1, 1),
            [*maps, parameters],
            cluster=(self._shape.cluster, 1, 1),
            shared_bytes=self._shape.smem_bytes,
            dependent=self._shape.dependent,
        )


def _host_bytes(address: int, nbytes: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """The bytes from a host address on, as a view."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
