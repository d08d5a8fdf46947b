"""Each array library by its own rules, with stand-ins for those that are not installed."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from support.doubles import GpuArray, Shared
from tilewright import arrays, dtypes
from tilewright.arrays import adopt, describe, library_of
from tilewright.arrays.cuda_interface import CUDA_INTERFACE
from tilewright.arrays.cupy import CUPY
from tilewright.arrays.dlpack import DLPACK
from tilewright.arrays.jax import JAX
from tilewright.arrays.numpy import NUMPY, NUMPY_SUBCLASSES
from tilewright.arrays.torch import TORCH, TorchLibrary
from tilewright.errors import TilewrightError, UnavailableError
from tilewright.operand import HOST


@pytest.fixture
def pretend(monkeypatch):
    """Puts a module in the place of a library; types that were met under it are forgotten."""
    monkeypatch.setattr(arrays, "_BY_TYPE", {})
    monkeypatch.setattr(arrays, "_DESCRIBED", {})

    def module(name, **contents):
        made = ModuleType(name)
        made.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return module


@pytest.fixture
def jax(pretend):
    class Array(Shared):
        def is_deleted(self):
            return False

    class Tracer(Array):
        pass

    return pretend("jax", Array=Array, core=SimpleNamespace(Tracer=Tracer))


@pytest.fixture
def cupy(pretend):
    class ndarray(GpuArray):
        pass

    class OnDevice:
        def __init__(self, *about):
            cuda.entered.append(about)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            cuda.entered.pop()

    cuda = SimpleNamespace(entered=[], Device=OnDevice, ExternalStream=OnDevice)
    cuda.get_current_stream = lambda device: SimpleNamespace(ptr=100 + device)
    return pretend("cupy", ndarray=ndarray, cuda=cuda, empty=lambda shape, dtype: (shape, dtype, list(cuda.entered)))


@pytest.fixture
def torch(pretend):
    class Tensor:
        layout, dtype, device = "strided", "torch.float16", SimpleNamespace(type="cuda")
        requires_grad = is_nested = False

        def __init__(self, array, number=0):
            self._array, self._number, self.shape = array, number, array.shape

        def stride(self):
            return tuple(step // self._array.itemsize for step in self._array.strides)

        def get_device(self):
            return self._number

        def data_ptr(self):
            return self._array.ctypes.data

        def numel(self):
            return self._array.size

        def untyped_storage(self):
            return self

        def is_neg(self):
            return False

        is_conj = is_neg

    core = SimpleNamespace(
        _cuda_getCurrentRawStream=lambda device: 200 + device, _increment_version=lambda tensors: None
    )
    return pretend(
        "torch", Tensor=Tensor, strided="strided", _C=core, is_grad_enabled=lambda: True, empty=lambda *_, **__: None
    )


def test_a_tensor_says_what_its_operand_is(torch):
    array = np.zeros((4, 6), np.float16)[:, ::2]
    tensor = torch.Tensor(array, number=3)
    assert library_of(tensor, "a") is TORCH
    operand = adopt(tensor, "a")
    assert (operand.pointer, operand.shape, operand.strides, operand.device) == (array.ctypes.data, (4, 3), (6, 2), 3)
    assert describe(tensor, "a") == (("torch.float16", (4, 3), (6, 2), 3, True), array.ctypes.data)
    assert TORCH.address(tensor) == array.ctypes.data
    assert TORCH.stream_reader(3)(tensor, 3) == TORCH.current_stream()(3) == 203
    assert TORCH.stream_reader(HOST)(tensor, HOST) == 0
    assert TORCH.written() is torch._C._increment_version
    for name, value, message in (
        ("is_nested", True, r"a is a nested tensor.*to_padded_tensor"),
        ("layout", "sparse", r"a has layout sparse.*call \.to_dense"),
        ("requires_grad", True, r"a requires grad.*pass a\.detach"),
        ("device", SimpleNamespace(type="mps"), "a is on device.*move it there"),
        ("is_neg", lambda: True, r"a is a lazily negated.*call \.resolve_neg"),
    ):
        wrong = torch.Tensor(array)
        setattr(wrong, name, value)
        with pytest.raises(TilewrightError, match=message):
            adopt(wrong, "a")


def test_an_array_without_memory_is_refused_unless_it_is_empty(torch):
    def freed_tensor(array, offset=0):
        tensor = torch.Tensor(array)
        tensor.data_ptr = lambda: offset
        tensor.untyped_storage = lambda: SimpleNamespace(data_ptr=lambda: 0)
        return tensor

    array = np.zeros((4, 6), np.float16)
    # The address of a view of a freed tensor is its offset.
    for freed in (freed_tensor(array), freed_tensor(array, offset=96), GpuArray(array, pointer=0)):
        for read in (adopt, describe):
            with pytest.raises(ValueError, match="a has no memory: its storage was freed"):
                read(freed, "a")
    for empty in (freed_tensor(array[:0]), GpuArray(array[:0], pointer=0)):
        assert adopt(empty, "a").pointer == describe(empty, "a")[1] == 0


@pytest.mark.parametrize("missing", ["stride", "data_ptr", "untyped_storage"])
def test_a_tensor_without_strides_or_memory_is_refused_also_when_its_type_is_known(torch, missing):
    def fail():
        raise RuntimeError("Cannot access data pointer\nof this Tensor")

    adopt(torch.Tensor(np.zeros((2, 3), np.float16)), "a")
    wrong = torch.Tensor(np.zeros((2, 3), np.float16))
    wrong.data_ptr = lambda: 16  # which may be an offset
    setattr(wrong, missing, fail)
    for read in (adopt, describe):
        with pytest.raises(TilewrightError, match=r"a has no memory.*\(Cannot access data pointer\): pass a strided"):
            read(wrong, "a")


def test_a_scalar_is_not_an_array():
    for read in (adopt, describe):
        with pytest.raises(TilewrightError, match="b is a float16, which is a number: pass an array of it"):
            read(np.float16(3), "b")


def test_a_class_is_not_an_array():
    for kind in (np.ndarray, GpuArray, Shared):
        with pytest.raises(TilewrightError, match="a is a type, which exports no array interface: pass"):
            adopt(kind, "a")


@pytest.mark.parametrize("part", ["__dlpack__", "__dlpack_device__"])
@pytest.mark.parametrize("error", [TypeError, ValueError, AssertionError, BufferError])
def test_whatever_a_library_raises_for_its_array_names_the_argument(monkeypatch, part, error):
    def fail(self, **keywords):
        raise error("Unsupported dtype")

    monkeypatch.setattr(Shared, part, fail)
    with pytest.raises(TilewrightError, match=r"a could not be shared.*\(Unsupported dtype\): pass a strided array"):
        adopt(Shared(np.zeros(3, np.float32)), "a")


def test_an_element_type_that_dlpack_does_not_know_names_the_argument():
    torch = pytest.importorskip("torch")
    with pytest.raises(TilewrightError, match="a could not be shared through DLPack"):
        adopt(Shared(torch.zeros(3, 4, dtype=torch.float8_e4m3fn)), "a")


def test_each_array_has_its_library(cupy, jax):
    zeros = np.zeros((2, 3), np.float16)
    found = {
        NUMPY: zeros,
        NUMPY_SUBCLASSES: zeros.view(type("Named", (np.ndarray,), {})),
        CUPY: cupy.ndarray(zeros),
        JAX: jax.Array(zeros),
        CUDA_INTERFACE: GpuArray(zeros),
        DLPACK: Shared(zeros),
    }
    for _ in range(2):  # the second time by their types
        for library, array in found.items():
            assert library_of(array, "a") is library
            assert adopt(array, "a").pointer == zeros.ctypes.data
            assert describe(array, "a")[1] == zeros.ctypes.data


@pytest.mark.parametrize("shape", [(1, 16), (0, 16), (1, 1, 16)])
def test_strides_that_no_index_multiplies_may_be_anything(shape):
    packed = np.zeros(shape[:-1], [("x", np.float16, 16), ("y", np.int8)])["x"]
    assert packed.strides[0] == 33 or 0 in shape
    for array in (packed, GpuArray(packed)):
        operand = adopt(array, "a")
        assert (operand.shape, operand.strides[-1]) == (shape, 1)
    with pytest.raises(ValueError, match=r"a has strides of \(33, 2\) bytes"):
        adopt(np.zeros(2, packed.base.dtype)["x"], "a")


def test_a_deleted_array_of_jax_is_refused(jax):
    deleted = jax.Array(np.zeros((2, 3), np.float32))
    deleted.is_deleted = lambda: True
    for read in (adopt, describe):
        with pytest.raises(ValueError, match="a is a deleted JAX array"):
            read(deleted, "a")


def test_what_an_operand_says_describes_the_array():
    array = np.zeros((4, 6), np.float32)[:, ::2]
    assert describe(array, "a") == ((array.dtype, (4, 3), (24, 8), HOST, True), array.ctypes.data)
    assert describe(Shared(array), "a")[0] == (dtypes.fp32, (4, 3), (6, 2), HOST, True)


def test_a_masked_array_is_refused_again_and_again():
    for _ in range(2):
        for read in (adopt, describe):
            with pytest.raises(TypeError, match="a is a masked array"):
                read(np.ma.masked_array(np.zeros((2, 2), np.float16)), "a")


@pytest.mark.parametrize("module", ["numpy.ma", "torch", "cupy", "jax"])
def test_a_module_that_another_thread_imports_has_no_arrays_yet(pretend, module):
    pretend(module)
    assert adopt(np.zeros((2, 3), np.float32), "a").shape == (2, 3)
    with pytest.raises(TypeError, match="a is a object, which exports no array interface"):
        adopt(object(), "a")


def test_torch_is_asked_about_tracing_once_it_is_imported(pretend):
    library, torch = TorchLibrary(), pretend("torch")
    assert library.traces() is False
    torch.compiler = SimpleNamespace(is_dynamo_compiling=lambda: True)
    assert library.traces() is True


def test_an_array_of_jax_cannot_be_written_nor_traced(jax):
    assert adopt(jax.Array(np.zeros((2, 3), np.float32)), "a").writable is False
    with pytest.raises(TypeError, match=r"b is traced by JAX and has no memory: call tilewright outside of jax\.jit"):
        adopt(jax.core.Tracer(np.zeros(3, np.float32)), "b")


def test_cupy_says_its_stream_and_makes_results_on_the_device(cupy):
    array = cupy.ndarray(np.zeros((2, 3), np.float16), device=3)
    assert CUPY.stream_reader(3)(array, 3) == 103
    assert CUPY.allocator(array, (2, 5), dtypes.fp16, 3)() == ((2, 5), np.float16, [(3,)])
    with CUPY.on_stream(7, 3):
        assert cupy.cuda.entered == [(7, 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": None},
        {"data": 5},
        {"data": ("x", False)},
        {"shape": 3},
        {"shape": ("a",)},
        {"strides": 2},
        {"strides": (2,)},
        {"shape": (-1, 3)},
        None,
    ],
)
def test_a_malformed_cuda_interface_is_said_to_be_one(wrong):
    array = GpuArray(np.zeros((2, 3), np.float16))
    array.__cuda_array_interface__ = {} if wrong is None else array.__cuda_array_interface__ | wrong
    with pytest.raises(TypeError, match=r"^b\.__cuda_array_interface__ is malformed .*: pass an array whose interface"):
        adopt(array, "b")


def test_arrays_on_a_gpu_need_a_driver(monkeypatch):
    def missing(*arguments):
        raise RuntimeError("libcuda.so.1 is not there")

    monkeypatch.setattr("cuda.bindings.driver.cuPointerGetAttribute", missing)
    array = GpuArray(np.zeros((2, 3), np.float16))
    del array.device
    with pytest.raises(UnavailableError, match="x is in the memory of a GPU, and no driver is usable here"):
        adopt(array, "x")


def test_other_gpu_arrays_name_their_stream_and_get_results_of_cupy(cupy, monkeypatch):
    array = GpuArray(np.zeros((2, 3), np.float16))
    read = CUDA_INTERFACE.stream_reader(0)
    assert read(array, 0) == 0
    array.__cuda_array_interface__["stream"] = 5
    assert read(array, 0) == 5
    assert CUDA_INTERFACE.allocator(array, (1,), dtypes.fp16, 0)() == ((1,), np.float16, [(0,)])
    monkeypatch.delitem(sys.modules, "cupy")
    refused = CUDA_INTERFACE.allocator(array, (1,), dtypes.fp16, 0)
    with pytest.raises(TypeError, match=r"a is a GpuArray on GPU 0, for which .*: pass out=, or install CuPy"):
        refused()


@pytest.mark.parametrize("library", [NUMPY, DLPACK, CUDA_INTERFACE])
def test_results_in_host_memory_are_numpy_arrays(library):
    made = library.allocator(np.zeros(1), (2, 3), dtypes.bf16, HOST)()
    assert (type(made), made.shape, made.dtype) == (np.ndarray, (2, 3), dtypes.bf16.numpy_dtype)
    assert library.stream_reader(HOST)(made, HOST) == 0
    assert library.written() is None
    with library.on_stream(1, HOST):
        pass
