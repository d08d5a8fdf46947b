"""Device functions, tables of branches, and what a call does whose body is elsewhere."""

import numpy as np
import pytest

from emulate.lane_programs import LANES, U64, integer_inputs
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, KernelTrap, PtxSyntaxError, UndefinedBranch, UnsupportedInstruction

SOURCE = """
struct Pair { float a; double b; int c[3]; };
__device__ __noinline__ int add(int a, int b) { if (a > 5) return a - b; return a + b; }
__device__ __noinline__ Pair make(Pair p, int i) {
  p.a += i; p.b *= 2; p.c[i & 1] = add(p.c[1], i);
  return p;
}
__device__ __noinline__ float local_sum(const float* x, int n, int stride) {
  float t[8];
  for (int i = 0; i < 8; ++i) t[i] = x[(i + n) & 7];
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += t[(i * stride) & 7];
  return sum;
}
__device__ __noinline__ int mirrored(int v) {
  __shared__ int exchange[64];
  __syncthreads();
  exchange[threadIdx.x] = v;
  __syncthreads();
  return exchange[63 - threadIdx.x];
}
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void k(int* out, const float* in, int n) {
  Pair p{in[threadIdx.x], 3.5, {1, (int)threadIdx.x, 9}};
  Pair q = make(p, n);
  if (n == 4) printf("n is %d", n);
  int v = n + q.c[0] + q.c[1] + q.c[2] + (int)q.a + (int)q.b;
  if (threadIdx.x & 1) v = add(v, 1000);
  v += mirrored(v) + mirrored(2 * v);
  out[threadIdx.x] = v + (int)local_sum(in, n, n - 1);
}
"""


def add(a, b):
    return a - b if a > 5 else a + b


@pytest.mark.parametrize("n", [4, 7])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_functions_with_structures_locals_and_barriers(n, arch):
    values = np.arange(64, dtype=np.float32) - 20
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(256)
    device.launch(device.load(compile_ptx(SOURCE, arch)), (1,), (64,), [out, device.upload(values), n])
    first = []
    for thread in range(64):
        c = [1, thread, 9]
        c[n & 1] = add(c[1], n)
        v = n + sum(c) + int(values[thread] + n) + 7
        first.append(add(v, 1000) if thread & 1 else v)
    table = [values[(i + n) & 7] for i in range(8)]
    total = int(sum(table[(i * (n - 1)) & 7] for i in range(n)))
    expected = [v + 3 * first[63 - thread] + total for thread, v in enumerate(first)]
    assert device.read(out, 256).view(np.int32).tolist() == expected


HEADER = ".version 8.5\n.target sm_80\n.address_size 64\n"


def run(functions, body, inputs):
    """Run a body that makes %D of %A, %B and %C, with device functions before it."""
    ptx = f"""{HEADER}
{functions}
.visible .entry op(.param .u64 out, .param .u64 in) {{
  .reg .b32 %t; .reg .pred %P;
  .reg .b64 %A, %B, %C, %D, %p, %q, %o;
  mov.u32 %t, %tid.x;
  ld.param.u64 %p, [in]; mad.wide.u32 %p, %t, 24, %p;
  ld.param.u64 %q, [out]; mad.wide.u32 %q, %t, 8, %q;
  ld.global.b64 %A, [%p]; ld.global.b64 %B, [%p+8]; ld.global.b64 %C, [%p+16];
  {body}
  st.global.b64 [%q], %D;
  ret;
}}
"""
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(8 * LANES)
    device.launch(device.load(ptx), (1,), (LANES,), [out, device.upload(inputs)])
    return device.read(out, 8 * LANES).view(np.uint64).tolist()


REGISTERS = """
.func (.reg .b64 %result) distance (.reg .b64 %x, .reg .b64 %y)
{
  .reg .pred %less;
  setp.lt.u64 %less, %x, %y;
  @%less bra Less;
  sub.u64 %result, %x, %y;
  ret;
Less:
  sub.u64 %result, %y, %x;
}
.func nothing () { ret; }
"""


