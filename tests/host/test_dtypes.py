"""The table of element types agrees with what the libraries and the driver say of them."""

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver

from tilewright.dtypes import PRODUCTS, SUPPORTED, by_name, int32


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_width_and_spacing_are_those_of_the_library(dtype):
    assert dtype.nbytes == dtype.numpy_dtype.itemsize
    if dtype.kind == "float":
        assert dtype.epsilon == float(ml_dtypes.finfo(dtype.numpy_dtype).eps)
    else:
        assert np.iinfo(dtype.numpy_dtype).bits == dtype.bits
        assert dtype.epsilon == 1.0


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_accumulators_are_types_of_the_table_and_as_wide_at_least(dtype):
    assert all(by_name(name).bits >= dtype.bits for name in dtype.accumulators)


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_the_driver_has_the_tensor_map_type(dtype):
    assert f"CU_TENSOR_MAP_DATA_TYPE_{dtype.tma}" in driver.CUtensorMapDataType.__members__


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_every_type_is_found_by_the_name_that_each_library_has_for_it(dtype):
    assert {by_name(name) for name in (dtype.name, dtype.numpy, dtype.torch, dtype.numpy_dtype)} == {dtype}


def test_every_type_is_multiplied_but_the_one_of_results_alone():
    assert {a for a, _ in PRODUCTS} == {b for _, b in PRODUCTS} == {*SUPPORTED} - {int32}
    for (a, b), outs in PRODUCTS.items():
        assert (b, a) in PRODUCTS, "the transposed product is computed, too"
        assert len(set(outs)) == len(outs) > 0
        assert a.accumulators[0] == b.accumulators[0]
