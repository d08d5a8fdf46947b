"""The ways in which a call's arrays are compared with a plan's: quick ones and one in words, which must agree."""

from itertools import product

import numpy as np
import pytest

from tilewright.arrays import adopt, describe, is_torch
from tilewright.planner.slots import Slot, reader, tensor_guard

NAMES = ("a", "b", None, None, "out")


def memory_of(library, shape, dtype, strides, skew):
    """Zeros with these strides in elements, `skew` elements behind an address that is aligned to 16 bytes."""
    flat = np.zeros(4096, np.uint8)
    flat = flat[-flat.ctypes.data % 16 :]
    itemsize = np.dtype(dtype).itemsize
    array = np.ndarray(shape, dtype, flat, skew * itemsize, [stride * itemsize for stride in strides])
    return library.from_numpy(array) if library else array


ARRAYS = [
    ((8, 8), "float16", (8, 1), 0),
    ((8, 8), "float16", (8, 1), 4),
    ((8, 8), "float16", (8, 1), 1),
    ((8, 8), "float32", (8, 1), 0),
    ((8, 8), "float16", (16, 1), 0),
    ((8, 8), "float16", (1, 8), 0),
    ((8, 4), "float16", (8, 1), 0),
    ((8,), "float16", (1,), 0),
    ((1, 8, 8), "float16", (64, 8, 1), 0),
]


def slot_of(array):
    """The slot of an a like this one."""
    return Slot.of(0, describe(array, "a")[0], adopt(array, "a"))


def verdicts(expected, given):
    """Whether `given` fits a slot made of `expected`: to the reader, in words without and with the alignment."""
    slot = slot_of(expected)
    operand = adopt(given, "a")
    read = reader([slot], is_torch(expected))([given, None, None, None, None])
    aligned = operand._replace(pointer=operand.pointer - operand.pointer % 16)  # as well as can be
    return read is not None, not slot.differences(aligned), not slot.differences(operand), slot


@pytest.mark.parametrize("name", [None, "torch"])
@pytest.mark.parametrize(("expected", "given"), list(product(ARRAYS, ARRAYS)))
def test_readers_accept_what_differs_in_no_word(name, expected, given):
    library = pytest.importorskip(name) if name else None
    x, y = memory_of(library, *expected), memory_of(library, *given)
    read, same_but_for_alignment, same, slot = verdicts(x, y)
    exactly = describe(y, "a")[1] & slot.low_bits[0] == slot.low_bits[1]
    assert read == (same_but_for_alignment and exactly)
    assert same == (same_but_for_alignment and adopt(y, "a").alignment >= slot.alignment)
    assert read == (expected == given)


@pytest.mark.parametrize("name", [None, "torch"])
@pytest.mark.parametrize("strides", [(4, 2), (256, 2), (2, 4), (8, 4)])
def test_any_stride_of_a_single_row_or_column_is_as_expected(name, strides):
    library = pytest.importorskip(name) if name else None
    slot = slot_of(memory_of(library, (1, 8), "float16", (8, 1), 0))
    given = memory_of(library, (1, 8), "float16", tuple(stride // 2 for stride in strides), 0)
    assert bool(slot.differences(adopt(given, "a"))) == (strides[1] != 2)


@pytest.mark.parametrize(("expected", "given"), list(product(ARRAYS, ARRAYS)))
def test_torchs_guard_accepts_what_readers_do_whatever_the_alignment(expected, given):
    torch = pytest.importorskip("torch")
    x, y = memory_of(torch, *expected), memory_of(torch, *given)
    guard = tensor_guard([x])
    if guard is None:
        pytest.skip("this version of torch has no guard")
    assert guard(y) == verdicts(x, y)[1]


def test_quick_ways_refuse_what_the_slow_one_raises_for():
    torch = pytest.importorskip("torch")
    x = torch.zeros(8, 8)
    grad, negated = torch.zeros(8, 8, requires_grad=True), torch._neg_view(torch.zeros(8, 8))
    slot = slot_of(x)
    guard = tensor_guard([x])
    for wrong in (grad, negated):
        with pytest.raises((NotImplementedError, ValueError)):
            describe(wrong, "a")
        assert reader([slot], True)([wrong, None, None, None, None]) is None
        assert guard is None or not guard(wrong)
