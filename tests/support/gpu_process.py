"""Launches on the GPU in a process of their own: one that hangs or breaks its context does not end the others."""

import multiprocessing
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from support.gpu_images import GpuImage

SECONDS_PER_LAUNCH = 10
_DRIVER_TYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64",
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "tf32": "TFLOAT32",
}  # fmt: skip
"""The driver's names of element types."""
MAX_STARTS = 24
"""Of the process: launches that break more contexts than that leave the rest untried."""


class GpuFailure(Exception):
    """A launch that the driver refused, that trapped or that did not end."""


class GpuProcess:
    """A child process that launches; it is started anew after a failure."""

    def __init__(self) -> None:
        self._child: Any = None
        self._pipe: Any = None
        self._starts = 0

    def submit(self, launch):
        """Begin a launch, whose `result` is to be taken before the next. Raises GpuFailure."""
        if self._child is None:
            self._start()
        self._pipe.send(launch)

    def result(self):
        """The buffers after the launch. Raises GpuFailure."""
        if not self._pipe.poll(SECONDS_PER_LAUNCH):
            self.stop()
            raise GpuFailure(f"the launch did not end in {SECONDS_PER_LAUNCH} seconds")
        try:
            result = self._pipe.recv()
        except EOFError:
            self.stop()
            raise GpuFailure("the process of the launch ended") from None
        if isinstance(result, tuple):
            message, broken = result
            if broken:
                self.stop()
            raise GpuFailure(message)
        return result

    def _start(self):
        if self._starts == MAX_STARTS:
            raise GpuFailure(f"not tried: the process of the GPU has already ended {MAX_STARTS} times")
        self._starts += 1
        context = multiprocessing.get_context("spawn")
        self._pipe, childs_end = context.Pipe()
        self._child = context.Process(target=_serve, args=(childs_end,), daemon=True)
        self._child.start()
        childs_end.close()
        answer = self._pipe.recv() if self._pipe.poll(60) else "none in 60 seconds"
        if answer != "ready":
            self.stop()
            raise GpuFailure(f"no CUDA context: {answer}")

    def stop(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._pipe.close()
            self._child = None


def _serve(pipe):
    try:
        driver, _ = _current_context()
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            launch = pipe.recv()
            try:
                result = launch_here(launch)
            except Exception as error:
                broken = driver.cuCtxSynchronize()[0] != driver.CUresult.CUDA_SUCCESS
                result = f"{type(error).__name__}: {error}", broken
            pipe.send(result)


@cache
def _current_context():
    """The driver, and GPU 0's primary context current in this thread."""
    from cuda.bindings import driver

    from tilewright.backends.driver_calls import checked

    checked(driver.cuInit(0), "cuInit")
    device = checked(driver.cuDeviceGet(0), "cuDeviceGet")
    context = checked(driver.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
    checked(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return driver, checked


@cache
def _function(ptx, shared_bytes):
    """The module's only entry; the driver assembles the PTX. Its log is in the error."""
    driver, checked = _current_context()
    log = bytearray(4096)
    options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    status, module = driver.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options, [log, len(log)])
    message = log.split(b"\0")[0].decode(errors="replace").strip()
    checked((status, module), f"assembling ({message[:300]})")
    name = ptx.split(".entry ")[1].split("(")[0].strip()
    function = checked(driver.cuModuleGetFunction(module, name.encode()), "cuModuleGetFunction")
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked(driver.cuFuncSetAttribute(function, attribute, shared_bytes), "cuFuncSetAttribute")
    return function


def launch_here(launch):
    """The buffers and the pictures after the launch, in this process. Raises what the driver's refusals raise."""
    driver, checked = _current_context()
    function = _function(launch.ptx, launch.shared_bytes)
    addresses = []
    for buffer in launch.buffers:
        address = checked(driver.cuMemAlloc(max(buffer.nbytes, 1)), "cuMemAlloc")
        addresses.append(int(address))
        checked(driver.cuMemcpyHtoD(address, buffer.ctypes.data, buffer.nbytes), "cuMemcpyHtoD")
    maps = [_encoded(tensor, addresses[tensor.buffer], driver, checked) for tensor in launch.tensors]
    images = [GpuImage(picture, driver, checked) for picture in launch.pictures]
    words = np.array([*addresses, *(image.handle for image in images), *launch.numbers], np.uint64)
    places = [int(encoded.getPtr()) for encoded in maps]
    places += [words.ctypes.data + 8 * index for index in range(words.size)]
    arguments = np.array(places, np.uint64)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block, 1, 1
    config.sharedMemBytes, config.hStream = launch.shared_bytes, driver.CUstream(0)
    config.numAttrs = 0
    if launch.cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = launch.cluster
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
        config.attrs, config.numAttrs = [attribute], 1
    checked(driver.cuLaunchKernelEx(config, function, arguments.ctypes.data, 0), "cuLaunchKernelEx")
    checked(driver.cuCtxSynchronize(), "the kernel")
    results = []
    for address, buffer in zip(addresses, launch.buffers, strict=True):
        after = np.empty(buffer.nbytes, np.uint8)
        checked(driver.cuMemcpyDtoH(after.ctypes.data, address, after.nbytes), "cuMemcpyDtoH")
        checked(driver.cuMemFree(address), "cuMemFree")
        results.append(after)
    for image in images:
        results.append(image.read())
        image.destroy()
    return results


def _encoded(tensor, base, driver, checked):
    words, halves = driver.cuuint64_t, driver.cuuint32_t
    swizzle = {0: "NONE"}.get(tensor.swizzle, f"{tensor.swizzle}B")
    fill = "NAN_REQUEST_ZERO_FMA" if tensor.oob_nan else "NONE"
    if tensor.lower:
        encode, box = driver.cuTensorMapEncodeIm2col, [list(tensor.lower), list(tensor.upper), *tensor.box]
    else:
        encode, box = driver.cuTensorMapEncodeTiled, [[halves(extent) for extent in tensor.box]]
    return checked(
        encode(
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DRIVER_TYPES[tensor.dtype]}"),
            len(tensor.shape),
            base + tensor.offset,
            [words(extent) for extent in tensor.shape],
            [words(stride) for stride in tensor.strides or (16,)],
            *box,
            [halves(step) for step in tensor.element_strides or [1] * len(tensor.shape)],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            getattr(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
        ),
        f"encoding {tensor}",
    )