def test_arguments_in_registers():
    inputs = integer_inputs(10)
    body = "call (%D), distance, (%A, %B); call (%D), distance, (%D, 17); call nothing; call.uni nothing, ();"
    assert run(REGISTERS, body, inputs) == [abs(abs(int(a) - int(b)) - 17) for a, b, _ in inputs]


@pytest.mark.parametrize(("guard", "calls"), [("@%P", lambda a, b: a < b), ("@!%P", lambda a, b: a >= b)])
def test_a_call_under_a_guard(guard, calls):
    inputs = integer_inputs(11)
    body = f"mov.u64 %D, 5; setp.lt.u64 %P, %A, %B; {guard} call (%D), distance, (%C, %B);"
    expected = [abs(int(c) - int(b)) if calls(a, b) else 5 for a, b, c in inputs]
    assert run(REGISTERS, body, inputs) == expected


def test_arguments_of_128_bits():
    functions = """
.func (.param .align 16 .b8 swapped[16]) swap (.param .align 16 .b8 given[16])
{
  .reg .b128 %both; .reg .b64 %low, %high;
  ld.param.b128 %both, [given];
  mov.b128 {%low, %high}, %both;
  mov.b128 %both, {%high, %low};
  st.param.b128 [swapped], %both;
  ret;
}
"""
    body = """
  { .param .align 16 .b8 given[16]; .param .align 16 .b8 swapped[16];
    st.param.v2.b64 [given], {%A, %B};
    call (swapped), swap, (given);
    ld.param.b64 %D, [swapped+8]; ld.param.b64 %C, [swapped+0]; }
  sub.u64 %D, %D, %C;"""
    inputs = integer_inputs(12)
    assert run(functions, body, inputs) == [int(a) - int(b) & U64 for a, b, _ in inputs]


@pytest.mark.parametrize(
    ("guard", "jumps"), [("", lambda b: True), ("@%P", lambda b: b < 1000), ("@!%P", lambda b: b >= 1000)]
)
def test_tables_of_branches(guard, jumps):
    body = f"""
  .reg .b32 %i; cvt.u32.u64 %i, %A; and.b32 %i, %i, 3;
  setp.lt.u64 %P, %B, 1000;
  mov.u64 %D, 1;
  Table: .branchtargets Zero, One, Two, One;
  {guard} brx.idx %i, Table;
  mov.u64 %D, 2; bra Out;
  Zero: mov.u64 %D, 10; bra Out;
  One: mov.u64 %D, 11; bra Out;
  Two: mov.u64 %D, 12;
  Out:"""
    inputs = integer_inputs(13)
    assert run("", body, inputs) == [[10, 11, 12, 11][int(a) & 3] if jumps(b) else 2 for a, b, _ in inputs]


@pytest.mark.parametrize(("guard", "beyond"), [("", 4), ("@%P", 1 << 31)])
def test_a_branch_beyond_its_table_is_an_error(guard, beyond):
    body = f"""
  .reg .b32 %i; rem.u32 %i, %t, 4; setp.eq.u32 %P, %t, 9; @%P mov.u32 %i, {{}};
  Table: .branchtargets Zero, One, Two, One;
  {guard} brx.idx.uni %i, Table;
  Zero: One: Two: mov.u64 %D, 1;"""
    assert run("", body.format(3), integer_inputs(15)) == [1] * LANES
    words = rf"CTA 0, thread 9, executed `brx\.idx\.uni` \(PTX line 16\) with index {beyond}.*has 4 targets"
    with pytest.raises(UndefinedBranch, match=words) as raised:
        run("", body.format(beyond), integer_inputs(15))
    assert raised.value.threads == "CTA 0, thread 9"


def test_an_index_beyond_the_table_where_nobody_branches_is_none():
    body = ".reg .b32 %i; mov.u32 %i, 1; setp.ne.u32 %P, %i, 1; Table: .branchtargets Zero; @%P brx.idx %i, Table;"
    assert run("", body + " Zero: mov.u64 %D, 1;", integer_inputs(15)) == [1] * LANES


