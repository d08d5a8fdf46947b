"""Tensor cores that add like an H200's, through PTX: every instruction, and the ways to ask for it."""

from fractions import Fraction

import numpy as np
import pytest

import tilewright as tw
from emulate.fragment_tables import DTYPES, from_registers, run_warp, to_registers
from emulate.test_accumulation import FAMILIES
from emulate.test_warp_matrices import DENSE, QUAD_A, QUAD_B, QUAD_C, extents, of_d, of_product, tables
from support.commands import in_json
from support.forms import FORMS
from support.launches import emulate
from tilewright.emulator import Device
from tilewright.emulator.semantics.matrices.accumulation import ADDERS, factors_of, hardware_sum
from tilewright.errors import ArgumentValueError

FLOATS = [row for row in DENSE if row[3] in ("f16", "f32")]


def numbers(generator, kind, *shape):
    """Numbers of a type with exponents up to 8 apart, as float32."""
    values = generator.standard_normal(shape) * np.exp2(generator.integers(-4, 5, shape))
    if kind == "tf32":
        return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(DTYPES[kind]).astype(np.float32)


@pytest.mark.parametrize(("shape", "a_type", "b_type", "d_type"), FLOATS)
def test_mma_adds_its_products_as_the_table_says(shape, a_type, b_type, d_type):
    generator = np.random.default_rng(1)
    m, n, k = extents(shape)
    a, b, c = (numbers(generator, kind, *size) for kind, size in ((a_type, (m, k)), (b_type, (k, n)), (d_type, (m, n))))
    table_a, table_b = tables(a_type, m, k)
    d = run_warp(
        f"mma.sync.aligned.{shape}.row.col.{d_type}.{a_type}.{b_type}.{d_type} {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, a_type, *table_a),
        to_registers(b, b_type, *table_b),
        to_registers(c, d_type, *of_d(m)),
        outputs=(4 if d_type == "f32" else 2, 32),
        tensor_cores="hardware",
    )
    adder = ADDERS["mma", FAMILIES.get(a_type, a_type)]
    expected = hardware_sum(adder, factors_of(a, b, a_type, b_type), c, d_type)
    np.testing.assert_array_equal(from_registers(d, d_type, *of_d(m), (m, n)), expected)


def nearest(exact, dtype):
    """A fraction as the nearest float32 or float16."""
    low = dtype(float(exact))
    around = sorted({np.nextafter(low, dtype(-np.inf)), low, np.nextafter(low, dtype(np.inf))})
    return min(around, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(f"u{each.itemsize}")) & 1))


@pytest.mark.parametrize(("d_type", "c_type"), [("f16", "f16"), ("f32", "f32"), ("f32", "f16")])
def test_quad_pairs_are_multiplied_and_added_by_cuda_cores(d_type, c_type):
    generator = np.random.default_rng(2)
    a, b, c = (
        numbers(generator, kind, 4, *size) for kind, size in (("f16", (8, 4)), ("f16", (4, 8)), (c_type, (8, 8)))
    )
    d = run_warp(
        f"mma.sync.aligned.m8n8k4.row.col.{d_type}.f16.f16.{c_type} {{d}}, {{0}}, {{1}}, {{2}};",
        to_registers(a, "f16", 4, of_product(QUAD_A["row"])),
        to_registers(b, "f16", 4, of_product(QUAD_B["col"])),
        to_registers(c, c_type, 8, of_product(QUAD_C[c_type])),
        outputs=(8 if d_type == "f32" else 4, 32),
        tensor_cores="hardware",
    )
    found = from_registers(d, d_type, 8, of_product(QUAD_C[d_type]), (4, 8, 8))

    def fused(terms, total):
        for x, y in terms:
            total = nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total)), np.float32)
        return Fraction(float(total))

    for q, row, column in np.ndindex(4, 8, 8):
        terms, start = list(zip(a[q, row], b[q, :, column], strict=True)), Fraction(float(c[q, row, column]))
        if d_type == "f32":
            expected = nearest(start + fused(terms, 0), np.float32)
        else:
            half = nearest(start + fused(terms[:2], 0), np.float32)
            expected = nearest(
                Fraction(float(nearest(Fraction(float(half)) + fused(terms[2:], 0), np.float32))), np.float16
            )
        assert found[q, row, column] == expected


