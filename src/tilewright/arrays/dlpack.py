"""Arrays of any library that has `__dlpack__`."""

from typing import Any

from tilewright import dtypes
from tilewright.arrays.cuda_interface import GpuLibrary
from tilewright.errors import ArgumentTypeError
from tilewright.operand import HOST, Operand, contiguous_strides

_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost


class DlpackLibrary(GpuLibrary):
    """Any library whose arrays have `__dlpack__`."""

    def has(self, array: Any) -> bool:
        """Whether the array has the protocol."""
        return hasattr(array, "__dlpack__")

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand that the protocol describes."""
        from cuda.core.utils import StridedMemoryView  # imported late: most callers do not need it

        try:
            on_gpu = array.__dlpack_device__()[0] not in _HOST_DEVICES
            # On a GPU the array's library makes the legacy default stream wait for it: that is where we launch.
            view = StridedMemoryView.from_dlpack(array, stream_ptr=1 if on_gpu else -1)
            kind = view.dtype
        except Exception as error:  # a library may raise anything
            raise ArgumentTypeError(
                f"{argument} could not be shared through DLPack ({error}): pass a strided array"
            ) from error
        dtype = dtypes.parse(kind, f"{argument}.dtype")
        shape = tuple(view.shape)
        strides = contiguous_strides(shape) if view.strides is None else tuple(view.strides)
        device = int(view.device_id) if view.is_device_accessible else HOST
        return Operand(int(view.ptr), shape, strides, dtype, device, not view.readonly, (array, view))


DLPACK = DlpackLibrary()
