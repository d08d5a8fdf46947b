"""CuPy: arrays on GPUs."""

import sys
from collections.abc import Callable
from typing import Any

from tilewright.arrays.cuda_interface import CudaInterface
from tilewright.arrays.library import imported


class CupyLibrary(CudaInterface):
    """CuPy, whose current stream is known."""

    def has(self, array: Any) -> bool:
        """Whether the array is CuPy's; does not import CuPy."""
        return isinstance(array, imported("cupy", "ndarray"))

    def stream_reader(self, device: int) -> Callable[[Any, int], int]:
        """CuPy's current stream."""
        cupy = sys.modules["cupy"]
        return lambda array, device: int(cupy.cuda.get_current_stream(device).ptr)


CUPY = CupyLibrary()
