"""The emulator's errors for wrong kernels, wrong launches and wrong PTX."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import (
    BarrierProtocol,
    Deadlock,
    Device,
    DivergedCollective,
    EmulatorError,
    KernelTrap,
    LaunchError,
    MbarrierLifetime,
    Misaligned,
    OutOfBounds,
    PtxSyntaxError,
    UnsupportedInstruction,
)
from tilewright.errors import OutOfMemoryError

ACCESS = """
__device__ __noinline__ int nothing() { return 0; }
__device__ __forceinline__ float inner(const float* p, int i) {
  return p[i];
}
extern "C" __global__ void access(float* out, const float* in, int first) {
  __shared__ float shared[64];
  int i = first + (int)threadIdx.x;
#if SPACE == 0
  out[threadIdx.x] = inner(in, i);
#elif SPACE == 1
  out[i] = 1;
#elif SPACE == 2
  shared[i] = 1; __syncthreads(); out[threadIdx.x] = shared[63 - threadIdx.x];
#elif SPACE == 3
  if (i < 70) atomicAdd(out + i, 1.0f);
#elif SPACE == 4
  out[threadIdx.x] = *(const float*)((const char*)in + i);
#endif
}
"""


def access(space, first, threads=64):
    device = Device(memory_bytes=1 << 20)
    out, values = device.allocate(256), device.upload(np.arange(64, dtype=np.float32))
    kernel = device.load(compile_ptx(ACCESS, "sm_90a", f"-DSPACE={space}"))
    device.launch(kernel, (1,), (threads,), [out, values, first])
    return device.read(out, 256).view(np.float32)


def test_accesses_within_bounds():
    np.testing.assert_array_equal(access(0, 0), np.arange(64))


@pytest.mark.parametrize(
    ("space", "first", "message"),
    [
        (0, 1, r"ld\.global.*0 bytes past the end of the allocation of 256 bytes"),
        (0, -2, r"ld\.global.*8 bytes before the allocation"),
        (1, 60, r"st\.global"),
        (2, 1, r"st\.shared.*outside the 256 bytes.*all of them static: keep the index within"),
        (2, -1, r"st\.shared"),
        (3, 5, r"red\.|atom\."),
    ],
)
def test_out_of_bounds(space, first, message):
    with pytest.raises(OutOfBounds, match=message):
        access(space, first)


def test_source_lines_name_the_call_site_and_the_inlined_line():
    with pytest.raises(OutOfBounds, match=r"test\.cu:4, called from test\.cu:10 "):
        access(0, 1)


def test_a_guarded_access_is_not_out_of_bounds():
    assert np.isnan(access(3, 60, threads=4)[:60]).all()


def test_misaligned():
    with pytest.raises(Misaligned, match="not a multiple of 4"):
        access(4, 1)


def test_freed_memory_is_out_of_bounds():
    device = Device(memory_bytes=1 << 20)
    out, values = device.allocate(256), device.upload(np.zeros(64, np.float32))
    device.free(values)
    kernel = device.load(compile_ptx(ACCESS, "sm_90a", "-DSPACE=0"))
    with pytest.raises(OutOfBounds):
        device.launch(kernel, (1,), (64,), [out, values, 0])


BARRIER = """
extern "C" __global__ void barrier(int mode) {
  if (mode == 0 && threadIdx.x < 32) __syncthreads();
  if (mode == 0 && threadIdx.x >= 32) asm volatile("bar.sync 1, 96;");
  if (mode == 1) asm volatile("bar.sync 2, %0;" :: "r"(threadIdx.x < 64 ? 96 : 128));
  if (mode == 2) { asm volatile("bar.arrive 3, 64;"); asm volatile("bar.sync 4, 128;"); }
  if (mode == 3) asm volatile("barrier.cluster.wait.aligned;");
  if (mode == 4) { volatile int x = 1; if (threadIdx.x == 0) while (x) {} }
  if (mode == 5 && threadIdx.x == 70) __trap();
}
"""


def barrier(mode):
    device = Device(memory_bytes=1 << 20)
    device.launch(device.load(compile_ptx(BARRIER)), (1,), (128,), [mode])


def test_threads_at_different_barriers():
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(BARRIER.replace("96", "128")))
    with pytest.raises(Deadlock) as caught:
        device.launch(kernel, (2,), (128,), [0])
    message = str(caught.value)
    assert "CTAs 0-1, warp 0, waiting at `bar" in message
    assert "32 of 128 threads have arrived at barrier 0" in message
    assert "warps 1-3" in message
    assert "96 of 128 threads have arrived at barrier 1" in message
    assert "test.cu:3" in message


@pytest.mark.parametrize(
    ("mode", "message"),
    [(1, "expects different numbers"), (2, "128 threads have arrived at barrier 3"), (3, "without having arrived")],
)
def test_barrier_protocol(mode, message):
    with pytest.raises(BarrierProtocol, match=message):
        barrier(mode)


def test_an_endless_polling_loop():
    with pytest.raises(Deadlock, match="polling memory"):
        barrier(4)


def test_a_trap():
    with pytest.raises(KernelTrap, match=r"thread 70.*trap"):
        barrier(5)


def test_a_collective_that_part_of_a_warp_never_reaches():
    source = """
    extern "C" __global__ void partial(int* out) {
      if (threadIdx.x < 20) out[threadIdx.x] = __shfl_xor_sync(~0u, (int)threadIdx.x, 1);
      else while (*(volatile int*)out >= -1) {}
    }
    """
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(Deadlock, match="for the other lanes of their warps"):
        device.launch(device.load(compile_ptx(source)), (1,), (32,), [device.upload(np.full(32, 5, np.int32))])


@pytest.mark.planted_fault
def test_a_collective_of_a_part_of_a_warp_is_reported_once():
    source = """
    extern "C" __global__ void matrix(unsigned* out) {
      __shared__ __align__(16) unsigned tile[32];
      unsigned d = 0;
      if (threadIdx.x < 5)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                     : "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(tile)));
      out[threadIdx.x] = d;
    }
    """
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(DivergedCollective) as raised:
        device.launch(device.load(compile_ptx(source)), 1, 64, [device.allocate(256)])
    assert raised.value.reported
    assert [report.kind for report in device.reports] == ["divergent-collective"]
    device = Device(memory_bytes=1 << 20, checks=False)
    with pytest.raises(DivergedCollective) as raised:
        device.launch(device.load(compile_ptx(source)), 1, 64, [device.allocate(256)])
    assert not raised.value.reported


@pytest.mark.planted_fault
def test_mma_needs_whole_warps():
    source = """
    extern "C" __global__ void matrix(unsigned* out) {
      __shared__ __align__(16) unsigned tile[32];
      unsigned d;
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                   : "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(tile)));
      out[threadIdx.x] = d;
    }
    """
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(EmulatorError, match="needs whole warps"):
        device.launch(device.load(compile_ptx(source)), (1,), (40,), [device.allocate(160)])
    assert [report.kind for report in device.reports] == ["divergent-collective"]


MBARRIER = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void mbarrier(int* out, const int* in) {
  __shared__ unsigned long long barrier;
  __shared__ int copied[32];
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 33;" :: "r"(at(&barrier)) : "memory");
  __syncthreads();
#if COPY
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.mbarrier.arrive.shared.b64 [%2];"
               :: "r"(at(copied + threadIdx.x)), "l"(in + threadIdx.x), "r"(at(&barrier)) : "memory");
#else
  if (threadIdx.x == 0)
    asm volatile("mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%0], 256;" :: "r"(at(&barrier)) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(at(&barrier)) : "memory");
#endif
}
"""


