"""The product that a command multiplies: the problem it poses and the memory it takes."""

import subprocess
import sys

import numpy as np
import pytest

from tilewright.arrays import adopt
from tilewright.checking.product import Product
from tilewright.dtypes import bf16, fp32
from tilewright.expression.grammar import parse
from tilewright.expression.tree import OUTPUTS
from tilewright.problem import OperandForm, key_of, output_key


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


@pytest.mark.parametrize("spoiled", [None, "out", "acc", "amax", "column_sums"])
def test_a_wrong_output_is_noticed(spoiled):
    expression = parse("relu(acc) - 1", [])._replace(outputs=OUTPUTS)
    product = Product(48, 40, 24, dtype=bf16, out_dtype=bf16, expression=expression)
    arrays = product.operands(0)
    arrays["out"] = np.maximum(arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32), 0) - 1
    assert not product.verify(arrays["out"], arrays | product.outputs()).verified
    found = {
        "acc": arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32),
        "amax": np.abs(arrays["out"]).max(keepdims=True)[0],
        "column_sums": arrays["out"].sum(axis=0),
    }
    arrays |= {output_key(name): array for name, array in found.items()}
    if spoiled is not None:
        arrays["out" if spoiled == "out" else output_key(spoiled)].flat[0] += 0.5
    out = arrays["out"].astype(bf16.numpy_dtype)
    assert product.verify(out, arrays).verified is (spoiled is None)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [bf16, fp32], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_product_poses_the_problem_that_its_operands_pose(layout, dtype, batch):
    from tilewright.planner.binding import bind

    kinds = {"dtype": dtype, "out_dtype": dtype, "batch": batch}
    product = Product(48, 40, 24, layout=layout, bias=True, activation="silu", **kinds)
    arrays = product.operands(seed=1)
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    out = adopt(Product(48, 1, 40, **kinds).operands(0)["a"], "out")
    operands["out"] = out._replace(pointer=1 << 40)
    posed = bind(operands, activation="silu").problem
    assert posed.layout == layout == product.problem.layout
    assert posed.batch == product.problem.batch
    for name, matrix in product.problem.operands():
        met = dict(posed.operands())[name]
        assert matrix[:4] == met[:4]  # all but the alignment


def test_a_batch_is_verified_product_by_product():
    expression = parse("relu(acc) - r", ["r"])._replace(outputs=OUTPUTS)
    forms = (OperandForm("r", True, False),)
    product = Product(48, 40, 24, bf16, fp32, "tn", expression=expression, forms=forms, batch=3)
    arrays = product.operands(0)
    sums = arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32)
    out = np.maximum(sums, 0) - arrays[key_of("r")]
    assert sums.shape == (3, 48, 40)
    found = {"acc": sums, "amax": np.abs(out).max(keepdims=True)[0, 0], "column_sums": out.sum(axis=(0, 1))}
    arrays |= {output_key(name): array for name, array in found.items()}
    comparison = product.verify(out, arrays)
    assert (comparison.verified, comparison.elements) == (True, 3 * 48 * 40)
    out[2, 7, 11] += 0.5
    assert product.verify(out, arrays).verified is False
