"""The product that a command multiplies: the problem it poses and the memory it takes."""

import subprocess
import sys

import pytest

from tilewright.arrays import adopt
from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp32


def test_memory_is_refused_beyond_half_of_what_there_is(monkeypatch):
    product = Product(64, 64, 64, dtype=bf16, out_dtype=bf16)
    monkeypatch.setattr("tilewright.checking.product.available_memory", lambda: 2.0 * product.host_bytes)
    product.require_memory()
    monkeypatch.setattr("tilewright.checking.product.available_memory", lambda: 2.0 * product.host_bytes - 2)
    with pytest.raises(ValueError, match=r"64x64x64 bf16 nt.*GB.*smaller"):
        product.require_memory()


def test_there_is_memory_and_a_limit_on_the_process_counts():
    code = "from tilewright.checking.memory import available_memory as get; import resource; assert get() > 1 << 28;"
    code += "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); assert get() == 1 << 28"
    pytest.importorskip("resource")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [bf16, fp32], ids=str)
def test_a_product_poses_the_problem_that_its_operands_pose(layout, dtype):
    from tilewright.planner.binding import bind

    product = Product(48, 40, 24, dtype=dtype, out_dtype=dtype, layout=layout, bias=True, activation="silu")
    arrays = product.operands(seed=1)
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    out = Product(48, 40, 0, dtype=dtype, out_dtype=dtype).operands(0)["a"]
    operands["out"] = operands["a"]._replace(shape=(48, 40), strides=(40, 1), pointer=1 << 40, owner=out)
    posed = bind(operands, activation="silu").problem
    assert posed.layout == layout == product.problem.layout
    for name, matrix in product.problem.operands():
        met = dict(posed.operands())[name]
        assert (matrix.dtype, matrix.row_stride, matrix.column_stride) == (met.dtype, met.row_stride, met.column_stride)
