"""The elements of a product: their text, and random operands that pose the problem that a call poses."""

import numpy as np
import pytest

from tilewright.bench.inputs import Shape
from tilewright.checking.product import Product
from tilewright.cli.products import problem_of
from tilewright.dtypes import bf16, fp8_e4m3, fp8_e5m2, fp16, fp32, int8, int32
from tilewright.expression.grammar import parse
from tilewright.measure.elements import LARGEST, Elements
from tilewright.reference import dequantized

TEXTS = {
    "bf16": (bf16, bf16, bf16, None, False),
    "bf16 -> fp32": (bf16, bf16, fp32, None, False),
    "fp8_e4m3": (fp8_e4m3, fp8_e4m3, bf16, None, False),
    "fp8_e4m3 by fp8_e5m2 row fast -> fp16": (fp8_e4m3, fp8_e5m2, fp16, "row", True),
    "fp8_e5m2 1x128_128x128": (fp8_e5m2, fp8_e5m2, bf16, "1x128_128x128", False),
    "fp8_e4m3 1x128_1x128": (fp8_e4m3, fp8_e4m3, bf16, "1x128_1x128", False),
    "int8": (int8, int8, int32, None, False),
    "int8 tensor": (int8, int8, bf16, "tensor", False),
    "int8 -> bf16": (int8, int8, bf16, None, False),
}


@pytest.mark.parametrize("text", TEXTS)
def test_elements_are_written_as_they_are_read(text):
    elements = Elements.parse(text)
    assert tuple(elements) == TEXTS[text]
    assert str(elements) == text
    assert str(Elements.parse(f"{elements.factors} -> {elements.out}")) == text


@pytest.mark.parametrize("text", ["", "int4", "bf16 bf16 bf16", "bf16 -> ", "row", "fp8_e4m3 column", "bf16 -> int4"])
def test_other_text_is_refused_with_the_argument(text):
    with pytest.raises(ValueError, match=r"table 1 has dtype=.*: use bf16, .* a recipe of tensor, row, "):
        Elements.parse(text, "table 1 has dtype")


def product_of(text, layout="nt", **epilogue):
    a, b, out, recipe, fast = Elements.parse(text)
    return Product(
        144, 80, 300, a, out, layout, b_dtype=b, recipe=recipe, fast_accumulation=fast, **epilogue
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_product_poses_the_problem_of_a_call(text, layout):
    product = product_of(text, layout)
    posed = problem_of(Shape(144, 80, 300, text, layout), bias=False, activation=None)
    found = product.problem
    assert (found.recipe, found.fast_accumulation) == (posed.recipe, posed.fast_accumulation)
    assert found.epilogue.expression == posed.epilogue.expression
    if not found.recipe or "128" not in found.recipe:  # those scales lie in memory as kernels read them
        assert dict(found.operands()) == dict(posed.operands())
    assert [name for name, _ in found.operands()] == [name for name, _ in posed.operands()]


@pytest.mark.parametrize("text", TEXTS)
def test_random_codes_use_their_range_and_results_are_verified(text):
    product = product_of(text)
    arrays = product.operands(seed=3)
    for name, kind in (("a", product.dtype), ("b", product.elements.b)):
        codes = arrays[name].astype(np.float32)
        assert np.isfinite(codes).all()
        if kind in LARGEST and (product.recipe or product.out_dtype is int32):
            assert 0.9 * LARGEST[kind] < np.abs(codes).max() <= LARGEST[kind]
            assert np.abs(codes).mean() < LARGEST[kind] / 4
    a, b = dequantized(arrays["a"], arrays["b"], product.problem.epilogue, arrays)
    out = (a.astype(np.float64) @ b.astype(np.float64)).astype(product.out_dtype.numpy_dtype)
    assert product.verify(out, arrays).verified
    for name in ("scale_a", "scale_b") if product.recipe else ():
        assert arrays[name].dtype == np.float32
        assert len(np.unique(arrays[name])) == arrays[name].size  # a wrong one is seen
    out[-1, -1] = out[-1, -1].astype(np.float64) + max(1, np.abs(out.astype(np.float64)).max() / 4)
    assert not product.verify(out, arrays).verified


@pytest.mark.parametrize("recipe", ["tensor", "row", "1x128_128x128", "1x128_1x128"])
def test_sums_beside_scales_are_verified_with_them(recipe):
    product = product_of(f"fp8_e4m3 {recipe} -> fp32", expression=parse("relu(acc)", [])._replace(outputs=("acc",)))
    arrays = product.operands(seed=3) | product.outputs()
    a, b = dequantized(arrays["a"], arrays["b"], product.problem.epilogue, arrays)
    arrays["outputs['acc']"] = (a @ b).astype(np.float32)
    out = np.maximum(a @ b, 0).astype(np.float32)
    assert product.verify(out, arrays).verified
    arrays["outputs['acc']"] *= 1.01
    assert not product.verify(out, arrays).verified