def test_a_pointer_parameter_says_where_it_points():
    functions = """
.func (.param .b64 loaded) fetch (.param .u64 .ptr .global .align 8 place)
{
  .reg .b64 %p;
  ld.param.u64 %p, [place]; ld.global.u64 %p, [%p]; st.param.b64 [loaded], %p;
}
"""
    body = """{ .param .b64 place; .param .b64 loaded; st.param.b64 [place], %p;
    call (loaded), fetch, (place); ld.param.b64 %D, [loaded]; }"""
    inputs = integer_inputs(14)
    assert run(functions, body, inputs) == inputs[:, 0].tolist()


def test_recursion_is_refused():
    functions = ".func (.reg .b64 %r) f (.reg .b64 %x) { call (%r), f, (%x); ret; }"
    with pytest.raises(UnsupportedInstruction, match=r"PTX line 5: f calls itself.*write the recursion as a loop"):
        run(functions, "call (%D), f, (%A);", integer_inputs())


def test_recursion_is_refused_only_where_it_is_reached():
    module = (
        HEADER
        + """
.func f () { call f; ret; }
.visible .entry calls() { call f; ret; }
.visible .entry leaves_it() { bar.sync 0; ret; }
"""
    )
    device = Device(memory_bytes=1 << 20)
    device.launch(device.load(module, entry="leaves_it"), (1,), (32,), [])
    with pytest.raises(UnsupportedInstruction, match=r"f calls itself"):
        device.load(module, entry="calls")


def test_calls_that_multiply_without_end_are_refused():
    functions = ".func f0 () { .reg .b32 %x; mov.u32 %x, 1; ret; }\n"
    functions += "".join(f".func f{i} () {{ {f'call f{i - 1};' * 20} ret; }}\n" for i in range(1, 7))
    with pytest.raises(UnsupportedInstruction, match="once its calls are expanded"):
        run(functions, "call f6; mov.u64 %D, 0;", integer_inputs())


def test_calls_within_calls_are_expanded_up_to_a_depth():
    functions = "".join(
        f".func (.reg .b64 %r) f{i} (.reg .b64 %x) {{ add.u64 %x, %x, 1; call (%r), f{i - 1}, (%x); ret; }}\n"
        for i in range(1, 400)
    )
    functions = ".func (.reg .b64 %r) f0 (.reg .b64 %x) { mov.u64 %r, %x; ret; }\n" + functions
    inputs = integer_inputs()
    assert run(functions, "call (%D), f63, (%A);", inputs) == (inputs[:, 0] + np.uint64(63)).tolist()
    for deeper in (64, 399):
        with pytest.raises(UnsupportedInstruction, match=r"the call of f\d+ stands in 64 calls within each other"):
            run(functions, f"call (%D), f{deeper}, (%A);", inputs)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("call (%D), distance, (%A);", "another number of arguments"),
        ("call (%D) distance;", "cannot parse the call"),
        ("brx.idx %t, Nowhere;", "no .branchtargets 'Nowhere'"),
        (".param .b33 x;", "unknown type .b33"),
    ],
)
def test_wrong_calls(body, message):
    with pytest.raises(PtxSyntaxError, match=message):
        run(REGISTERS, body + " mov.u64 %D, 0;", integer_inputs())


def test_a_call_of_a_function_without_a_body_is_not_emulated():
    functions = ".extern .func (.param .b32 result) elsewhere (.param .b64 x);"
    body = "setp.eq.u64 %P, %A, %B; @%P call (_), elsewhere, (%A); mov.u64 %D, 1;"
    inputs = integer_inputs()
    message = (
        r"threads 0-9.*`call \(_\), elsewhere, \(%A\)` \(PTX line \d+\): the module declares this function and does"
    )
    with pytest.raises(UnsupportedInstruction, match=message):
        run(functions, body, inputs)
    inputs[:, 1] = inputs[:, 0] + np.uint64(1)
    assert run(functions, body, inputs) == [1] * LANES


