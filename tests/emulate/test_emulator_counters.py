"""Counters of a launch against numbers worked out by hand."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from emulate.nvrtc import compile_ptx
from support.ring_gemm import RING_GEMM
from tilewright.emulator import Device
from tilewright.emulator.counts.counters import Counts
from tilewright.emulator.ptx.lexical import short_names
from tilewright.emulator.semantics.tensor_map import TensorMap
from tilewright.emulator.semantics.tma import bytes_read

COPY = """
extern "C" __global__ void copy(float* out, const float* in, int stride) {
  __shared__ float shared[32 * 33];
  int t = threadIdx.x;
  shared[t * SHARED_STRIDE] = in[t * stride];
  __syncwarp();
  out[t] = shared[t * SHARED_STRIDE];
}
"""


def count(stride, shared_stride, threads=32):
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.allocate(4096), device.upload(np.zeros(8192, np.float32)), stride]
    kernel = device.load(compile_ptx(COPY, "sm_90a", f"-DSHARED_STRIDE={shared_stride}"))
    return device.launch(kernel, (3,), (threads,), arguments).as_dict()


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (0, 1)])
def test_sectors_of_a_load(stride, sectors):
    counters = count(stride, 1)
    assert counters["global_requests"] == {"ld": 3, "st": 3}
    assert counters["global_sectors"] == {"ld": 3 * sectors, "st": 12}
    assert counters["sectors_per_request"] == {"ld": sectors, "st": 4}


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts(stride, wavefronts):
    counters = count(1, stride)
    assert counters["shared_requests"] == {"ld": 3, "st": 3}
    assert counters["shared_wavefronts"] == {"ld": 3 * wavefronts, "st": 3 * wavefronts}
    assert counters["shared_conflicts"] == {"ld": 3 * (wavefronts - 1), "st": 3 * (wavefronts - 1)}


def test_wide_accesses_go_in_phases():
    source = """
    struct __align__(16) Four { float x, y, z, w; };
    extern "C" __global__ void wide(Four* out) {
      __shared__ Four shared[64];
      shared[threadIdx.x] = shared[threadIdx.x + 32] = Four{1, 2, 3, (float)threadIdx.x};
      __syncwarp();
      out[threadIdx.x] = shared[threadIdx.x * 2];
    }
    """
    device = Device(memory_bytes=1 << 20, count_memory=True)
    counters = device.launch(device.load(compile_ptx(source)), (1,), (32,), [device.allocate(512)])
    assert counters.shared_wavefronts == {"ld": 8, "st": 8}
    assert counters.global_sectors == {"st": 16}


def test_instructions_are_counted_per_warp():
    source = """
    extern "C" __global__ void work(float* out, int n) {
      float sum = 0;
      for (int i = 0; i < n; i++) sum = sum * 1.5f + 1;
      if (threadIdx.x == 0) out[blockIdx.x] = sum;
      __syncthreads();
    }
    """
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(source))
    counters = device.launch(kernel, (5,), (96,), [device.allocate(20), 7])
    assert counters.warp_instructions["fma.rn.f32"] == 5 * 3 * 7
    assert counters.warp_instructions["st.global.f32"] == 5
    assert counters.barrier_waits == 15
    assert counters.mbarrier_waits == 0
    assert not counters.global_requests


def test_progress_ends_at_one():
    seen = []
    device = Device(memory_bytes=1 << 24, progress=seen.append)
    source = 'extern "C" __global__ void fill(float* out) { out[blockIdx.x * 256 + threadIdx.x] = 1; }'
    device.launch(device.load(compile_ptx(source)), (1000,), (256,), [device.allocate(1 << 20)])
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == 1


TRANSPOSE = """
extern "C" __global__ void transpose(float* out, const float* in) {
  __shared__ float tile[32][32 + PAD];
  int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[32 * y + x];
  __syncthreads();
  out[32 * y + x] = tile[x][y];
}
"""


@pytest.mark.parametrize(("pad", "wavefronts"), [(0, 32), (1, 1)])
def test_each_line_has_its_own_counts(pad, wavefronts):
    device = Device(memory_bytes=1 << 20, count_memory=True)
    kernel = device.load(compile_ptx(TRANSPOSE, "sm_90a", f"-DPAD={pad}"))
    matrix = np.arange(1024, dtype=np.float32).reshape(32, 32)
    out = device.allocate(4096)
    counters = device.launch(kernel, (1,), (32, 32), [out, device.upload(matrix)])
    np.testing.assert_array_equal(device.read(out, 4096).view(np.float32).reshape(32, 32), matrix.T)
    store, barrier, load = (counters.by_line[f"test.cu:{line}"] for line in (5, 6, 7))
    assert (store.shared_wavefronts, store.shared_conflicts) == ({"st": 32}, {"st": 0})
    assert (store.global_requests, store.global_sectors) == ({"ld": 32}, {"ld": 128})
    assert barrier.barrier_waits == 32
    assert not barrier.shared_wavefronts
    assert load.shared_wavefronts == {"ld": 32 * wavefronts}
    assert load.shared_conflicts == {"ld": 32 * (wavefronts - 1)}
    assert load.sectors_per_request == {"st": 4}
    assert store.warp_instructions["ld.global.nc.f32"] + store.warp_instructions["ld.global.f32"] == 32


def test_lines_sum_to_the_totals():
    device = Device(memory_bytes=1 << 20, count_memory=True)
    kernel = device.load(compile_ptx(COPY, "sm_90a", "-DSHARED_STRIDE=3"))
    counters = device.launch(kernel, (3,), (40,), [device.allocate(4096), device.upload(np.zeros(8192, np.float32)), 2])
    total = Counts()
    for counts in counters.by_line.values():
        total.add(counts)
    assert total.as_dict() == counters.as_dict()
    assert total.warp_instructions.total() > 0


def test_inlined_lines_count_for_those_that_they_are_inlined_into():
    source = """
    __device__ float inner(const float* in) { return in[0]; }
    __device__ float outer(const float* in) {
      return inner(in) +
             inner(in + 64);
    }
    extern "C" __global__ void work(float* out, const float* in) {
      out[threadIdx.x] =
          outer(in + threadIdx.x);
    }
    """
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.allocate(128), device.upload(np.zeros(96, np.float32))]
    counters = device.launch(device.load(compile_ptx(source)), (1,), (32,), arguments)
    assert counters.by_line["test.cu:2"].global_requests == {"ld": 2}
    for line, requests in ((2, 2), (4, 1), (5, 1), (9, 2)):
        assert counters.by_line_inclusive[f"test.cu:{line}"].global_requests["ld"] == requests
    assert ("test.cu:2", "test.cu:5", "test.cu:9") in counters.by_chain


def test_line_0_stands_for_the_next_line_of_the_body():
    """As NVRTC writes it where the first instructions of a block come from no line."""
    text = """.version 8.5
