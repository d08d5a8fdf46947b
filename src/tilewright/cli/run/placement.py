"""The placement of operands on a GPU: arrays of the library that the user most likely has."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.reference import Array


@dataclass(frozen=True, slots=True)
class Placement:
    """Functions that copy operands to a GPU, as arrays of one library, and back."""

    name: str
    from_numpy: Callable[[Array], Any]
    to_numpy: Callable[[Any], Array]


def gpu_placement(dtype: DType) -> Placement:
    """The placement by torch if it is installed and sees a GPU, else by CuPy, else in bare GPU memory."""
    if find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            return _torch_placement(torch)
    if find_spec("cupy") and dtype != dtypes.bf16:  # most releases of CuPy lack bf16
        import cupy

        return Placement("CuPy", lambda array: _transposing(cupy.asarray, array), cupy.asnumpy)
    return Placement("NumPy, copied to the GPU", GpuCopy, GpuCopy.to_numpy)


def _torch_placement(torch: Any) -> Placement:
    # As bytes, since torch and NumPy share no bf16.
    def from_numpy(array: Array) -> Any:
        kind = getattr(torch, dtypes.parse(array.dtype, "array.dtype").torch.removeprefix("torch."))
        return _transposing(lambda stored: torch.from_numpy(stored.view(np.uint8)).cuda().view(kind), array)

    def to_numpy(tensor: Any) -> Array:
        stored: Array = tensor.view(torch.uint8).cpu().numpy()
        return stored.view(dtypes.parse(tensor.dtype, "tensor.dtype").numpy_dtype)

    return Placement("torch", from_numpy, to_numpy)


def _transposing(convert: Callable[[Array], Any], array: Array) -> Any:
    """Convert an array as it is stored, and transpose the result if the array's matrices are transposed views."""
    return convert(array) if array.flags.c_contiguous else convert(array.swapaxes(-1, -2)).swapaxes(-1, -2)


class GpuCopy:
    """A copy of a NumPy array on GPU 0, for machines without a GPU array library; strides are kept.

    The memory is freed with the object.
    """

    class device:  # noqa: D106  (read as array.device.id)
        id = 0

    def __init__(self, array: Array):
        from cuda.bindings import driver

        from tilewright.backends.driver_calls import checked
        from tilewright.backends.gpu import backend

        self.dtype, self.shape, self._strides = array.dtype, array.shape, array.strides
        self._gpu, self._nbytes = backend(self.device.id), array.nbytes
        stored = array if array.flags.c_contiguous else array.swapaxes(-1, -2)
        with self._gpu.current():
            self._pointer = int(checked(driver.cuMemAlloc(max(array.nbytes, 1)), f"allocating {array.nbytes} bytes"))
            if array.nbytes:
                checked(driver.cuMemcpyHtoD(self._pointer, stored.ctypes.data, array.nbytes), "cuMemcpyHtoD")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self._pointer, False),
            "shape": self.shape,
            "strides": self._strides,
            "typestr": self.dtype.str,
            "version": 3,
        }

    def to_numpy(self) -> Array:
        """The elements, in a new row-major array, once the GPU has finished."""
        from cuda.bindings import driver

        from tilewright.backends.driver_calls import checked

        stored = np.empty(self.shape, self.dtype)
        with self._gpu.current():
            checked(driver.cuCtxSynchronize(), "cuCtxSynchronize")
            if self._nbytes:
                checked(driver.cuMemcpyDtoH(stored.ctypes.data, self._pointer, self._nbytes), "cuMemcpyDtoH")
        return stored

    def __del__(self) -> None:
        if hasattr(self, "_pointer"):
            from cuda.bindings import driver

            with self._gpu.current():
                driver.cuMemFree(self._pointer)
