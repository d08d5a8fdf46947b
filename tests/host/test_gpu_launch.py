"""Launches on a GPU, prebuilt: what the driver is told, by several that share one kernel's memory."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tilewright.dtypes import bf16
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.parameters import GemmParameters, KernelArguments, LaunchShape
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Matrix, Problem

gpu_launch = pytest.importorskip("tilewright.backends.gpu_launch")
driver = pytest.importorskip("cuda.bindings.driver")

from tilewright.backends.driver_calls import Context, CudaError  # noqa: E402
from tilewright.hardware import H200  # noqa: E402

DONE = driver.CUresult.CUDA_SUCCESS
ADDRESSES = {"a": 1 << 20, "b": 1 << 21, "out": 1 << 22}


class Driver:
    """Stands in for the driver: keeps the tensor maps that are asked for, and what each launch passes."""

    def __init__(self, monkeypatch):
        self.encoded, self.launched, self.contexts, self.current = {}, [], [], 7
        monkeypatch.setattr(gpu_launch, "_encode", self.encode)
        monkeypatch.setattr(gpu_launch, "_launch", self.launch)
        monkeypatch.setattr(driver, "cuCtxGetCurrent", lambda: (DONE, self.current))
        monkeypatch.setattr(driver, "cuCtxPushCurrent", lambda handle: (setattr(self, "current", int(handle)) or DONE,))
        monkeypatch.setattr(driver, "cuCtxPopCurrent", lambda: (setattr(self, "current", 0) or DONE, 0))
        monkeypatch.setattr(driver, "cuGetErrorString", lambda status: (DONE, b"refused"))

    def encode(self, kind, rank, address, extents, *form):
        if address < 0 or not self.current:
            return driver.CUresult.CUDA_ERROR_INVALID_VALUE, None
        self.contexts.append(self.current)
        place = len(self.encoded) + 1
        self.encoded[place] = address, tuple(map(int, extents))
        return DONE, SimpleNamespace(getPtr=lambda: place)

    def launch(self, config, function, addresses, extra):
        if not self.current:
            return (driver.CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        *maps, at = (ctypes.c_void_p * 3).from_address(addresses)
        passed = GemmParameters.from_buffer_copy((ctypes.c_char * ctypes.sizeof(GemmParameters)).from_address(at))
        numbers = passed.m, passed.n, passed.a.pointer, passed.out.pointer, passed.alpha, passed.beta
        self.launched.append((config.gridDimX, int(config.hStream), numbers, [self.encoded[place] for place in maps]))
        return (DONE,)


@pytest.fixture
def told(monkeypatch):
    return Driver(monkeypatch)


KERNEL = KERNELS["wgmma"]


def problem(rows):
    return Problem(rows, 512, 256, Matrix(bf16, 256, 1), Matrix(bf16, 512, 1), Matrix(bf16, 512, 1))


CONFIG = next(each for each in KERNEL.configs(problem(640), H200) if not each.swap_ab and each.epilogue == "direct")


def executables(*rows):
    """Those of several numbers of rows, with one kernel's memory, and the arguments of each."""
    first, *others = (KERNEL.assemble(CONFIG, problem(each), H200) for each in rows)
    launches = [first, *others]
    kernel = gpu_launch.GpuKernel(Context(driver.CUcontext(7)), 5, first.shape, first.arguments)
    return [gpu_launch.GpuExecutable(kernel, each.shape.grid, each.arguments) for each in launches], launches


def pointers(**others):
    return [{**ADDRESSES, **others}.get(name, 0) for name in ("a", "b", "c", "bias", "out")]


def expected(launch, given, alpha=1.0, beta=0.0, stream=0):
    a, b, *_, out = given
    solved = launch.arguments.problem
    of_a, of_b = ((address, spec.shape) for address, spec in zip((a, b), launch.arguments.tensor_maps, strict=True))
    return launch.shape.grid, stream, (solved.m, solved.n, a, out, alpha, beta), [of_a, of_b]


def test_launches_that_share_a_kernel_pass_their_own_arguments_in_any_order(told):
    made, launches = executables(640, 128, 384)
    moved = pointers(a=1 << 23)
    for index, given, alpha, stream in (
        (0, pointers(), 1.0, 0),
        (1, pointers(), 1.0, 0),
        (0, pointers(), 2.0, 3),
        (1, moved, 2.0, 3),
        (1, moved, 1.0, 0),
        (2, moved, 1.0, 9),
        (0, moved, 1.0, 9),
        (1, pointers(), 2.0, 9),
        (2, pointers(b=1 << 24), 2.0, 9),
        (0, pointers(b=1 << 24), 2.0, 9),
    ):
        made[index](given, alpha, 0.0, stream)
        assert told.launched[-1] == expected(launches[index], given, alpha, 0.0, stream)
    assert len(told.encoded) == 6 + 2  # a's for each executable and address, and b's for each address


def test_a_map_that_cannot_be_encoded_leaves_no_trace_in_the_next_launch(told):
    made, launches = executables(640, 128)
    made[0](pointers(), 1.0, 0.0, 0)
    for executable in made:
        with pytest.raises(CudaError, match=r"encoding the tensor map TensorMapSpec.* refused"):
            executable(pointers(b=-16), 1.0, 0.0, 0)
    assert len(told.launched) == 1
    for executable, launch in zip(made, launches, strict=True):
        executable(pointers(), 1.0, 0.0, 0)
        assert told.launched[-1] == expected(launch, pointers())


def test_a_thread_without_a_context_gets_the_gpus_own(told):
    (made,), (launch,) = executables(640)
    told.current = 0
    made(pointers(), 1.0, 0.0, 0)
    assert told.launched == [expected(launch, pointers())]
    assert told.current == 0


def test_maps_are_encoded_in_the_context_of_their_own_gpu(told):
    (made,), (launch,) = executables(640)
    told.current = 9
    made(pointers(), 1.0, 0.0, 0)
    assert told.contexts == [7, 7]
    assert told.launched == [expected(launch, pointers())]


def test_eight_threads_launch_in_turns(told):
    made, launches = executables(*range(128, 640, 64))
    wanted = []

    def use(number):
        for turn in range(50):
            index = (number + turn) % 8
            made[index](pointers(a=(number + 1) << 30), 1.0, 0.0, 0)
            wanted.append(expected(launches[index], pointers(a=(number + 1) << 30)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert sorted(map(repr, told.launched)) == sorted(map(repr, wanted))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_launch_of_other_rows_is_the_one_that_is_assembled_for_them(swapped):
    config = next(each for each in KERNEL.configs(problem(640), H200) if each.swap_ab is swapped)
    like = KERNEL.assemble(config, problem(640), H200)
    for rows in (632, 16, 8192, 24):
        other = problem(rows)
        resized, assembled = KERNEL.resized(config, other, H200, like), KERNEL.assemble(config, other, H200)
        assert isinstance(resized.arguments, KernelArguments)
        assert bytes(resized.arguments.structure()) == bytes(assembled.arguments.structure())
        assert resized.arguments.tensor_maps == assembled.arguments.tensor_maps
        assert (resized.source, resized.shape) == (assembled.source, assembled.shape)
        assert isinstance(resized.shape, LaunchShape)
        like = resized
    with pytest.raises(ConfigError, match="tiles and at most"):
        KERNEL.resized(config, problem(1 << 50), H200, like)