def mbarrier(copy):
    device = Device(memory_bytes=1 << 20, asynchrony="lazy")
    kernel = device.load(compile_ptx(MBARRIER, "sm_90a", f"-DCOPY={copy}"))
    device.launch(kernel, (1,), (32,), [device.allocate(128), device.upload(np.arange(32, dtype=np.int32))])


def test_a_deadlock_at_test_wait_says_what_is_missing():
    with pytest.raises(Deadlock, match=r"test_wait.*arrivals 33 of 33, 256 bytes more than expected have arrived"):
        mbarrier(copy=0)


def test_a_copy_that_outlives_its_only_cta():
    with pytest.raises(MbarrierLifetime, match=r"a CTA that has exited: .* wait for the mbarrier") as raised:
        mbarrier(copy=1)
    assert "cluster" not in str(raised.value)


NULL = """
extern "C" __global__ void null(int* out) {
#if GLOBAL
  asm volatile("st.global.s32 [%0], 1;" :: "l"(out + threadIdx.x) : "memory");
#else
  *(volatile int*)(out + threadIdx.x) = 1;
#endif
}
"""


@pytest.mark.parametrize(("form", "address"), [(0, 0), (1, 0), (1, 0x7000_0000_0000 << 1), (0, 0x1234 << 40)])
def test_pointers_to_nothing(form, address):
    device = Device(memory_bytes=1 << 20)
    device.allocate(256)
    kernel = device.load(compile_ptx(NULL, "sm_90a", f"-DGLOBAL={form}"))
    with pytest.raises(OutOfBounds, match="far from every allocation" if address else "null pointer") as raised:
        device.launch(kernel, (1,), (32,), [address])
    with pytest.raises(ValueError, match="far from every allocation" if address else "null pointer"):
        device.read(address, 4)
    assert "bytes at 0x7" not in str(raised.value)


