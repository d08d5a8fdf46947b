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

_SCALARS = 1.0, 0.0
"""alpha and beta as `Arguments.structure` has them."""


class GpuKernel:
    """A loaded kernel, and the memory from which it is launched, in turns for all of its GpuExecutables.

    lock: held by the one that launches. holder: the one whose arguments are in place. parameters: their bytes, and the
    same as words. addresses: of the tensor maps, and of the parameters. scalars: alpha and beta as they are in place.
    places: those of a call's pointers, in words. mapped: which pointers tensor maps have. encoded: of each tensor map,
    what was encoded last, since a weight's is the same whatever the number of rows.
    """

    def __init__(self, context: Context, function: Any, shape: LaunchShape, arguments: Arguments):
        """arguments: those of any launch."""
        self.context, self.lock = context, threading.Lock()
        maps = len(arguments.tensor_maps)
        self.places = arguments.places()
        self.mapped = [OPERANDS.index(spec.operand) for spec in arguments.tensor_maps]
        self.encoded: list[tuple[TensorMapSpec | None, int, Any]] = [(None, 0, None)] * maps
        memory = (ctypes.c_char * ctypes.sizeof(arguments.structure()))()
        self.parameters = memoryview(memory).cast("B")
        self.words = self.parameters.cast("Q")
        self.addresses = (ctypes.c_void_p * (maps + 1))(*[0] * maps, ctypes.addressof(memory))
        self.config = launch_config(shape)
        self.launched = (self.config, function, ctypes.addressof(self.addresses), 0)
        self.holder: GpuExecutable | None = None
        self.scalars = _SCALARS
        self.stream = 0

    def map_of(self, index: int, spec: TensorMapSpec, pointer: int) -> Any:
        """The tensor map of this index at an address."""
        last_spec, last_pointer, encoded = self.encoded[index]
        if pointer != last_pointer or spec != last_spec:
            encoded = encode(spec, pointer, self.context)
            self.encoded[index] = spec, pointer, encoded
        return encoded


class GpuExecutable:
    """A prebuilt launch of a loaded kernel: a call only writes what is not in place yet, and launches."""

    __slots__ = ("_encoded", "_grid", "_parameters", "_pointers", "_specs", "kernel")

    def __init__(self, kernel: GpuKernel, grid: int, arguments: Arguments):
        self.kernel = kernel
        self._grid = grid
        self._parameters = bytes(arguments.structure())
        self._specs = arguments.tensor_maps
        self._encoded: list[dict[int, Any]] = [{} for _ in self._specs]  # by address
        self._pointers: list[int] = []

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> None:
        """Launch asynchronously; `pointers` are device addresses, in order, 0 where absent."""
        kernel = self.kernel
        with kernel.lock:
            if kernel.holder is not self or pointers != self._pointers:
                self._take(pointers)
            if stream != kernel.stream:
                kernel.config.hStream = driver.CUstream(stream)  # comes first, since it may raise
                kernel.stream = stream
            if (alpha, beta) != kernel.scalars:
                struct.pack_into("ff", kernel.parameters, GemmParameters.alpha.offset, alpha, beta)
                kernel.scalars = alpha, beta
            (status,) = _launch(*kernel.launched)
            if not status:
                return
            if status in _WRONG_CONTEXT:
                # The current context of this thread is another GPU's, or there is none.
                with kernel.context:
                    (status,) = _launch(*kernel.launched)
            checked((status,), "launching the kernel")

    def _take(self, pointers: list[int]) -> None:
        """Put the arguments in place."""
        self._pointers = []  # until they are, since any of it may raise
        kernel, words = self.kernel, self.kernel.words
        maps = [self._map_at(index, pointers[place]) for index, place in enumerate(kernel.mapped)]
        if kernel.holder is not self:
            kernel.parameters[:] = self._parameters
            kernel.config.gridDimX = self._grid
            kernel.scalars, kernel.holder = _SCALARS, self
        for word, pointer in zip(kernel.places, pointers, strict=True):
            words[word] = pointer
        for index, encoded in enumerate(maps):
            kernel.addresses[index] = int(encoded.getPtr())
        self._pointers = pointers

    def _map_at(self, index: int, pointer: int) -> Any:
        """The tensor map of this index, of an operand at this address."""
        known = self._encoded[index]
        encoded = known.get(pointer)
        if encoded is None:
            if len(known) >= _CACHED_MAPS:
                known.clear()
            encoded = known[pointer] = self.kernel.map_of(index, self._specs[index], pointer)
        return encoded


def encode(spec: TensorMapSpec, address: int, context: Context) -> Any:
    """The driver's tensor map of an operand at an address of this context's GPU."""
    if not context.is_current:  # the calling thread may have none, or that of a GPU with other maps
        with context:
            return encode(spec, address, context)
    kind, rank, form = _form(spec.dtype, spec.strides, spec.box, spec.swizzle)
    result = _encode(kind, rank, address, [_words(extent) for extent in spec.shape], *form)
    return result[1] if not result[0] else checked(result, f"encoding the tensor map {spec} at {address:#x}")


@lru_cache(maxsize=1024)
def _form(dtype: DType, strides: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> tuple[Any, ...]:
    """What `cuTensorMapEncodeTiled` takes: two values before the address and the extents, and those after them."""
    halves = driver.cuuint32_t
    form = (
        [_words(stride) for stride in strides],
        [halves(extent) for extent in box],
        [halves(1)] * len(box),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        _SWIZZLES[swizzle],
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{L2_PROMOTION_BYTES}B"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{dtype.tma}"), len(box), form


def launch_config(shape: LaunchShape) -> Any:
    """The driver's configuration of a launch on the legacy default stream."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block, 1, 1
    config.sharedMemBytes = shape.smem_bytes + shape.spare_bytes
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
