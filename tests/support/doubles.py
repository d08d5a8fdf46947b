"""Stand-ins for GPUs and their arrays, for what is decided before anything runs."""

from contextlib import contextmanager

import numpy as np

from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import A100, H200
from tilewright.operand import HOST

V100 = A100._replace(name="V100", arch="sm_70", smem_bytes=98_304)
"""A GPU older than every kernel: no cp.async, no bf16."""


class CountingBackend(EmulatedBackend):
    """An emulated GPU that keeps the counters of each launch."""

    def __init__(self, hardware=H200):
        super().__init__(hardware, count_memory=True)
        self.counted = []

    def prepare(self, compiled, shape, arguments):
        launch = super().prepare(compiled, shape, arguments)

        def counted(*call):
            self.counted.append(launch(*call))
            return self.counted[-1]

        return counted


class RecordingBackend:
    """Runs nothing and records what it was asked for; streams other than its own belong to another GPU.

    With `host_in_place` it takes arrays in host memory for its own.
    """

    name = "recording"

    def __init__(self, hardware=A100, own_streams=(0,), host_in_place=False):
        self.hardware, self.arch = hardware, hardware.arch
        self.host_in_place = host_in_place
        self.own_streams = own_streams
        self.captured_streams = ()
        self.prepared = []
        self.launched = []

    def prepare(self, compiled, shape, arguments):
        self.prepared.append((compiled, shape, arguments))
        return lambda *call: self.launched.append(call)

    def has_loaded(self, compiled):
        return any(compiled is known for known, *_ in self.prepared)

    @contextmanager
    def resident(self, operands, stream):
        yield {name: operand.pointer for name, operand in operands.items()}

    def fill(self, address, nbytes, byte, stream):
        pass

    def prepare_workspace(self):
        pass

    @contextmanager
    def workspace(self, nbytes, stream):
        yield 1 << 40

    def reads_in_place(self, device):
        return self.host_in_place or device != HOST

    def is_capturing(self, stream):
        return stream in self.captured_streams

    def check_stream(self, stream):
        if stream not in self.own_streams:
            raise ValueError(f"stream={stream:#x} belongs to another GPU: pass a stream of GPU 0")


class GpuArray:
    """An array that says it is on a GPU; its memory is never touched unless `array` really is there."""

    def __init__(self, array: np.ndarray, device=0, pointer=None, typestr=None):
        self.dtype = array.dtype
        self.shape = array.shape
        self.device = type("Device", (), {"id": device})()
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data if pointer is None else pointer, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": typestr or array.dtype.str,
            "version": 3,
        }
        self._keep, self._pointer = array, pointer

    def swapaxes(self, first, second):
        """A view of it."""
        return GpuArray(self._keep.swapaxes(first, second), self.device.id, self._pointer)


class Shared:
    """An array that shares a NumPy array through DLPack and has no other interface."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()