@pytest.mark.planted_fault
def test_a_buffer_of_the_emulator_is_not_named():
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(NULL, "sm_90a", "-DGLOBAL=1"))
    with pytest.raises(OutOfBounds, match="there is no live allocation"):
        device.launch(kernel, (1,), (32,), [0x7000_0000_0000])


HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 r1, 5;", r"PTX line 6: 'r1' is not declared"),
        (".reg .b32 %r1;\nbra Nowhere;", r"PTX line 7: no label 'Nowhere'"),
        (".reg .b32 %r1\nmov", r"PTX line 6: .* is not a register name"),
        (".reg .b33 %r1;", r"PTX line 6: cannot parse the declaration"),
        ("]", r"PTX line 6"),
        ("ld.global.u32 %r1, " + "[%r2, " * 5000 + "%r3" + "]" * 5000 + ";", r"PTX line 6: .* is not an address"),
    ],
)
def test_syntax_errors_name_the_line(body, message):
    with pytest.raises(PtxSyntaxError, match=message):
        Device(memory_bytes=1 << 16).load(f"{HEADER}.visible .entry e()\n{{\n{body}\nret;\n}}\n")


def test_garbage_is_a_syntax_error():
    with pytest.raises(PtxSyntaxError, match="PTX line 1: unexpected"):
        Device(memory_bytes=1 << 16).load("int main() {}")


@pytest.mark.parametrize("name", ["__import__('os')", "%r2", "%r1;import os", "x\\n os.abort()", "m.access"])
def test_text_never_becomes_code(name):
    ptx = f"{HEADER}.visible .entry e()\n{{\n.reg .b32 %r1;\nmov.u32 %r1, {name};\nret;\n}}\n"
    with pytest.raises((PtxSyntaxError, UnsupportedInstruction)):
        Device(memory_bytes=1 << 16).load(ptx)


FUNCTIONS = """
__device__ __noinline__ int one(int x) { return x + 1; }
__device__ __noinline__ int two(int x) { return x * 2; }
struct Base { __device__ virtual int of(int x) = 0; };
struct First : Base { __device__ int of(int x) override { return x + 1; } };
struct Second : Base { __device__ int of(int x) override { return x * 2; } };
extern "C" __global__ void call(int* out) {
  int x = out[threadIdx.x];
#if VIRTUAL
  First first; Second second;
  Base* chosen = x & 1 ? (Base*)&first : (Base*)&second;
  out[threadIdx.x] = chosen->of(x);
#else
  int (*chosen)(int) = x & 1 ? one : two;
  out[threadIdx.x] = chosen(x);
#endif
}
"""


