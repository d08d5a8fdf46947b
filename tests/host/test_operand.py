"""Arrays of every library become Operands without copies; what the kernels could not read is refused."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.doubles import GpuArray, Shared
from tilewright import dtypes
from tilewright.arrays import adopt
from tilewright.operand import HOST, Operand, result


def operand(shape, strides, pointer=4096, dtype=dtypes.fp16):
    return Operand(pointer, shape, strides, dtype, HOST, True, None)


@pytest.mark.parametrize("name", ["float16", "float32", "bfloat16"])
def test_numpy_arrays_are_adopted_as_they_lie(name):
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    array = np.zeros((4, 6, 8), dtype)[::-1, ::2, 1:]
    adopted = adopt(array, "a")
    assert adopted.pointer == array.ctypes.data
    assert adopted.shape == (4, 3, 7)
    assert adopted.strides == (-48, 16, 1)
    assert adopted.dtype.numpy == name
    assert (adopted.device, adopted.writable, adopted.owner is array) == (HOST, True, True)


def test_read_only_and_broadcast_numpy_arrays_are_not_writable():
    array = np.broadcast_to(np.zeros(4, np.float16), (3, 4))
    adopted = adopt(array, "a")
    assert adopted.strides == (0, 1)
    assert not adopted.writable


@pytest.mark.parametrize(("offset", "alignment"), [(0, 16), (1, 2), (2, 4), (3, 2), (4, 8), (8, 16)])
def test_alignment_is_the_power_of_two_that_divides_the_address(offset, alignment):
    memory = np.zeros(64, np.float16)
    memory = memory[-memory.ctypes.data % 16 // 2 :]
    assert adopt(memory[offset:], "a").alignment == alignment


def test_an_address_between_elements_is_refused():
    array = np.ndarray((4,), np.float16, np.zeros(64, np.uint8), 1, (2,))
    with pytest.raises(ValueError, match=r"a .*address.*2-byte elements.*copy"):
        adopt(array, "a")


def test_a_type_string_without_a_dtype_is_enough():
    array = GpuArray(np.zeros((3, 4), np.float32)[:, ::2], device=2)
    del array.dtype
    adopted = adopt(array, "a")
    assert (adopted.dtype, adopted.shape, adopted.strides, adopted.device) == (dtypes.fp32, (3, 2), (4, 2), 2)


@pytest.mark.parametrize(
    ("kind", "typestr", "dtype"),
    [
        (ml_dtypes.bfloat16, "<V2", dtypes.bf16),
        (ml_dtypes.float8_e4m3fn, "<V1", dtypes.fp8_e4m3),
        (ml_dtypes.float8_e5m2, "<f1", dtypes.fp8_e5m2),
    ],
)
def test_dtypes_that_numpy_lacks_come_from_the_array(kind, typestr, dtype):
    # NumPy's type strings of these are nameless bytes, or none that NumPy itself reads.
    array = GpuArray(np.zeros((3, 4), kind))
    assert array.__cuda_array_interface__["typestr"] == typestr
    assert adopt(array, "a").dtype == dtype


def test_contiguous_cuda_arrays_may_leave_out_strides():
    array = GpuArray(np.zeros((3, 4), np.float16))
    array.__cuda_array_interface__["strides"] = None
    assert adopt(array, "a").strides == (4, 1)


def test_byte_swapped_and_masked_cuda_arrays_are_refused():
    with pytest.raises(TypeError, match=r"a.dtype=>f4 is byte-swapped"):
        adopt(GpuArray(np.zeros((3, 4), np.float32), typestr=">f4"), "a")
    masked = GpuArray(np.zeros((3, 4), np.float32))
    masked.__cuda_array_interface__["mask"] = object()
    with pytest.raises(TypeError, match="b is a masked array"):
        adopt(masked, "b")


def test_dlpack_exporters_are_adopted():
    array = np.zeros((4, 6), np.float32)[:, ::2]
    adopted = adopt(Shared(array), "a")
    assert adopted.pointer == array.ctypes.data
    assert (adopted.shape, adopted.strides, adopted.dtype) == ((4, 3), (6, 2), dtypes.fp32)
    assert adopted.device == HOST


def test_torch_tensors_are_adopted_as_they_lie():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(4, 6, dtype=torch.bfloat16).t()[1:]
    adopted = adopt(tensor, "a")
    assert (adopted.pointer, adopted.shape, adopted.strides) == (tensor.data_ptr(), (5, 4), (1, 6))
    assert (adopted.dtype, adopted.device) == (dtypes.bf16, HOST)
    with pytest.raises(TypeError, match=r"a has layout torch.sparse_coo.*to_dense"):
        adopt(tensor.to_sparse(), "a")


def elements(view: Operand):
    """The byte addresses of all elements, one by one."""
    index = np.indices(view.shape).reshape(len(view.shape), -1) if view.shape else np.zeros((0, 1), int)
    offsets = np.array(view.strides, int) @ index
    return view.pointer + offsets * view.dtype.nbytes


views = st.integers(0, 3).flatmap(
    lambda rank: st.builds(
        operand,
        st.tuples(*[st.integers(0, 4)] * rank),
        st.tuples(*[st.integers(-6, 6)] * rank),
        st.integers(2000, 2020).map(lambda half: 2 * half),
    )
)
SETTINGS = settings(max_examples=500)


@SETTINGS
@given(views)
def test_byte_range_and_self_overlap_by_enumeration(view):
    addresses = elements(view)
    low, high = view.byte_range()
    if addresses.size:
        assert (low, high) == (addresses.min(), addresses.max() + 2)
    else:
        assert low == high
    assert view.overlaps_itself() == (len(np.unique(addresses)) != addresses.size)


def test_more_elements_than_places_overlap_without_a_list_of_them():
    assert operand((10**7, 10**7), (1, 1), 4096).overlaps_itself()


def test_a_result_without_memory_overlaps_nothing_and_takes_none():
    out = result((10**7, 10**7), dtypes.fp32, HOST)
    assert out.alignment == 16
    assert not out.overlaps(operand((4, 4), (4, 1), 64))


@SETTINGS
@given(views, views)
def test_overlap_by_enumeration(first, second):
    assert first.overlaps(second) == bool(set(elements(first)) & set(elements(second)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bf16", dtypes.bf16),
        ("torch.bfloat16", dtypes.bf16),
        (ml_dtypes.bfloat16, dtypes.bf16),
        (np.float16, dtypes.fp16),
        (np.dtype("float32"), dtypes.fp32),
        ("float64", None),
        (int, None),
        (None, None),
        (object(), None),
    ],
)
def test_dtypes_by_the_names_of_every_library(name, expected):
    if expected is None:
        with pytest.raises(
            TypeError, match=r"out_dtype=.* is not a supported dtype: use bf16, fp16, fp32, fp8_e4m3, fp8_e5m2, int32$"
        ):
            dtypes.parse(name, "out_dtype")
    else:
        assert dtypes.parse(name, "out_dtype") is expected