def test_a_failed_assertion_traps():
    source = """
    #include <cassert>
    extern "C" __global__ void check(int* out, int limit) { assert(threadIdx.x < limit); out[threadIdx.x] = 1; }
    """.replace(
        "#include <cassert>",
        """
    extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
    #define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, "check", 1))""",
    )
    device = Device(memory_bytes=1 << 20)
    loaded = device.load(compile_ptx(source))
    out = device.allocate(128)
    device.launch(loaded, (1,), (32,), [out, 32])
    assert (device.read(out, 128).view(np.int32) == 1).all()
    message = r"^assertion `threadIdx\.x < limit` failed in check at test\.cu:\d: CTA 0, threads 30-31, .*__assertfail"
    with pytest.raises(KernelTrap, match=message):
        device.launch(loaded, (1,), (32,), [out, 30])


@pytest.mark.parametrize(
    ("argument", "said"),
    [('"say \\n 你"', "say ? 你"), ("(const char*)5", "?"), ("(const char*)out", "\ufffd??"), ("LONG", "x" * 200)],
)
def test_whatever_an_assertion_points_to(argument, said):
    source = """
    extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
    extern "C" __global__ void check(int* out) { __assertfail(MESSAGE, "a.cu", 7, "f", 1); }
    """.replace("MESSAGE", argument.replace("LONG", f'"{"x" * 300}"'))
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(KernelTrap) as raised:
        device.launch(device.load(compile_ptx(source)), 1, 1, [device.upload(np.array([0x80, 1, 2], np.uint8))])
    assert str(raised.value).startswith(f"assertion `{said}` failed in f at a.cu:7: CTA 0, thread 0")


PRINTS = r"""
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void print(double x, const char* bad) {
  if (threadIdx.x == 0) printf("start\n");
  if (threadIdx.x < 2)
    printf("%d|%5u|%-6x|%08.3f|%s|%.2s|%c|%lld|%p|%5.1e|%%|%hhd|%hu|%*d|%-*d|%.*f|%g|%i|%zu|%lu|%+d|%#o|%5.3d\n",
           -3, 7u, 255, x, "text", "long", 'A', 1LL << 40, (void*)0x10, 12345.678, 300, 65537, 6, 42, -4, 1, 2,
           3.14159, 0.1f, threadIdx.x, (size_t)9, 5ul, 4, 8, 7);
  if (threadIdx.x == 31) printf("%s %d", bad);
}
"""


def test_what_threads_print_is_what_c_prints():
    values = "-3|    7|ff    |0001.500|text|lo|A|1099511627776|0x10|1.2e+04|%|44|1|    42|1   |"
    values += "3.14|0.1|{}|9|5|+4|010|  007\n"
    said = []
    device = Device(memory_bytes=1 << 20, printed=said.append)
    kernel = device.load(compile_ptx(PRINTS))
    for address in (0, device.upload(np.frombuffer(b"no end", np.uint8))):
        device.launch(kernel, 1, 32, [1.5, address])
    first, second = (said[start : start + 4] for start in (0, 4))
    assert first[:3] == ["start\n", values.format(0), values.format(1)]
    assert first[3].startswith("? ")
    assert second[3].startswith("no end ")


def test_what_threads_print_goes_to_stdout(capsys):
    device = Device(memory_bytes=1 << 20)
    device.launch(device.load(compile_ptx(PRINTS)), 1, 1, [1.5, 0])
    assert capsys.readouterr().out.startswith("start\n-3|")


def test_memory_of_the_device_runtime_is_not_emulated():
    source = """
    extern "C" __global__ void list(int** out) {
      if (out[1]) out[0] = (int*)malloc(4 * threadIdx.x + 4);
    }
    """
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(source))
    device.launch(kernel, 1, 1, [device.upload(np.zeros(2, np.int64))])
    with pytest.raises(UnsupportedInstruction, match=r"malloc.*functions of the device's runtime, such as malloc"):
        device.launch(kernel, 1, 1, [device.upload(np.ones(2, np.int64))])
