"""Shared memory that nothing has written: a load may read it, and what it reads must not be used."""

import re

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device


def run(body, *options, threads=128):
    """What is reported of a body that has in, out and a tile of 4 KiB, of which nothing is written at first."""
    source = f"""
    extern "C" __global__ void kernel(int* out, const int* in) {{
      __shared__ __align__(128) int tile[1024];
      int t = threadIdx.x;
      unsigned place = (unsigned)__cvta_generic_to_shared(tile);
      {body}
    }}
    """
    device = Device(memory_bytes=1 << 20)
    out, values = device.allocate(1 << 14), device.upload(np.arange(1024, dtype=np.int32))
    device.launch(device.load(compile_ptx(source, "sm_90a", *options)), 1, threads, [out, values])
    return device.reports


PREFETCH = """
  int ahead = 0, sum = 0;
  tile[t] = in[t];
  __syncthreads();
  ahead = *(volatile int*)(tile + (t ^ 1));
  #pragma unroll 1
  for (int k = 0; k < 3; k++) {
    sum += ahead;
    if (k < USED) tile[128 * (k + 1) + t] = in[t];
    __syncthreads();
    ahead = *(volatile int*)(tile + 128 * (k + 1) + (t ^ 1)); /*load*/
  }
  out[t] = sum; /*use*/
"""


def test_a_stage_too_far_may_be_read_and_not_used():
    assert not run(PREFETCH, "-DUSED=2")


@pytest.mark.planted_fault
def test_a_value_is_reported_where_it_is_used():
    (report,) = run(PREFETCH, "-DUSED=1")
    assert report.kind == "uninitialized-shared"
    assert "`st.global.u32`" in report.locations[0]
    assert "`ld.volatile.shared.u32`" in report.locations[1]
    assert re.search(
        r"uses what `ld\.vol\S+ at .* reads from shared address 0x\w+ \(tile \+ 10\d\d\), which", report.message
    )


def vector(used):
    parts = [".reg .b32 a, b, c, d;", "ld.shared.v4.b32 {a, b, c, d}, [%1];", f"mov.b32 %0, {used};"]
    asm = " ".join(parts)
    return run(
        f"""
        tile[4 * t] = t; tile[4 * t + 1] = t; tile[4 * t + 3] = t;
        int value;
        asm volatile("{{{asm}}}" : "=r"(value) : "r"(place + 16 * t) : "memory");
        out[t] = value;
        """
    )


def test_a_vector_may_hold_a_part_that_nobody_uses():
    assert not vector("d")


@pytest.mark.planted_fault
def test_the_part_of_a_vector_that_is_used_is_reported():
    (report,) = vector("c")
    assert "`ld.shared.v4.b32`" in report.locations[1]


LDMATRIX = """
  if (t < 32) {
    // Rows of 16 bytes: the second matrix lacks its last four, the first lacks nothing.
    if (t < 12) for (int i = 0; i < 4; i++) tile[4 * t + i] = t;
    __syncwarp();
    int first, second;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];"
                 : "=r"(first), "=r"(second) : "r"(place + 16 * (t % 16)) : "memory");
    out[t] = first;
    if (LANES) out[32 + t] = second;
  }
"""


@pytest.mark.parametrize(
    ("trans", "lanes"),
    [("", "0"), ("", "t < 16"), (".trans", "0"), (".trans", "t % 4 < 2")],
)
def test_fragments_of_rows_that_are_written(trans, lanes):
    assert not run(LDMATRIX, f'-DTRANS="{trans}"', f"-DLANES=({lanes})")


@pytest.mark.planted_fault
@pytest.mark.parametrize(("trans", "threads"), [("", "threads 16-31"), (".trans", "threads 2-3, 6-7, 10-11")])
def test_fragments_of_rows_that_are_not_written(trans, threads):
    (report,) = run(LDMATRIX, f'-DTRANS="{trans}"', "-DLANES=1")
    assert report.kind == "uninitialized-shared"
    assert "ldmatrix" in report.locations[1]
    assert threads in report.threads
    assert "tile + 192" in report.message


WMMA = """
  for (int i = t; i < 128 - MISSING; i += 32) tile[i] = 0;
  __syncwarp();
  unsigned a[8], b[8];
  float d[8];
  #define LOAD(matrix, registers) \\
    asm volatile("wmma.load." matrix ".sync.aligned.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];" \\
      : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3]), "=r"(registers[4]), \\
        "=r"(registers[5]), "=r"(registers[6]), "=r"(registers[7]) : "r"(place) : "memory")
  LOAD("a.row", a);
  LOAD("b.col", b);
  if (USED) {
    asm volatile("wmma.mma.row.col.sync.aligned.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7},"
      "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23},"
      "{%24, %24, %24, %24, %24, %24, %24, %24};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
        "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]), "f"(0.0f));
    out[t] = d[0];
  }
"""


@pytest.mark.parametrize(("missing", "used"), [(0, 1), (1, 0)])
def test_fragments_of_wmma(missing, used):
    assert not run(WMMA, f"-DMISSING={missing}", f"-DUSED={used}", threads=32)


@pytest.mark.planted_fault
def test_fragments_of_wmma_that_are_not_written():
    reports = run(WMMA, "-DMISSING=1", "-DUSED=1", threads=32)
    assert {report.kind for report in reports} == {"uninitialized-shared"}
    assert all("wmma.mma" in report.locations[0] and "wmma.load" in report.locations[1] for report in reports)
    assert len(reports) == 2


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    "use",
    [
        "if (tile[t]) out[0] = 1;",
        "out[tile[t] & 7] = 1;",
        "out[t] = __any_sync(-1, tile[t]);",
        "tile[512 + t] = tile[t];",
    ],
)
def test_each_use_counts(use):
    reports = run(use)
    assert {report.kind for report in reports} == {"uninitialized-shared"}
