"""The parts of the doors that need no compiler: TMA descriptors in bits, the CUDA runtime, DLPack, lines of Triton."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from support.compilers import needing
from tilewright.checking.doors import cuda_runtime, triton
from tilewright.checking.doors.cuda_runtime import Runtime
from tilewright.checking.doors.dlpack import NARROW, Exported, as_if_on_gpu, memory_of, tensor_of
from tilewright.checking.doors.tma_bits import descriptors_in
from tilewright.checking.host_memory import ByValue, arguments_of
from tilewright.emulator import Device
from tilewright.emulator.semantics.tensor_map import TensorMap, decode_tensor_map
from tilewright.errors import UnsupportedError

ADDRESS = 0x7F12_3456_7800


def bits_of(kind=6, swizzle=3, shape=(128, 256, 2), strides=(256, 65536), box=(64, 32, 1), extra=0):
    """A descriptor in the layout that tma_bits describes."""
    bits = ADDRESS | 2 << 64 | len(shape) - 1 << 68 | kind << 71 | swizzle << 77 | 1 << 82 | extra
    for axis, stride in enumerate(strides):
        bits |= (stride // 16 & 0xFFFFFFFF) << 96 + 32 * axis | stride // 16 >> 32 << 224 + 4 * axis
    for axis, (extent, side) in enumerate(zip(shape, box, strict=True)):
        bits |= extent - 1 << 256 + 32 * axis | side - 1 << 440 + 8 * axis
    return bits.to_bytes(64, "little") + bytes(range(64))


def is_address(number):
    return number == ADDRESS


@pytest.mark.parametrize(("kind", "element"), [(0, "u8"), (6, "f16"), (7, "f32"), (10, "bf16"), (14, "tf32")])
def test_a_descriptor_becomes_that_of_the_emulator(kind, element):
    width = {"u8": 1, "f32": 4, "tf32": 4}.get(element, 2)
    found = descriptors_in(bits_of(kind, box=(128 // width, 32, 1)), is_address)
    expected = TensorMap(ADDRESS, element, (128, 256, 2), (256, 65536), (128 // width, 32, 1), 128)
    assert found == {0: expected}


def test_a_descriptor_in_a_parameter_gets_the_address_of_its_array_on_the_device():
    array = np.zeros((2, 256, 128), np.float16)
    tensor_map = TensorMap(array.ctypes.data + 512, "f16", (128, 256, 2), (256, 65536), (64, 32, 1), 128, (1, 1, 1))
    data = array.ctypes.data.to_bytes(8, "little").ljust(64, b"\1") + bits_of()
    arguments = arguments_of([ByValue(data, {64: tensor_map})], ["parameter 1"], {"a": array})
    (value,) = arguments.values(Device(), {"a": 1 << 40})
    assert int.from_bytes(value[:8], "little") == 1 << 40
    assert value[8:64] == data[8:64]
    assert decode_tensor_map(value[64:]) == replace(tensor_map, address=(1 << 40) + 512)


def test_wide_strides_and_large_tensors():
    stride = 16 * ((1 << 35) + 3)
    (found,) = descriptors_in(bits_of(strides=(256, stride), extra=1 << 85), is_address).values()
    assert found.strides == (256, stride)


def test_what_is_no_descriptor_is_none():
    for data in (bits_of().replace((ADDRESS).to_bytes(8, "little"), bytes(8)), bytes(128), b"\x01" * 40):
        assert descriptors_in(data, is_address) == {}
    ((offset, inside),) = descriptors_in(bytes(64) + bits_of(), is_address).items()
    assert (offset, inside.shape) == (64, (128, 256, 2))


@pytest.mark.parametrize("wrong", [{"extra": 1 << 90}, {"extra": 7 << 416}, {"kind": 11}, {"kind": 8}])
def test_unknown_bits_are_refused(wrong):
    with pytest.raises(UnsupportedError, match="is not understood: take plain tiles of whole elements"):
        descriptors_in(bits_of(**wrong), is_address)


def called(runtime, name, *arguments):
    """The status of a function of a runtime, called as C code does."""
    kinds = [type(argument) for argument in arguments]
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(runtime.functions[name].value)(*arguments)


def launch(runtime):
    pointer, name = ctypes.c_void_p, ctypes.create_string_buffer(b"my_kernel")
    library, kernel = pointer(), pointer()
    nothing, zero = pointer(), ctypes.c_int32()
    loads = (pointer(ctypes.addressof(library)), *[nothing] * 3, zero, nothing, nothing, zero)
    assert called(runtime, "_cudaLibraryLoadData", *loads) == 0
    place = pointer(ctypes.addressof(kernel))
    assert called(runtime, "_cudaLibraryGetKernel", place, library, pointer(ctypes.addressof(name))) == 0
    attributes = (cuda_runtime._Attribute * 2)()
    attributes[0].id, attributes[0].value[:3] = cuda_runtime.CLUSTER, (2, 1, 1)
    attributes[1].id, attributes[1].value[0] = cuda_runtime.SERIALIZATION, 1
    config = cuda_runtime._Config((4, 2, 1), (128, 1, 1), 1024, None, attributes, 2)
    value = ctypes.c_int64(5)
    values = (pointer * 1)(ctypes.addressof(value))
    return called(
        runtime, "_cudaLaunchKernelEx", pointer(ctypes.addressof(config)), kernel, pointer(ctypes.addressof(values))
    )


def test_the_runtime_hands_launches_on():
    found = []

    def launched(asked):
        found.append((asked, ctypes.c_int64.from_address(asked.parameters[0]).value))

    assert launch(Runtime(launched)) == 0
    ((asked, value),) = found
    assert (asked.kernel, asked.grid, asked.block, asked.cluster) == ("my_kernel", (4, 2, 1), (128, 1, 1), (2, 1, 1))
    assert (asked.shared_bytes, asked.dependent, value) == (1024, True, 5)


def test_an_error_of_a_launch_is_kept():
    def launched(asked):
        raise KeyboardInterrupt

    runtime = Runtime(launched)
    assert launch(runtime) == cuda_runtime.FAILURE
    assert isinstance(runtime.error, KeyboardInterrupt)


def test_the_runtime_knows_one_gpu():
    runtime, number = Runtime(lambda asked: None), ctypes.c_int32(-1)
    place = ctypes.c_void_p(ctypes.addressof(number))
    assert called(runtime, "_cudaGetDevice", place) == 0
    assert number.value == 0
    attribute = ctypes.c_int32(cuda_runtime.OPT_IN_SHARED_BYTES)
    assert called(runtime, "_cudaDeviceGetAttribute", place, attribute, ctypes.c_int32(0)) == 0
    assert number.value == 227 * 1024


@pytest.mark.parametrize("name", ["float32", "int8", "uint64", "float64", "bool", "complex64", *NARROW])
def test_dlpack_describes_memory_of_every_type(name):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    whole = np.arange(24).astype(dtype).reshape(4, 6)
    for array in (whole, whole[::2, 1:4], whole.T, whole[::-1], whole[:0]):
        memory = memory_of(Exported(array).__dlpack__(), "x")
        assert (memory.dtype, memory.shape) == (dtype, array.shape)
        assert memory.tobytes() == array.tobytes()
        if array.size:
            assert memory.ctypes.data == array.ctypes.data


def test_memory_is_on_a_gpu_for_a_while():
    capsule = Exported(np.zeros(4)).__dlpack__()
    with as_if_on_gpu([capsule]):
        assert tensor_of(capsule).device_type == 2
        with pytest.raises(TypeError, match="x is a tensor on a GPU: pass one on the CPU"):
            memory_of(capsule, "x")
    assert tensor_of(capsule).device_type == 1


def test_compilers_are_skipped_only_where_they_are_not_installed_and_not_required(tmp_path, monkeypatch):
    (tmp_path / "brokencompiler.py").write_text("from math import nothing")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TILEWRIGHT_DOORS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_compiler is not installed"):
        needing("no_such_compiler")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        needing("brokencompiler")
    monkeypatch.setenv("TILEWRIGHT_DOORS", "required")
    with pytest.raises(ModuleNotFoundError, match="no_such_compiler"):
        needing("no_such_compiler")


@pytest.mark.parametrize(("first", "shape", "strides"), [(0, [9, 64], [64, 1]), (4, [4, 64], [-64, 1])])
def test_a_descriptor_of_triton_stays_in_its_tensor(first, shape, strides):
    base = np.zeros((8, 64), np.float16)[first:]
    facts = {"fp4_padded": False, "block_size": [4, 64], "swizzle": 3}

    def described(shape, strides):
        arguments = triton._Arguments(iter([facts]))
        arguments.add("a", "tensordesc<fp16[4,64]>", SimpleNamespace(base=base, shape=shape, strides=strides))
        return arguments

    assert described([4, 64], [64, 1]).labels == ["a", "a.shape[0]", "a.shape[1]", "a.strides[0]", "a.strides[1]"]
    with pytest.raises(ValueError, match=r"a is a descriptor .*, which leave its tensor of shape \[[48], 64\]"):
        described(shape, strides)