@pytest.mark.parametrize(
    ("virtual", "message"),
    [
        (0, r"PTX line \d+\): _Z3\w+i is a function, and addresses of functions are not emulated"),
        (1, r"PTX line \d+: initializer '_ZN\w+' of _ZTV\w+ is the address of a function.*virtual functions"),
    ],
)
def test_addresses_of_functions_are_not_emulated(virtual, message):
    with pytest.raises(UnsupportedInstruction, match=message):
        Device(memory_bytes=1 << 16).load(compile_ptx(FUNCTIONS, "sm_90a", f"-DVIRTUAL={virtual}"))


def test_cooperative_launches_are_not_emulated():
    ptx = f"{HEADER}.visible .entry e()\n{{\n.reg .b32 %r1;\nmov.u32 %r1, %envreg2;\nret;\n}}\n"
    message = r"cooperative launches, which are not emulated, nor is grid\.sync\(\)"
    with pytest.raises(UnsupportedInstruction, match=message):
        Device(memory_bytes=1 << 16).load(ptx)


def test_an_unknown_special_register():
    ptx = f"{HEADER}.visible .entry e()\n{{\n.reg .b32 %r1;\nmov.u32 %r1, %reserved_smem_offset_begin;\nret;\n}}\n"
    with pytest.raises(UnsupportedInstruction, match=r"mov\.u32.*PTX line 7"):
        Device(memory_bytes=1 << 16).load(ptx)


@pytest.mark.parametrize(
    ("arguments", "launch", "message"),
    [
        ([1], {}, "takes 3 arguments and args has 1"),
        ([b"1234", 0, 0], {}, r"args\[0\] has 4 bytes; parameter access_param_0 of access has 8"),
        ([0, 0, 0], {"block": (2048,)}, "2048 threads; the limit is 1024"),
        ([0, 0, 0], {"grid": (3,), "cluster": (2,)}, "multiple of cluster"),
        ([0, 0, 0], {"shared_bytes": 300_000}, "bytes of shared memory"),
    ],
)
def test_launch_errors(arguments, launch, message):
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(ACCESS, "sm_90a", "-DSPACE=1"))
    options = {"grid": (1,), "block": (32,), **launch}
    with pytest.raises(LaunchError, match=message):
        device.launch(kernel, options.pop("grid"), options.pop("block"), arguments, **options)


def test_launch_bounds_are_checked():
    source = 'extern "C" __global__ void __launch_bounds__(64) bounded() {}'
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(LaunchError, match="at most 64 threads"):
        device.launch(device.load(compile_ptx(source)), (1,), (65,), [])


def test_host_memory_interface():
    device = Device(memory_bytes=1 << 16)
    values = np.arange(10, dtype=np.float64)
    address = device.upload(values)
    assert address % 256 == 0
    np.testing.assert_array_equal(device.read(address, 80).view(np.float64), values)
    device.write(address + 8, np.float64([7]))
    assert device.read(address + 8, 8).view(np.float64)[0] == 7
    with pytest.raises(ValueError, match="out of bounds"):
        device.read(address, 81)
    with pytest.raises(ValueError, match="not the start"):
        device.free(address + 8)
    device.free(address)
    with pytest.raises(ValueError, match="out of bounds"):
        device.write(address, values)
    with pytest.raises(OutOfMemoryError, match="memory_bytes"):
        device.allocate(1 << 16)
    with pytest.raises(ValueError, match="power of two"):
        device.allocate(16, align=48)
    assert device.upload(values) == address
    with pytest.raises(ValueError, match="asynchrony"):
        Device(asynchrony="sometimes")


def test_a_module_with_two_entries_needs_a_name():
    source = 'extern "C" __global__ void one() {} extern "C" __global__ void two() {}'
    device = Device(memory_bytes=1 << 16)
    with pytest.raises(ValueError, match="one, two"):
        device.load(compile_ptx(source))
    assert device.load(compile_ptx(source), "two").name == "two"
