"""Spellings of PTX that headers and other compilers use: WARP_SZ, no blanks, array elements, tables of functions."""

import numpy as np
import pytest

from emulate.lane_programs import LANES, evaluate, integer_inputs
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, PtxSyntaxError, UnsupportedInstruction


def test_the_warp_size_is_a_constant():
    source = """
    extern "C" __global__ void sizes(int* out) { out[threadIdx.x] = threadIdx.x / warpSize + 100 * warpSize; }
    """
    ptx = compile_ptx(source)
    assert "WARP_SZ" in ptx
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(256)
    device.launch(device.load(ptx), 1, 64, [out])
    assert device.read(out, 256).view(np.int32).tolist() == [3200] * 32 + [3201] * 32


def test_the_warp_size_is_no_register():
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction), match="WARP_SZ"):
        evaluate("mov.u32 %d, %WARP_SZ;", integer_inputs(), 32)


@pytest.mark.parametrize(
    "body",
    [
        "{.reg.b32 f; add.u32 f, %a, 1; mov.b32 %d, f;}",
        "{.reg.b32 f<2>;.local.align 8.b8 x[8];st.local.u32 [x+4],%a;ld.local.u32 f1,[x+4]; add.u32 %d,f1,1;}",
    ],
)
def test_no_blanks_are_needed_around_types(body):
    inputs = integer_inputs()
    assert evaluate(body, inputs, 32) == [(int(a) + 1) & 0xFFFFFFFF for a, _, _ in inputs]


@pytest.mark.parametrize(
    "body",
    [
        "{.reg .v2 .u32 v; mov.u32 v.x, %a; add.u32 v.y, v.x, 1; mov.u32 %d, v.g;}",
        "{.reg .v4.u32 v<2>; mov.u32 v1.w, %a; add.u32 v1.b, v1.a, 1; mov.u32 %d, v1.z;}",
        "{.reg.v2.b32 v, w; .local .align 8 .b32 x[2]; mov.u32 v.x, %a; mov.u32 v.y, 1; st.local.v2.b32 [x], v;"
        " ld.local.v2.b32 w, [x]; add.u32 %d, w.r, w.y;}",
    ],
)
def test_vector_registers_have_elements(body):
    inputs = integer_inputs()
    assert evaluate(body, inputs, 32) == [(int(a) + 1) & 0xFFFFFFFF for a, _, _ in inputs]


@pytest.mark.parametrize(
    "body",
    [".reg .v3 .u32 v;", ".reg .v2 .pred v;", ".reg .v2 .u32 v; mov.u32 v.z, 0;", ".reg .v2 .u32 v; mov.u32 v, 0;"],
)
def test_vector_registers_that_are_none(body):
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction), match=r"\bv"):
        evaluate(f"{{{body} mov.u32 %d, 0;}}", integer_inputs(), 32)


ELEMENTS = """
  .local .align 8 .u64 local0[4];
  st.local.u64 [local0[0]], %A;
  st.local.u64 [local0[2]], %B;
  st.local.u64 [local0[2]+8], %C;
  mov.u64 %q, local0[1];
  ld.local.u64 %A, [%q+-8];
  ld.local.u64 %B, [%q+8];
  mov.u64 %q, local0 [ 3 ];
  ld.local.u64 %C, [%q];
  add.u64 %D, %A, %B;
  sub.u64 %D, %D, %C;
  ld.param.u64 %q, [out]; mul.wide.u32 %o, %t, 32; add.s64 %q, %q, %o;
"""


def test_an_element_of_an_array_is_an_address():
    inputs = integer_inputs(1)
    expected = [(int(a) + int(b) - int(c)) % (1 << 64) for a, b, c in inputs]
    assert evaluate(ELEMENTS, inputs, 64) == expected
    assert len(expected) == LANES


@pytest.mark.parametrize("operand", ["grid[1]", "in[0]", "missing[0]"])
def test_only_arrays_of_one_dimension_have_elements(operand):
    with pytest.raises(PtxSyntaxError, match=r"is not an address of a variable|is not declared"):
        evaluate(f".local .b32 grid[2][2]; mov.u64 %D, {operand};", integer_inputs(), 64)


TABLE = """
struct Base { __device__ virtual int of(int x) = 0; };
struct First : Base { __device__ int of(int x) override { return x + 1; } };
struct Second : Base { __device__ int of(int x) override { return x * 2; } };
extern "C" __global__ void calls(int* out) {
  First first; Second second;
  Base* chosen = out[threadIdx.x] & 1 ? (Base*)&first : (Base*)&second;
  out[threadIdx.x] = chosen->of(3);
}
extern "C" __global__ void plain(int* out) { out[threadIdx.x] = threadIdx.x; }
"""


def test_a_table_of_functions_refuses_only_the_kernels_that_use_it():
    device, ptx = Device(memory_bytes=1 << 20), compile_ptx(TABLE)
    assert device.entries(ptx) == ["calls", "plain"]
    out = device.allocate(128)
    device.launch(device.load(ptx, "plain"), 1, 32, [out])
    assert device.read(out, 128).view(np.int32).tolist() == list(range(32))
    with pytest.raises(UnsupportedInstruction, match=r"_ZTV\w+ is the address of a function"):
        device.load(ptx, "calls")


def test_a_module_may_stand_on_one_line():
    text = ".version 8.6 .target sm_90a .address_size 64 .visible .entry k(.param .u64 a) { ret; }"
    assert Device(memory_bytes=1 << 20).load(text).name == "k"
