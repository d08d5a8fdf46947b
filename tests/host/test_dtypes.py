"""The table of element types agrees with what the libraries and the driver say of them."""

import ml_dtypes
import pytest
from cuda.bindings import driver

from tilewright.dtypes import SUPPORTED, by_name


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_width_and_spacing_are_those_of_the_library(dtype):
    assert dtype.nbytes == dtype.numpy_dtype.itemsize
    assert dtype.epsilon == float(ml_dtypes.finfo(dtype.numpy_dtype).eps)
    assert dtype.kind == "float"


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_accumulators_are_types_of_the_table_and_as_wide_at_least(dtype):
    assert all(by_name(name).bits >= dtype.bits for name in dtype.accumulators)


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_the_driver_has_the_tensor_map_type(dtype):
    assert f"CU_TENSOR_MAP_DATA_TYPE_{dtype.tma}" in driver.CUtensorMapDataType.__members__
