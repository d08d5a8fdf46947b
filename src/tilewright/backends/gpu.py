"""Run plans on a GPU through the CUDA driver, in the primary context that torch and CuPy use too."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from cuda.bindings import driver

from tilewright.backends.driver_calls import SUCCESS, Context, checked
from tilewright.backends.gpu_launch import GpuExecutable, GpuKernel
from tilewright.backends.protocol import mirrored
from tilewright.errors import ArgumentValueError
from tilewright.hardware import HOPPER, Hardware, rates_of, recognize
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import Arguments, LaunchShape
from tilewright.operand import HOST, Operand


def device_count() -> int:
    """Number of usable GPUs; 0 without a driver."""
    try:
        (status,) = driver.cuInit(0)
        return checked(driver.cuDeviceGetCount(), "cuDeviceGetCount") if status == SUCCESS else 0
    except RuntimeError:  # cuda-bindings: the driver library is not installed
        return 0


@cache
def backend(device: int) -> "GpuBackend":
    """The backend of GPU number `device`."""
    return GpuBackend(device)


class GpuBackend:
    """One GPU. Compiled kernels are loaded into its primary context, which is created if it does not exist yet."""

    name = "gpu"

    def __init__(self, device: int = 0):
        count = device_count()
        if device >= count:
            raise ArgumentValueError(
                f"device={device} does not exist: this machine has {count} usable GPU(s); name one of them"
            )
        self.device = device
        self._handle = checked(driver.cuDeviceGet(device), "cuDeviceGet")
        self.context = checked(driver.cuDevicePrimaryCtxRetain(self._handle), "cuDevicePrimaryCtxRetain")
        self._context_number = int(self.context)
        self.hardware = self._read_hardware()
        self.arch = self.hardware.arch
        self._functions: dict[bytes, tuple[Any, int]] = {}
        self._loading = threading.Lock()
        self._kernels: dict[tuple[bytes, tuple[Any, ...]], GpuKernel] = {}
        self._pool: Any = None
        self._making_pool = threading.Lock()

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments) -> "GpuExecutable":
        """Prebuild the parameters and the tensor maps of a launch of a loaded kernel."""
        key = compiled.cubin, shape[1:]
        kernel = self._kernels.get(key)
        if kernel is None:
            made = GpuKernel(self.current(), self.function(compiled, shape), shape, arguments)
            kernel = self._kernels.setdefault(key, made)
        return GpuExecutable(kernel, shape.grid, arguments)

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Whether the kernel's function is there."""
        return compiled.cubin in self._functions

    def function(self, compiled: CompiledKernel, shape: LaunchShape) -> Any:
        """The kernel's function in this context; each cubin is loaded once and stays.

        Its launches may have as much dynamic shared memory as any shape that was asked for.
        """
        smem_bytes = shape.smem_bytes + shape.spare_bytes
        with self._loading:
            function, allowed = self._functions.get(compiled.cubin, (None, -1))
            if function is None or allowed < smem_bytes:
                with self.current():
                    if function is None:
                        function = _loaded(compiled, shape)
                    _set(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", smem_bytes)
                self._functions[compiled.cubin] = function, smem_bytes
        return function

    def current(self) -> Context:
        """Within a `with`, this GPU's primary context is the calling thread's current one."""
        return Context(self.context)

    def reads_in_place(self, device: int) -> bool:
        """Whether the device is this GPU, whose own memory kernels read in place."""
        return device == self.device

    def check_stream(self, stream: int) -> None:
        """Raise ValueError for a stream of another GPU."""
        if stream < 0:
            raise ArgumentValueError(f"stream={stream} is not a CUDA stream: pass its handle, or leave stream= out")
        if stream <= 2:  # the legacy and the per-thread default streams belong to the current context, whichever it is
            return
        context = checked(driver.cuStreamGetCtx(driver.CUstream(stream)), "cuStreamGetCtx(stream)")
        if int(context) != self._context_number:
            raise ArgumentValueError(
                f"stream={stream:#x} belongs to another GPU than the operands, which are on GPU {self.device}: "
                f"pass a stream of GPU {self.device}, or none for the current one"
            )

    def is_capturing(self, stream: int) -> bool:
        """Whether `stream` is being captured into a CUDA graph."""
        with self.current():
            status, capture = driver.cuStreamIsCapturing(driver.CUstream(stream))[:2]
        # While another stream is captured, this query fails for the legacy default stream, which cannot be captured.
        active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
        return bool(status == SUCCESS and capture == active)

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        """The operands' addresses on this GPU. Host operands are copied here, and `out` back after the kernel."""
        host = {name: operand for name, operand in operands.items() if operand.device == HOST}
        if not host:
            yield {name: operand.pointer for name, operand in operands.items()}
            return
        with self.current(), mirrored(host, _StreamMemory(stream)) as moved:
            yield {name: operand.pointer for name, operand in operands.items()} | dict(moved)

    def fill(self, address: int, nbytes: int, byte: int, stream: int) -> None:
        """Set memory to a byte, in the order of the stream."""
        with self.current():
            checked(driver.cuMemsetD8Async(address, byte, nbytes, driver.CUstream(stream)), "filling an output")

    def prepare_workspace(self) -> None:
        """Make the pool."""
        self._workspace_pool()

    @contextmanager
    def workspace(self, nbytes: int, stream: int) -> Iterator[int]:
        """Memory from a pool of this backend's own, in the order of the stream."""
        handle = driver.CUstream(stream)
        with self.current():
            allocated = driver.cuMemAllocFromPoolAsync(nbytes, self._workspace_pool(), handle)
            call = f"allocating a workspace of {nbytes} bytes, for copies of operands or sums of columns,"
            address = int(checked(allocated, call))
            try:
                yield address
            finally:
                driver.cuMemFreeAsync(address, handle)

    def _workspace_pool(self) -> Any:
        """The pool of workspaces, which keeps its memory: to map it anew after each synchronization would take long."""
        with self._making_pool:
            if self._pool is None:
                properties = driver.CUmemPoolProps()
                properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
                properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
                properties.location.id = self.device
                pool = checked(driver.cuMemPoolCreate(properties), "cuMemPoolCreate")
                attribute = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
                most = driver.cuuint64_t(2**64 - 1)
                checked(driver.cuMemPoolSetAttribute(pool, attribute, most), "cuMemPoolSetAttribute")
                self._pool = pool
            return self._pool

    @property
    def memory(self) -> "_StreamMemory":
        """This GPU's memory; copies run in the order of the default stream."""
        return _StreamMemory(0)

    @property
    def l2_bytes(self) -> int:
        """The size of its L2."""
        return self._attribute("L2_CACHE_SIZE")

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(checked(driver.cuDeviceGetAttribute(attribute, self._handle), f"cuDeviceGetAttribute({name})"))

    def _read_hardware(self) -> Hardware:
        """The facts of this GPU: sizes from the driver, rates from the table, or for unknown GPUs from the driver."""
        name = checked(driver.cuDeviceGetName(128, self._handle), "cuDeviceGetName").split(b"\0")[0].decode()
        capability = 10 * self._attribute("COMPUTE_CAPABILITY_MAJOR") + self._attribute("COMPUTE_CAPABILITY_MINOR")
        sm_count = self._attribute("MULTIPROCESSOR_COUNT")
        smem_bytes = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if known := recognize(name):
            return known._replace(sm_count=sm_count, smem_bytes=smem_bytes)
        return Hardware(
            name=name.removeprefix("NVIDIA "),
            arch=HOPPER if capability == 90 else f"sm_{capability}",
            sm_count=sm_count,
            smem_bytes=smem_bytes,
            # Two transfers per memory clock, which is in kHz (0 from some drivers); the bus width is in bits.
            memory_bandwidth=2e3
            * (self._attribute("MEMORY_CLOCK_RATE") or 1_000_000)
            * self._attribute("GLOBAL_MEMORY_BUS_WIDTH")
            / 8,
            tensor_clock=1e3 * self._attribute("CLOCK_RATE"),
            cuda_core_clock=1e3 * self._attribute("CLOCK_RATE"),
            rates=rates_of(capability),
        )


def _loaded(compiled: CompiledKernel, shape: LaunchShape) -> Any:
    """The function of a kernel that the current context has not loaded yet."""
    module = checked(driver.cuModuleLoadData(compiled.cubin), f"loading the cubin of {compiled.name}")
    function = checked(driver.cuModuleGetFunction(module, compiled.name.encode()), "cuModuleGetFunction")
    if shape.dependent and not shape.keeps_l1:
        # The next grid's CTAs may then be on an SM beside the last ones of this grid.
        _set(function, "PREFERRED_SHARED_MEMORY_CARVEOUT", 100)
    return function


def _set(function: Any, attribute: str, value: int) -> None:
    """Set an attribute of a kernel's function."""
    named = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
    checked(driver.cuFuncSetAttribute(function, named, value), "cuFuncSetAttribute")


class _StreamMemory:
    """Device memory whose copies run in the order of a stream."""

    def __init__(self, stream: int):
        self._stream = driver.CUstream(stream)

    def allocate(self, nbytes: int) -> int:
        return int(checked(driver.cuMemAlloc(nbytes), f"allocating {nbytes} bytes"))

    def free(self, address: int) -> None:
        driver.cuMemFree(address)  # waits for the kernels that use it

    def copy_in(self, address: int, host: int, nbytes: int) -> None:
        checked(driver.cuMemcpyHtoDAsync(address, host, nbytes, self._stream), "copying an operand to the GPU")

    def copy_out(self, host: int, address: int, nbytes: int) -> None:
        checked(driver.cuMemcpyDtoHAsync(host, address, nbytes, self._stream), "copying the result to the host")
        checked(driver.cuStreamSynchronize(self._stream), "the kernel")
