"""Plans that are called again: what may change, and what must be refused before anything is launched."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from threading import Barrier, BrokenBarrierError, Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

import tilewright as tw
from support.doubles import GpuArray, RecordingBackend, Shared
from tilewright.backends.driver_calls import CudaError
from tilewright.backends.gpu import GpuBackend
from tilewright.hardware import H200
from tilewright.kernels.parameters import LaunchShape
from tilewright.planner import planning


@pytest.fixture
def backend(monkeypatch):
    """A backend whose plans are complete but for the compilation."""
    monkeypatch.setattr(planning, "build", lambda unit, arch: None)
    return RecordingBackend(own_streams=(0, 7))


def f16(*shape):
    return np.zeros(shape, np.float16)


def read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


def pretended_cupy():
    """A module that stands in for CuPy."""

    class PretendedArray(GpuArray):
        pass

    device = SimpleNamespace(Device=nullcontext, get_current_stream=lambda *_: SimpleNamespace(ptr=0))
    return SimpleNamespace(
        ndarray=PretendedArray, cuda=device, empty=lambda shape, dtype: PretendedArray(np.empty(shape, dtype))
    )


def test_a_plan_runs_on_arrays_like_its_own(backend):
    plan = tw.plan(f16(8, 8), f16(8, 8), backend=backend)
    assert not backend.launched
    out = f16(8, 8)
    assert plan(f16(8, 8), f16(8, 8), alpha=2.0, out=out, stream=7) is out
    ((pointers, alpha, beta, stream),) = backend.launched
    assert pointers[-1] == out.ctypes.data
    assert (alpha, beta, stream) == (2.0, 0.0, 7)


def test_matmul_plans_once_for_equal_signatures(backend):
    for _ in range(3):
        tw.matmul(f16(8, 24), f16(24, 8), backend=backend)
    assert (len(backend.prepared), len(backend.launched)) == (1, 3)
    tw.matmul(f16(8, 24)[:, ::2], f16(12, 8), backend=backend)
    assert len(backend.prepared) == 2


def test_matmul_takes_an_array_whose_shape_is_a_list(backend):
    class Listed(Shared):
        shape = [8, 8]  # noqa: RUF012

    for _ in range(2):
        assert tw.matmul(Listed(f16(8, 8)), f16(8, 8), backend=backend).shape == (8, 8)
    assert len(backend.launched) == 2


def test_results_have_the_library_and_the_dtype_of_a(backend):
    out = tw.matmul(f16(2, 1, 3, 4), f16(5, 4, 6), backend=backend)
    assert (type(out), out.dtype, out.shape) == (np.ndarray, np.float16, (2, 5, 3, 6))
    assert tw.matmul(f16(3, 4), f16(4, 6), out_dtype="bf16", backend=backend).dtype.name == "bfloat16"
    assert tw.matmul(f16(4), f16(4), backend=backend).shape == ()


@pytest.mark.parametrize(("m", "n", "batch"), [(0, 8, ()), (8, 0, ()), (8, 8, (2, 0))])
def test_a_result_without_elements_runs_nothing(backend, m, n, batch):
    out = tw.matmul(f16(*batch, m, 4), f16(4, n), bias=f16(n), backend=backend)
    assert out.shape == (*batch, m, n)
    assert not backend.prepared
    assert not backend.launched


def test_operands_are_passed_in_the_roles_of_a_transposed_problem(backend):
    a, b, c, bias, out = f16(8, 16), f16(16, 24), f16(8, 24), f16(24), f16(24, 8).T
    tw.matmul(a, b, c, bias=bias, out=out, backend=backend)
    assert backend.launched[0][0] == [x.ctypes.data for x in (b, a, c, bias, out)]


def test_beta_zero_does_not_pass_c_and_alpha_zero_sums_nothing(backend):
    tw.matmul(f16(8, 8), f16(8, 8), f16(8, 8), beta=0, backend=backend)
    assert backend.launched[0][0][2] == 0
    tw.matmul(f16(8, 8), f16(8, 8), f16(8, 8), alpha=0, backend=backend)
    assert backend.prepared[-1][2].problem.k == 0


def test_a_plan_keeps_the_alpha_and_beta_it_was_planned_with(backend):
    a, b, c = f16(8, 8), f16(8, 8), f16(8, 8)
    plan = tw.plan(a, b, c, alpha=0.5, beta=-2, backend=backend)
    assert (plan.alpha, plan.beta) == (0.5, -2.0)
    plan(a, b, c)
    plan(a, b, c, alpha=3)
    plan(a, b, c, beta=4)
    assert [launch[1:3] for launch in backend.launched] == [(0.5, -2.0), (3.0, -2.0), (0.5, 4.0)]
    with pytest.raises(ValueError, match=r"operands a, b, c and called with a, b "):
        plan(a, b)


def test_a_plan_with_zeros_keeps_them(backend):
    a, b, c = f16(8, 8), f16(8, 8), f16(8, 8)
    tw.plan(a, b, c, beta=0, backend=backend)(a, b, c)
    tw.plan(a, b, c, alpha=0, backend=backend)(a, b, c)
    assert [launch[1:3] for launch in backend.launched] == [(1.0, 0.0), (0.0, 1.0)]


@pytest.mark.parametrize("first", [0.5, 1.0])
def test_matmul_takes_no_alpha_from_the_call_that_planned(backend, first):
    for alpha in (first, 1.0, 2.0):
        tw.matmul(f16(8, 8), f16(8, 8), alpha=alpha, backend=backend)
    assert [launch[1] for launch in backend.launched] == [first, 1.0, 2.0]
    assert len(backend.prepared) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda plan: plan(f16(8, 9), f16(9, 8)), "^a is not as .*make another"),
        (lambda plan: plan(f16(8, 8), f16(8, 8).T), "^b is not as .*make another"),
        (lambda plan: plan(f16(8, 8).astype(np.float32), f16(8, 8)), "^a is not as .*fp32.*make another"),
        (lambda plan: plan(f16(72)[4:68].reshape(8, 8)[:, :], f16(8, 8), alpha=0), "alpha=0.*make another"),
        (lambda plan: plan(f16(8, 8), f16(8, 8), f16(8, 8)), "operands a, b and called with a, b, c "),
        (lambda plan: plan(f16(8, 8), f16(8, 8), bias=f16(8)), "called with a, b, bias .*make another"),
        (lambda plan: plan(f16(8, 8), f16(8, 8), out=f16(8, 9)[:, 1:]), "^out is not as .*make another"),
    ],
)
def test_a_plan_refuses_other_arrays(backend, call, message):
    plan = tw.plan(f16(8, 8), f16(8, 8), backend=backend)
    with pytest.raises(ValueError, match=message):
        call(plan)
    assert not backend.launched


def test_a_plan_takes_any_stride_of_a_single_row_or_column(backend):
    plan = tw.plan(f16(1, 8), f16(8, 1), backend=backend)
    row, column = f16(2, 16)[::2, :8], f16(8, 1).T.reshape(1, 8).T
    plan(row, column)
    ((pointers, *_),) = backend.launched
    assert set(pointers) >= {row.ctypes.data, column.ctypes.data}


def test_a_plan_refuses_worse_alignment(backend):
    memory = f16(80)
    memory = memory[-memory.ctypes.data % 16 // 2 :]
    plan = tw.plan(memory[:64].reshape(8, 8), f16(8, 8), backend=backend)
    with pytest.raises(ValueError, match=r"^a is not as .*aligned to 16 bytes; make another"):
        plan(memory[1:65].reshape(8, 8), f16(8, 8))
    assert not backend.launched


@pytest.mark.parametrize("alike", [read_only, lambda array: array.view(np.memmap), Shared])
def test_a_plan_takes_every_input_on_the_host_of_its_form(backend, alike):
    a, b, out = f16(8, 8), f16(8, 8), f16(8, 8)
    plan = tw.plan(a, b, out=out, backend=backend)
    array = alike(a)
    assert plan(array, b, out=out) is out
    assert plan(a, array) is not None
    with pytest.raises(ValueError, match=r"^a is not as the plan wants it: shape \(4, 8\) instead of \(8, 8\)"):
        plan(alike(a[:4]), b, out=out)
    assert len(backend.launched) == 2


def test_a_plan_refuses_outs_that_are_read_only_and_arrays_elsewhere(backend):
    a, b, out = f16(8, 8), f16(8, 8), f16(8, 8)
    plan = tw.plan(a, b, out=out, backend=backend)
    with pytest.raises(ValueError, match="out is read-only: pass a writable array"):
        plan(a, b, out=read_only(out))
    with pytest.raises(ValueError, match="a is not as the plan wants it: device GPU 0 instead of the CPU"):
        plan(GpuArray(a), b, out=out)
    assert not backend.launched


def test_overlap_and_read_only_outs_are_refused_also_when_planned_before(backend):
    a, b, out = f16(8, 8), f16(8, 8), f16(8, 8)
    tw.matmul(a, b, out=out, backend=backend)
    with pytest.raises(ValueError, match="out shares memory with a"):
        tw.matmul(a, b, out=a, backend=backend)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        tw.matmul(a, b, out=out, backend=backend)
    assert len(backend.launched) == 1


def test_interleaved_views_do_not_overlap(backend):
    memory = f16(8, 32)
    tw.matmul(memory[:, ::2][:, :8], f16(8, 8), out=memory[:, 1::2][:, :8], backend=backend)
    assert len(backend.launched) == 1


@pytest.mark.parametrize(
    "stream",
    [
        9,
        SimpleNamespace(ptr=9),
        SimpleNamespace(cuda_stream=9),
        SimpleNamespace(__cuda_stream__=lambda: (0, 9)),
    ],
)
def test_a_stream_of_another_gpu_is_refused(backend, stream):
    with pytest.raises(ValueError, match=r"stream=0x9 belongs to another GPU.*pass a stream of GPU 0"):
        tw.matmul(f16(8, 8), f16(8, 8), backend=backend, stream=stream)
    assert not backend.launched


def test_something_that_is_no_stream_is_refused(backend):
    with pytest.raises(TypeError, match="stream is a str: pass a CUstream number, a torch or CuPy stream"):
        tw.matmul(f16(8, 8), f16(8, 8), backend=backend, stream="default")
    assert not backend.launched


def test_the_gpu_backend_asks_the_driver_whose_a_stream_is(monkeypatch):
    backend = object.__new__(GpuBackend)  # without a GPU
    backend.device, backend._context_number = 1, 77
    contexts = {5: 77, 6: 78}
    monkeypatch.setattr(driver, "cuStreamGetCtx", lambda stream: (driver.CUresult.CUDA_SUCCESS, contexts[int(stream)]))
    for stream in (0, 1, 2, 5):
        backend.check_stream(stream)
    with pytest.raises(ValueError, match=r"stream=0x6 belongs to another GPU.*pass a stream of GPU 1"):
        backend.check_stream(6)


def test_threads_share_one_pool_of_workspaces(monkeypatch):
    backend = object.__new__(GpuBackend)
    backend.device, backend.context, backend._pool, backend._making_pool = 0, driver.CUcontext(), None, Lock()
    done, full = (driver.CUresult.CUDA_SUCCESS,), (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0)
    both, pools, freed = Barrier(2), [], []

    def create(properties):
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # a second thread would come to the same place
        pools.append(driver.CUmemoryPool())
        return *done, pools[-1]

    monkeypatch.setattr(driver, "cuMemPoolCreate", create)
    for name in ("cuCtxPushCurrent", "cuCtxPopCurrent", "cuMemPoolSetAttribute"):
        monkeypatch.setattr(driver, name, lambda *_: done)
    monkeypatch.setattr(driver, "cuMemAllocFromPoolAsync", lambda n, *_: full if n > 64 else (*done, 4096))
    monkeypatch.setattr(driver, "cuGetErrorString", lambda status: (*done, b"no memory"))
    monkeypatch.setattr(driver, "cuMemFreeAsync", lambda address, stream: freed.append(address))

    def use(_):
        with backend.workspace(64, 0) as address:
            return address

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(use, range(2))) == freed == [4096, 4096]
    assert len(pools) == 1
    with pytest.raises(CudaError, match="allocating a workspace of 65 bytes, for copies of operands or sums"):
        backend.workspace(65, 0).__enter__()
    assert len(freed) == 2


def test_threads_load_a_kernel_once_and_let_it_have_the_most_memory_that_is_asked_for(monkeypatch):
    backend = object.__new__(GpuBackend)
    backend.context, backend._functions, backend._loading = driver.CUcontext(), {}, Lock()
    done, loaded, allowed = (driver.CUresult.CUDA_SUCCESS,), [], {}
    both = Barrier(2)

    def load(cubin):
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # a second thread would come to the same place
        loaded.append(cubin)
        return *done, len(loaded)

    for name in ("cuCtxPushCurrent", "cuCtxPopCurrent"):
        monkeypatch.setattr(driver, name, lambda *_: done)
    monkeypatch.setattr(driver, "cuModuleLoadData", load)
    monkeypatch.setattr(driver, "cuModuleGetFunction", lambda module, name: (*done, f"function {module}"))
    monkeypatch.setattr(
        driver, "cuFuncSetAttribute", lambda function, _, value: allowed.update({function: value}) or done
    )
    compiled = SimpleNamespace(cubin=b"cubin", name="kernel")
    shapes = [LaunchShape(1, 32, 1, 1000, keeps_l1=True, spare_bytes=spare) for spare in (0, 90_000, 500)]
    with ThreadPoolExecutor(2) as threads:
        functions = [*threads.map(lambda shape: backend.function(compiled, shape), shapes[:2])]
    assert {*functions, backend.function(compiled, shapes[2])} == {"function 1"}
    assert loaded == [b"cubin"]
    assert allowed == {"function 1": 91_000}


class InTurns(RecordingBackend):
    """Runs launches of two threads in turns, and gives each workspace an address of its own."""

    def __init__(self):
        super().__init__(H200, own_streams=(7, 9))
        self.turn, self.given, self.addresses = Barrier(2, timeout=10), [], count(1 << 40, 1 << 20)

    def prepare(self, compiled, shape, arguments):
        launch = super().prepare(compiled, shape, arguments)

        def in_turns(*call):
            self.turn.wait()
            launch(*call)

        return in_turns

    @contextmanager
    def workspace(self, nbytes, stream):
        address = next(self.addresses)
        self.given.append((stream, address))
        yield address


def test_calls_of_a_plan_on_two_streams_share_no_workspace(monkeypatch):
    monkeypatch.setattr(planning, "build", lambda unit, arch: None)
    a, b, zeros = np.zeros((64, 128), np.int8), np.zeros((128, 64), np.int8), np.zeros((64, 1), np.int32)
    given: Any = {"scale_a": np.ones((), np.float32), "scale_b": np.ones((), np.float32), "zero_a": zeros}
    outs, backend = {7: f16(64, 64), 9: f16(64, 64)}, InTurns()
    plan = tw.plan(a, b, out=outs[7], recipe="tensor", kernel="wgmma", backend=backend, **given)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda stream: plan(a, b, out=outs[stream], stream=stream, **given), outs))
    assert len(backend.launched) == 6
    for stream, out in outs.items():
        repack, add, multiply = (pointers for pointers, _, _, of in backend.launched if of == stream)
        copy, sums = (address for of, address in backend.given if of == stream)
        assert repack == [a.ctypes.data, b.ctypes.data, 0, copy, 0]
        assert add == [0, copy, 0, 0, sums]
        swapped = plan.config.swap_ab
        assert multiply[:2] == [a.ctypes.data, copy][:: -1 if swapped else 1]
        assert multiply[4] == out.ctypes.data
        assert multiply[-1] == sums


def test_a_plan_takes_the_libraries_of_its_own_arrays_on_a_gpu(backend, monkeypatch):
    cupy = pretended_cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    a, b, wide = GpuArray(f16(1, 8)), GpuArray(f16(8, 8)), f16(4, 64)
    plan = tw.plan(a, b, backend=backend)  # whose out is CuPy's
    assert type(plan(GpuArray(wide[:1, :8]), b)) is cupy.ndarray
    with pytest.raises(ValueError, match="a is not as the plan wants it: it is a PretendedArray, of another library"):
        plan(cupy.ndarray(wide[:1, :8]), b)
    with pytest.raises(ValueError, match="a is not as the plan wants it: device the CPU instead of GPU 0"):
        plan(f16(1, 8), b)
    with pytest.raises(ValueError, match=r"a is not as the plan wants it: shape \(2, 8\) instead of \(1, 8\)"):
        plan(cupy.ndarray(f16(2, 8)), b)


def test_gpu_arrays_are_passed_by_their_own_addresses(backend):
    arrays = [GpuArray(f16(8, 8), pointer=pointer) for pointer in (4096, 8192, 16384)]
    tw.matmul(*arrays[:2], out=arrays[2], backend=backend)
    assert backend.launched[0][0] == [4096, 8192, 0, 0, 16384]


def test_torch_tensors_that_require_grad_are_refused(backend):
    torch = pytest.importorskip("torch")
    a = torch.zeros(8, 8, dtype=torch.float16, requires_grad=True)
    b = torch.zeros(8, 8, dtype=torch.float16)
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=r"a requires grad.*pass a.detach\(\)"):
            tw.matmul(a, b, backend=backend)
        assert not backend.launched
    with torch.no_grad():
        tw.matmul(a, b, backend=backend)
    assert len(backend.launched) == 1
