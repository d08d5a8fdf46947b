"""A launch on a GPU, prebuilt, and the tensor maps that it passes.

A product that is multiplied for the first time builds one within its call, so what launches share is kept: the driver's
objects take longer to make than to use.
"""

import ctypes
import struct
import threading
from functools import cache, lru_cache
from typing import Any

from cuda.bindings import driver

from tilewright.backends.driver_calls import Context, checked
from tilewright.dtypes import DType
from tilewright.kernels.parameters import (
    L2_PROMOTION_BYTES,
    Arguments,
    GemmParameters,
    LaunchShape,
    TensorMapSpec,
    words_of,
)
from tilewright.problem import OPERANDS

_CACHED_MAPS = 64
"""The most tensor maps that are kept per operand of a plan; the next address empties the cache first."""

_SWIZZLES = {
    0: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}

_WRONG_CONTEXT = frozenset(
    (
        driver.CUresult.CUDA_ERROR_INVALID_CONTEXT,
        driver.CUresult.CUDA_ERROR_INVALID_HANDLE,
        driver.CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,
    )
)
"""The driver's errors for a function that belongs to another context than the calling thread's."""

_launch = driver.cuLaunchKernelEx
_encode = driver.cuTensorMapEncodeTiled
_words = driver.cuuint64_t
_DEFAULT_STREAM = driver.CUstream(0)


class GpuExecutable:
    """A loaded kernel with a prebuilt launch: a call only writes pointers and scalars into place and launches."""

    def __init__(self, context: Context, function: Any, shape: LaunchShape, arguments: Arguments):
        self._context = context
        self._lock = threading.Lock()  # one launch at a time uses the parameters
        self._parameters = arguments.structure()
        self._words = words_of(self._parameters)
        self._places = arguments.places()
        self._scalars = GemmParameters.alpha.offset
        self._maps = [_TensorMaps(spec) for spec in arguments.tensor_maps]
        addresses = [0] * len(self._maps) + [ctypes.addressof(self._parameters)]
        self._arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        self._config = launch_config(shape)
        self._launched = (self._config, function, ctypes.addressof(self._arguments), 0)
        self._pointers: list[int] = []
        self._told = (1.0, 0.0, 0)  # alpha, beta, stream

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> None:
        """Launch asynchronously; `pointers` are device addresses, in order, 0 where absent."""
        with self._lock:
            if pointers != self._pointers:
                self._point_to(pointers)
            if (alpha, beta, stream) != self._told:
                self._config.hStream = driver.CUstream(stream)  # comes first, since it may raise
                struct.pack_into("ff", self._parameters, self._scalars, alpha, beta)
                self._told = (alpha, beta, stream)
            (status,) = _launch(*self._launched)
            if not status:
                return
            if status in _WRONG_CONTEXT:
                # The current context of this thread is another GPU's, or there is none.
                with self._context:
                    (status,) = _launch(*self._launched)
            checked((status,), "launching the kernel")

    def _point_to(self, pointers: list[int]) -> None:
        self._pointers = []  # if encoding fails, the next call must not find this call's pointers
        words = self._words
        for word, pointer in zip(self._places, pointers, strict=True):
            words[word] = pointer
        if self._maps:
            with self._context:  # encoding needs a context, and this thread may have none
                for index, maps in enumerate(self._maps):
                    self._arguments[index] = maps.address_of_map(pointers)
        self._pointers = pointers


class _TensorMaps:
    """The encoded tensor maps of one operand, by address."""

    __slots__ = ("_encoded", "_index", "_spec")

    def __init__(self, spec: TensorMapSpec):
        self._spec = spec
        self._index = OPERANDS.index(spec.operand)
        self._encoded: dict[int, Any] = {}

    def address_of_map(self, pointers: list[int]) -> int:
        pointer = pointers[self._index]
        encoded = self._encoded.get(pointer)
        if encoded is None:
            if len(self._encoded) >= _CACHED_MAPS:
                self._encoded.clear()
            encoded = self._encoded[pointer] = encode(self._spec, pointer)
        return int(encoded.getPtr())


def encode(spec: TensorMapSpec, address: int) -> Any:
    """The driver's tensor map of an operand at an address; needs a current context."""
    kind, rank, *form = _form(spec.dtype, spec.strides, spec.box, spec.swizzle)
    result = _encode(kind, rank, address, [_words(extent) for extent in spec.shape], *form)
    return result[1] if not result[0] else checked(result, f"encoding the tensor map {spec} at {address:#x}")


@lru_cache(maxsize=1024)
def _form(dtype: DType, strides: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> tuple[Any, ...]:
    """What `cuTensorMapEncodeTiled` takes before and after the address and the extents, in its order."""
    halves = driver.cuuint32_t
    return (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{dtype.tma}"),
        len(box),
        [_words(stride) for stride in strides],
        [halves(extent) for extent in box],
        [halves(1)] * len(box),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        _SWIZZLES[swizzle],
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{L2_PROMOTION_BYTES}B"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )


def launch_config(shape: LaunchShape) -> Any:
    """The driver's configuration of a launch on the legacy default stream."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block, 1, 1
    config.sharedMemBytes = shape.smem_bytes
    config.hStream = _DEFAULT_STREAM
    attributes = _attributes(shape.cluster, shape.dependent)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


@cache
def _attributes(cluster: int, dependent: bool) -> list[Any]:
    """The attributes of a launch, which the driver copies."""
    attributes = []
    if cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = cluster
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
        attributes.append(attribute)
    if dependent:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    return attributes