.target sm_90a
.address_size 64
.file 1 "a.cu"
.visible .entry e()
{
.reg .b32 %r<4>;
.loc 1 7 1
mov.u32 %r0, 1;
.loc 1 0 1
mov.u32 %r1, 2;
.loc 1 0 5
mov.u32 %r2, 3;
.loc 1 9 1
mov.u32 %r3, 4;
.loc 1 0 1
ret;
}
.visible .entry f()
{
.loc 1 20 1
ret;
}
"""
    device = Device(memory_bytes=1 << 20)
    counters = device.launch(device.load(text, "e"), 1, 32, [])
    executed = {line: dict(counts.warp_instructions) for line, counts in counters.by_line.items()}
    assert executed == {"a.cu:7": {"mov.u32": 1}, "a.cu:9": {"mov.u32": 3}, "PTX:17": {"ret": 1}}


def test_without_line_information_the_lines_are_those_of_the_ptx():
    text = compile_ptx(COPY, "sm_90a", "-DSHARED_STRIDE=1")
    bare = "\n".join("" if line.strip().startswith(".loc") else line for line in text.splitlines())
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.allocate(4096), device.upload(np.zeros(32, np.float32)), 1]
    counters = device.launch(device.load(bare), (1,), (32,), arguments)
    number = next(n for n, line in enumerate(bare.splitlines(), 1) if "st.global" in line)
    assert counters.by_line[f"PTX:{number}"].global_sectors == {"st": 4}


def test_files_of_one_name_keep_the_directory_that_tells_them_apart():
    paths = {
        1: "/a/ptx/wgmma.cuh", 2: "/a/kernels/wgmma.cuh", 3: "C:\\a\\mma.cuh", 4: "/a/ptx/wgmma.cuh", 5: "wgmma.cuh",
    }  # fmt: skip
    names = {1: "ptx/wgmma.cuh", 2: "kernels/wgmma.cuh", 3: "mma.cuh", 4: "ptx/wgmma.cuh", 5: "wgmma.cuh"}
    assert short_names(paths) == names


def test_cp_async_loads_from_global_and_stores_to_shared_memory():
    source = """
    extern "C" __global__ void copy(float* out, const float* in) {
      __shared__ __align__(16) float tile[128];
      unsigned to = (unsigned)__cvta_generic_to_shared(tile + 4 * threadIdx.x);
      int bytes = threadIdx.x < 16 ? 16 : 0;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(in + 4 * threadIdx.x), "r"(bytes));
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncwarp();
      atomicAdd(out, tile[threadIdx.x]);
    }
    """
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.upload(np.zeros(1, np.float32)), device.upload(np.ones(128, np.float32))]
    counters = device.launch(device.load(compile_ptx(source)), (1,), (32,), arguments)
    assert counters.global_requests == {"ld": 1, "atom": 1}
    assert counters.global_sectors == {"ld": 8, "atom": 1}
    assert counters.shared_wavefronts == {"cp.async": 4, "ld": 1}


def test_multicast_reads_once_what_lands_twice():
    m, n, k = 128, 128, 320
    device = Device(memory_bytes=1 << 24)
    maps = [
        device.tensor_map(
            address=device.upload(np.ones((rows, k), bfloat16)), dtype="bf16", shape=(k, rows),
            strides=(2 * k,), box=(64, box_rows), swizzle=128,
        )
        for rows, box_rows in ((m, 64), (n, 32))
    ]  # fmt: skip
    kernel = device.load(compile_ptx(RING_GEMM, "sm_90a", "-DFAULT=0"))
    counters = device.launch(
        kernel, (2, 2), (160,), [*maps, device.allocate(4 * m * n), n, k], cluster=(2,), shared_bytes=2 * 2 * 8192 + 32
    )
    steps = 4 * k // 64  # of all CTAs: each loads a box of A, and half a box of B for two CTAs
    assert counters.tma_loaded_bytes == steps * (8192 + 2 * 4096)
    assert counters.tma_read_bytes == steps * (8192 + 4096)
    assert counters.multicast_saved_bytes == steps * 4096
    assert counters.tensor_instructions == {"wgmma.m64n64k16.f32.bf16.bf16": 4 * steps}
    assert counters.tensor_flops == 2 * m * n * k
    assert counters.barrier_waits == 2 * 4 * 5  # at the cluster barrier, by 5 warps of 4 CTAs
    assert counters.mbarrier_waits == steps * (1 + 4)  # by the producer's warp and by the consumers' four


def test_mma_is_counted_by_type():
    source = """
    extern "C" __global__ void multiply(float* out) {
      float d[4] = {};
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4},"
                   "{%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(0));
      out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
    }
    """
    device = Device(memory_bytes=1 << 20)
    counters = device.launch(device.load(compile_ptx(source)), (3,), (64,), [device.allocate(256)])
    assert counters.tensor_instructions == {"mma.m16n8k16.f32.f16.f16": 6}
    assert counters.tensor_flops == 6 * 2 * 16 * 8 * 16


def test_tma_reads_whole_sectors_and_what_is_out_of_bounds_too():
    """The rule is an H200's: sectors of a row inside the tensor, and as many as the rest of the row fills."""
    rows = TensorMap(1 << 20, "f32", (16, 6), (64,), (8, 4))  # of two sectors each, as are boxes' rows of one
    assert bytes_read(rows, np.array([[0, 0]])) == 4 * 32
    assert bytes_read(rows, np.array([[8, 4], [16, 0], [0, 7]])) == 3 * 4 * 32
    assert bytes_read(rows, np.array([[12, 0]])) == 4 * (32 + 32)  # half a sector, and half one of zeros
    odd = TensorMap(1 << 20, "f32", (20, 6), (80,), (16, 4))  # every second row begins within a sector
    assert bytes_read(odd, np.array([[0, 0]])) == 2 * (64 + 96)
    assert bytes_read(odd, np.array([[16, 0]])) == 4 * (32 + 64)
    line = TensorMap((1 << 20) + 16, "u8", (256,), (), (256,))  # in two pieces
    assert bytes_read(line, np.array([[0]])) == 2 * (128 + 32)
