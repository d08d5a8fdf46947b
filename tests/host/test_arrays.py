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
        pass

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


def test_what_an_operand_says_describes_the_array():
    array = np.zeros((4, 6), np.float32)[:, ::2]
    assert describe(array, "a") == ((array.dtype, (4, 3), (24, 8), HOST, True), array.ctypes.data)
    assert describe(Shared(array), "a")[0] == (dtypes.fp32, (4, 3), (6, 2), HOST, True)


def test_a_masked_array_is_refused_again_and_again():
    for _ in range(2):
        for read in (adopt, describe):
            with pytest.raises(TypeError, match="a is a masked array"):
                read(np.ma.masked_array(np.zeros((2, 2), np.float16)), "a")


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
