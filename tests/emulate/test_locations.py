"""Source lines of code that was inlined, also through templates that call themselves."""

import re

import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device

RECURSIVE = """
template <int N> __device__ __forceinline__ void rec(volatile float* s, int t) {
  if constexpr (N == 0) s[t] = t;
  else rec<N - 1>(s, t);
}
extern "C" __global__ void twice(float* out) {
  rec<2>(out, threadIdx.x);
  rec<3>(out, 2 * threadIdx.x);
}
"""


def stores(ptx):
    kernel = Device(memory_bytes=1 << 16).load(ptx)
    return [each.location for each in kernel.program.entry.instructions if each.opcode == "st"]


def test_recursive_templates_name_the_line_of_the_kernel():
    first, second = stores(compile_ptx(RECURSIVE))
    assert str(first) == "test.cu:3, called from test.cu:7"
    assert str(second) == "test.cu:3, called from test.cu:8"
    assert first.chain == ("test.cu:3", "test.cu:4", "test.cu:7")
    assert second.chain == ("test.cu:3", "test.cu:4", "test.cu:8")


HEADER = ".version 8.5\n.target sm_80\n.address_size 64\n"
NESTED = """.file 1 "user.cu"
.file 2 "lib/algorithm.hpp"
.visible .entry e(.param .u64 out) {
.reg .b64 %p;
.loc 1 20 3
ld.param.u64 %p, [out];
.loc 2 50 9, function_name $outer, inlined_at 1 20 3
.loc 2 50 9, function_name $inner, inlined_at 2 50 9
.loc 2 60 9, function_name $atom, inlined_at 2 50 9
st.global.u32 [%p], 1;
.loc 2 50 9, function_name $outer, inlined_at 1 20 3
st.global.u32 [%p+4], 1;
.loc 2 50 9, function_name $inner, inlined_at 2 50 9
st.global.u32 [%p+8], 1;
.loc 2 60 9, function_name $atom, inlined_at 2 50 9
st.global.u32 [%p+12], 1;
.loc 1 30 3
.loc 2 50 9, function_name $outer, inlined_at 1 30 3
st.global.u32 [%p+16], 1;
.loc 2 70 9, function_name $other, inlined_at 3 1 1
st.global.u32 [%p+20], 1;
ret;
}
"""


def test_a_line_that_calls_itself_has_the_caller_that_was_written_last():
    found = stores(HEADER + NESTED)
    assert [location.root_line for location in found] == [20, 20, 20, 20, 30, 1]
    assert found[0].chain == ("algorithm.hpp:60", "algorithm.hpp:50", "user.cu:20")
    assert found[5].chain == ("algorithm.hpp:70", "?:1")


LLVM_ASSEMBLY = """.file 1 "user.py"
.visible .entry e(.param .u64 out) {
.reg .b64 %p;
.loc 1 7 3
ld.param.u64 %p, [out];
.loc 1 20 25
// begin inline asm
.loc 1 20 25
st.global.u32 [%p], 1;
.loc 1 21 25
st.global.u32 [%p+4], 1;

// end inline asm
st.global.u32 [%p+8], 1;
// begin inline asm

.loc 1 21 25
st.global.u32 [%p+12], 1;
// end inline asm
.loc 1 0 25
// begin inline asm
.loc 1 1 25
st.global.u32 [%p+16], 1;
// end inline asm
.loc 1 30 3
ret;
}
"""


def test_lines_within_assembly_are_not_lines_of_the_source():
    """LLVM counts on from the line of the assembly; only what it writes before the assembly is a source line."""
    found = stores(HEADER + LLVM_ASSEMBLY)
    assert [location.root_line for location in found] == [20, 20, 20, 20, 30]


@pytest.mark.planted_fault
def test_a_report_in_a_template_of_a_header_names_the_line_of_the_user(reports):
    source = """
#line 100 "lib/atoms.hpp"
template <int N> __device__ __forceinline__ void each(float* tile, float* out) {
  if constexpr (N > 0) {
    out[32 * N + threadIdx.x] = tile[threadIdx.x ^ N];
    each<N - 1>(tile, out);
  }
}
#line 1 "user.cu"
extern "C" __global__ void exchange(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  each<3>(tile, out);
}
"""
    device = Device(memory_bytes=1 << 20)
    device.launch(device.load(compile_ptx(source)), 1, 64, [device.allocate(1024)])
    places = {re.search(r"at (\S+), called from (\S+)", report.locations[0]).groups() for report in reports()}
    assert places == {("atoms.hpp:102", "user.cu:4")}
