"""Calls of the CUDA driver: their values, or a CudaError."""

from typing import Any

from cuda.bindings import driver

from tilewright.errors import TilewrightError

SUCCESS = driver.CUresult.CUDA_SUCCESS
"""What a call returns that has done what it was asked for."""


class CudaError(TilewrightError, RuntimeError):
    """The CUDA driver refused a call; the message names the call, the driver's error and what to look at."""


def checked(result: tuple[Any, ...], call: object) -> Any:
    """The value of a driver call, or a CudaError; the text of `call` says which one it was."""
    status, *values = result
    if status != SUCCESS:
        _, text = driver.cuGetErrorString(status)
        described = text.decode() if text else "no description"
        raise CudaError(f"{call} failed with {status.name}: {described}")
    return values[0] if values else None


class Context:
    """A GPU's primary context, which is the calling thread's current one within a `with`; may be entered again."""

    def __init__(self, handle: Any):
        self._handle, self._number = handle, int(handle)

    @property
    def is_current(self) -> bool:
        """Whether it is the calling thread's current one already."""
        status, handle = driver.cuCtxGetCurrent()
        return not status and int(handle) == self._number

    def __enter__(self) -> None:
        checked(driver.cuCtxPushCurrent(self._handle), "cuCtxPushCurrent")

    def __exit__(self, *raised: object) -> None:
        checked(driver.cuCtxPopCurrent(), "cuCtxPopCurrent")