@pytest.mark.parametrize("kind", ["mma", "wmma", "wgmma"])
def test_hardware_differs_from_exact_within_the_bound_of_the_proof(kind):
    """Sums of floats differ somewhere, and no more than rounding explains; integers and float64 are the same."""
    different = 0
    for form in FORMS[kind][::7]:
        exact, hardware = (emulate(form.launch(), checks=False, tensor_cores=each) for each in ("exact", "hardware"))
        found = form.differences(exact, hardware, lambda launch: emulate(launch, checks=False))
        assert not found, (form.name, found)
        same = all((one == other).all() for one, other in zip(exact, hardware, strict=True))
        different += not same
        if "s32" in form.name or "f64" in form.name:
            assert same
    assert different > (0 if kind != "wmma" else -1)


REFUSED = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry nothing() { ret; }
"""


def test_a_gpu_that_is_not_modeled_is_refused():
    assert Device().load(REFUSED).name == "nothing"
    with pytest.raises(ArgumentValueError, match="the module is for sm_100a, whose tensor cores are not modeled"):
        Device(tensor_cores="hardware").load(REFUSED)
    assert Device(tensor_cores="hardware").load(REFUSED.replace("sm_100a", "sm_70")).name == "nothing"
    with pytest.raises(ArgumentValueError, match="tensor_cores is 'h200' and must be one of exact, hardware"):
        Device(tensor_cores="h200")


LOST = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry lost(.param .u64 out) {
  .reg .b32 %d<4>, %ones, %lane; .reg .b64 %p, %q;
  mov.u32 %lane, %tid.x;
  mov.b32 %ones, 0x3c003c00;
  mov.f32 %d0, 0f4C800000;  // 2^26: eight ones are its last place, and each is below 25 bits
  mov.f32 %d1, 0f4C800000;
  mov.f32 %d2, 0f4B800000;  // 2^24: nothing is lost
  mov.f32 %d3, 0f4B800000;
  mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%ones, %ones}, {%ones}, {%d0, %d1, %d2, %d3};
  ld.param.u64 %p, [out];
  mul.wide.u32 %q, %lane, 16;
  add.u64 %p, %p, %q;
  st.global.v4.b32 [%p], {%d0, %d1, %d2, %d3};
  ret;
}
"""
SUMS = {"exact": 2.0**26 + 8, "hardware": 2.0**26}


@pytest.mark.parametrize("arithmetic", SUMS)
def test_check_takes_it(arithmetic, tmp_path):
    out = np.zeros((32, 4), np.float32)
    options = {} if arithmetic == "exact" else {"tensor_cores": arithmetic}
    assert tw.check(LOST, out, grid=1, block=32, **options).verified
    assert (out == [SUMS[arithmetic]] * 2 + [2.0**24 + 8] * 2).all()
    (tmp_path / "lost.ptx").write_text(LOST)
    command = ["check", tmp_path / "lost.ptx", "--block", 32, "--arg", "out=f32[128]", "--schedules", 0]
    place = "PTX:13@0"
    found = in_json(*command, "--at", place, *(["--tensor-cores", arithmetic] if options else []))
    assert found["verified"]
    assert str(SUMS[arithmetic]) in str(found["registers"])


def test_products_of_tilewright_are_verified_with_it():
    """The bound of the check explains what an H200's tensor cores lose."""
    assert in_json("check", "mma", 16, 8, 256, "--schedules", 0, "--tensor-cores", "hardware")["verified"]
    product = "run", 64, 64, 512, "--out-dtype", "fp32", "--backend", "emulator"
    record, exact = in_json(*product, "--tensor-cores", "hardware"), in_json(*product)
    assert record["verified"]
    assert record["relative_error"] != exact["relative_error"]
