"""Where a microbenchmark's kernel runs: on a GPU, or in the emulator, which has no clock but checks the kernel."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from cuda.bindings import driver

from tilewright.backends.driver_calls import checked
from tilewright.backends.gpu import backend
from tilewright.backends.gpu_launch import launch_config
from tilewright.errors import TilewrightError
from tilewright.hardware import H200, Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.measure.timing import time_launches

Arrays = Sequence["np.ndarray[Any, Any]"]


class Runner(ABC):
    """A place that launches kernels whose parameters are pointers to arrays, and then 32-bit integers.

    name: `gpu` or `emulator`. hardware: the GPU that it is, or stands in for.
    """

    name: str
    hardware: Hardware

    @abstractmethod
    def run(
        self, kernel: CompiledKernel, shape: LaunchShape, read: Arrays, written: Arrays, numbers: Sequence[int]
    ) -> None:
        """Launch on copies of the arrays, wait, and copy those that are written back."""


class EmulatedRunner(Runner):
    """The emulator, which raises an error for the first rule of memory that the kernel breaks."""

    name = "emulator"
    hardware = H200

    def run(
        self, kernel: CompiledKernel, shape: LaunchShape, read: Arrays, written: Arrays, numbers: Sequence[int]
    ) -> None:
        """Launch under all checks; the emulator's clocks are no times."""
        from tilewright.emulator import Device

        nbytes = sum(array.nbytes for array in (*read, *written))
        device = Device(memory_bytes=2 * nbytes + (1 << 20), checks=True)
        addresses = [device.upload(array) for array in (*read, *written)]
        loaded = device.load(kernel.ptx)
        device.launch(
            loaded,
            shape.grid,
            shape.block,
            [*addresses, *numbers],
            cluster=shape.cluster,
            shared_bytes=shape.smem_bytes,
        )
        if device.reports:
            raise TilewrightError(f"{kernel.name} breaks a rule: {device.reports[0]}")
        for address, array in zip(addresses[len(read) :], written, strict=True):
            array[...] = device.read(address, array.nbytes).view(array.dtype).reshape(array.shape)


class GpuRunner(Runner):
    """One GPU."""

    name = "gpu"

    def __init__(self, device: int = 0):
        self._backend = backend(device)
        self.hardware = self._backend.hardware

    def run(
        self, kernel: CompiledKernel, shape: LaunchShape, read: Arrays, written: Arrays, numbers: Sequence[int]
    ) -> None:
        """Launch on the legacy default stream."""
        arrays = (*read, *written)
        with self._backend.current(), self._memory(array.nbytes for array in arrays) as addresses:
            for address, array in zip(addresses, arrays, strict=True):
                checked(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes), "cuMemcpyHtoD")
            self._launcher(kernel, shape, addresses, numbers)(0)
            checked(driver.cuCtxSynchronize(), f"running {kernel.name}")
            for address, array in zip(addresses[len(read) :], written, strict=True):
                checked(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes), "cuMemcpyDtoH")

    def seconds(
        self, kernel: CompiledKernel, shape: LaunchShape, ones: int, written: Arrays, numbers: Sequence[int]
    ) -> float:
        """The median seconds of a launch that reads so many 32-bit words of one, and leaves results in `written`."""
        with self._backend.current(), self._memory((4 * ones, *(each.nbytes for each in written))) as addresses:
            checked(driver.cuMemsetD32(addresses[0], 1, ones), "cuMemsetD32")
            timing = time_launches(self._launcher(kernel, shape, addresses, numbers))
            for address, array in zip(addresses[1:], written, strict=True):
                checked(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes), "cuMemcpyDtoH")
        return timing.median

    @contextmanager
    def fetching(self, nbytes: int) -> Iterator[None]:
        """L2 fetches at most so many bytes for a sector that it lacks, as far as it takes the hint."""
        limit = driver.CUlimit.CU_LIMIT_MAX_L2_FETCH_GRANULARITY
        with self._backend.current():
            before = checked(driver.cuCtxGetLimit(limit), "cuCtxGetLimit")
            checked(driver.cuCtxSetLimit(limit, nbytes), "cuCtxSetLimit")
            try:
                yield
            finally:
                checked(driver.cuCtxSetLimit(limit, before), "cuCtxSetLimit")

    @contextmanager
    def _memory(self, sizes: Iterable[int]) -> Iterator[list[int]]:
        """The addresses of memory of these sizes in bytes."""
        addresses: list[int] = []
        try:
            for nbytes in sizes:
                addresses.append(int(checked(driver.cuMemAlloc(nbytes), f"cuMemAlloc of {nbytes:,} bytes")))
            yield addresses
        finally:
            for address in addresses:
                driver.cuMemFree(address)

    def _launcher(
        self, kernel: CompiledKernel, shape: LaunchShape, addresses: Sequence[int], numbers: Sequence[int]
    ) -> Callable[[int], None]:
        """A function that launches on a stream."""
        function, config = self._backend.function(kernel, shape), launch_config(shape)
        values = [np.array(each, np.uint64) for each in addresses] + [np.array(each, np.int32) for each in numbers]

        def launch(stream: int) -> None:
            pointers = np.array([value.ctypes.data for value in values], np.uint64)
            config.hStream = driver.CUstream(stream)
            checked(driver.cuLaunchKernelEx(config, function, pointers.ctypes.data, 0), f"launching {kernel.name}")

        return launch
