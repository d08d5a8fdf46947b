"""Where a microbenchmark's kernel runs: on a GPU, or in the emulator, which has no clock but checks the kernel."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.hardware import H200, Hardware
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import LaunchShape

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
        from tilewright.backends.gpu import backend

        self._backend = backend(device)
        self.hardware = self._backend.hardware

    def run(
        self, kernel: CompiledKernel, shape: LaunchShape, read: Arrays, written: Arrays, numbers: Sequence[int]
    ) -> None:
        """Launch on the legacy default stream."""
        from cuda.bindings import driver

        from tilewright.backends.gpu import checked, launch_config

        with self._backend.current():
            function = self._backend.function(kernel, shape)
            addresses = []
            try:
                for array in (*read, *written):
                    addresses.append(int(checked(driver.cuMemAlloc(array.nbytes), "cuMemAlloc")))
                    checked(driver.cuMemcpyHtoD(addresses[-1], array.ctypes.data, array.nbytes), "cuMemcpyHtoD")
                values = [np.array(each, np.uint64) for each in addresses] + [
                    np.array(each, np.int32) for each in numbers
                ]
                pointers = np.array([value.ctypes.data for value in values], np.uint64)
                launched = driver.cuLaunchKernelEx(launch_config(shape), function, pointers.ctypes.data, 0)
                checked(launched, f"launching {kernel.name}")
                checked(driver.cuCtxSynchronize(), f"running {kernel.name}")
                for address, array in zip(addresses[len(read) :], written, strict=True):
                    checked(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes), "cuMemcpyDtoH")
            finally:
                for address in addresses:
                    driver.cuMemFree(address)
