"""The calls to the CUDA runtime that a compiled host function of CuTe DSL makes, answered without a GPU.

Source of names and parameters: the LLVM dialect that CuTe DSL 4 compiles host functions to; of structures and numbers:
driver_types.h of the CUDA toolkit.
"""

import ctypes
from collections.abc import Callable, Mapping
from ctypes import c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

from tilewright.hardware import MAX_SMEM_BYTES

OPT_IN_SHARED_BYTES = 97
"""cudaDevAttrMaxSharedMemoryPerBlockOptin"""
CLUSTER, SERIALIZATION = 4, 6
"""cudaLaunchAttributeClusterDimension, cudaLaunchAttributeProgrammaticStreamSerialization"""
FAILURE = 999
"""cudaErrorUnknown"""

ATTRIBUTES = {OPT_IN_SHARED_BYTES: MAX_SMEM_BYTES, 16: 132, 75: 9, 76: 0}
"""What an H100 says of itself, by cudaDeviceAttr: the bytes above, multiprocessors, compute capability."""


class _Attribute(ctypes.Structure):
    """cudaLaunchAttribute; the value is a union of 64 bytes."""

    _fields_ = (("id", c_int32), ("padding", ctypes.c_char * 4), ("value", c_int32 * 16))


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t"""

    _fields_ = (
        ("grid", c_int32 * 3),
        ("block", c_int32 * 3),
        ("shared_bytes", c_int64),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", c_int32),
    )


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch that a host function asks for; parameters: the addresses of the values, as many as the kernel takes."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_bytes: int
    dependent: bool
    parameters: Any


class Runtime:
    """A CUDA runtime of one GPU, which hands launches on.

    launched: called for each launch. An exception that it raises makes the runtime's function fail; `error` keeps it.
    """

    def __init__(self, launched: Callable[[Launched], None]) -> None:
        self._launched = launched
        self._kernels: list[str] = []
        self.error: BaseException | None = None
        pointer, number, wide = c_void_p, c_int32, c_int64
        self._functions = {
            "_cudaGetDevice": self._function(self._get_device, pointer),
            "_cudaGetDeviceCount": self._function(self._get_count, pointer),
            "_cudaDeviceGetAttribute": self._function(self._get_attribute, pointer, number, number),
            "_cudaLibraryLoadData": self._function(
                self._load, pointer, pointer, pointer, pointer, number, pointer, pointer, number
            ),
            "_cudaLibraryGetKernel": self._function(self._get_kernel, pointer, pointer, pointer),
            "_cuKernelGetAttribute": self._function(self._get_kernel_attribute, pointer, number, pointer, number),
            "_cudaFuncSetAttribute": self._function(self._accept, pointer, number, number),
            "_cudaKernelSetAttributeForDevice": self._function(self._accept, pointer, number, number, number),
            "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": self._function(
                self._get_occupancy, pointer, pointer, number, wide
            ),
            "_cudaLaunchKernelEx": self._function(self._launch, pointer, pointer, pointer),
            "_cudaStreamSynchronize": self._function(self._accept, pointer),
            "_cudaDeviceSynchronize": self._function(self._accept),
        }

    @property
    def functions(self) -> Mapping[str, c_void_p]:
        """The addresses of the functions by name; this object must outlive their use."""
        return {name: ctypes.cast(function, c_void_p) for name, function in self._functions.items()}

    def _function(self, body: Callable[..., None], *kinds: Any) -> Any:
        """A C function that returns a cudaError_t."""

        def guarded(*values: Any) -> int:
            try:
                body(*values)
            except BaseException as error:  # would be lost in the C code that calls this
                self.error = error
                return FAILURE
            return 0

        return ctypes.CFUNCTYPE(c_int32, *kinds)(guarded)

    def _accept(self, *values: Any) -> None:
        """Nothing is to be done."""

    def _get_device(self, device: int) -> None:
        c_int32.from_address(device).value = 0

    def _get_count(self, count: int) -> None:
        c_int32.from_address(count).value = 1

    def _get_attribute(self, value: int, attribute: int, device: int) -> None:
        c_int32.from_address(value).value = ATTRIBUTES.get(attribute, 0)

    def _get_kernel_attribute(self, value: int, attribute: int, kernel: int, device: int) -> None:
        c_int32.from_address(value).value = 0

    def _get_occupancy(self, count: int, kernel: int, threads: int, shared_bytes: int) -> None:
        c_int32.from_address(count).value = 1

    def _load(self, library: int, *options: Any) -> None:
        c_void_p.from_address(library).value = 1

    def _get_kernel(self, kernel: int, library: int, name: int) -> None:
        self._kernels.append(ctypes.string_at(name).decode())
        c_void_p.from_address(kernel).value = len(self._kernels)

    def _launch(self, config: int, kernel: int, parameters: int) -> None:
        asked = _Config.from_address(config)
        attributes = {asked.attributes[number].id: asked.attributes[number].value for number in range(asked.count)}
        self._launched(
            Launched(
                self._kernels[kernel - 1],
                tuple(asked.grid),
                tuple(asked.block),
                tuple(attributes[CLUSTER][:3]) if CLUSTER in attributes else (1,),
                asked.shared_bytes,
                SERIALIZATION in attributes and bool(attributes[SERIALIZATION][0]),
                ctypes.cast(parameters, ctypes.POINTER(c_void_p)),
            )
        )
