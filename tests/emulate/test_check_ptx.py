"""`tilewright check FILE.ptx`: kernels of others, with arguments that the command line describes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.nvrtc import compile_ptx
from emulate.test_emulator_async import PTX_WRAPPERS
from host.test_cli import error, in_json, invoke
from tilewright.cli.check_arguments import parse_arguments
from tilewright.cli.check_parameters import fit
from tilewright.cli.time_limit import TimeLimit
from tilewright.emulator import Device

TRANSPOSE = """
extern "C" __global__ void transpose(float* out, const float* in, int n, float scale) {
  __shared__ float tile[32][32 + PAD];
  int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 32, j = blockIdx.y * 32;
  tile[y][x] = scale * in[(j + y) * n + i + x];
  BARRIER;
  out[(i + y) * n + j + x] = tile[x][y];
}
"""
LAUNCH = ("--grid", "2,2", "--block", "32x32", "--arg", "out=f32[64,64]", "--arg", "f32[64,64]:random",
          "--arg", 64, "--arg", 2.0)  # fmt: skip


@pytest.fixture
def ptx(tmp_path):
    """Compiles a source to a file and returns its path."""

    def compiled(source, *options):
        path = tmp_path / "kernel.ptx"
        path.write_text(compile_ptx(source, "sm_90a", *options))
        return path

    return compiled


def test_a_correct_kernel_is_clean_and_counted_per_line(ptx):
    path = ptx(TRANSPOSE, "-DBARRIER=__syncthreads()", "-DPAD=1")
    record = in_json("check", path, *LAUNCH, "--schedules", 1)
    assert record["kernel"] == "transpose"
    assert record["verified"] is True
    assert record["reports"] == []
    assert record["schedules"] == ["eager", "lazy", "random(0)"]
    totals, by_line = record["counters"]["totals"], record["counters"]["by_line"]
    assert totals["global_sectors"] == {"ld": 512, "st": 512}
    assert totals["shared_conflicts"] == {"ld": 0, "st": 0}
    assert by_line["test.cu:7"]["shared_wavefronts"] == {"ld": 128}
    assert by_line["test.cu:5"]["sectors_per_request"] == {"ld": 4.0}
    text = invoke("check", path, *LAUNCH, "--schedules", 0).stdout
    assert "transpose kernel.ptx under eager, lazy: clean" in text
    assert "test.cu:7" in text
    assert "test.cu:7" not in invoke("check", path, *LAUNCH, "--schedules", 0, "--no-lines").stdout


@pytest.mark.planted_fault
def test_a_missing_barrier_is_a_race_between_two_lines(ptx):
    path = ptx(TRANSPOSE, "-DBARRIER=", "-DPAD=0")
    record = in_json("check", path, *LAUNCH, "--schedules", 1, code=1)
    assert record["verified"] is False
    (report,) = record["reports"]
    assert report["kind"] == "race"
    assert report["schedules"] == ["eager", "lazy", "random(0)"]
    assert [place.split(" at ")[1].split()[0] for place in report["locations"]] == ["test.cu:7", "test.cu:5"]
    assert "barrier" in report["rule"]
    assert record["counters"]["by_line"]["test.cu:7"]["shared_conflicts"] == {"ld": 128 * 31}
    text = invoke("check", path, *LAUNCH, "--schedules", 0, code=1).stdout
    assert "1 report" in text
    assert "rule: two accesses" in text
    (first, second) = [line for line in text.splitlines() if line.startswith("    at ")]
    assert first == f"    at {report['locations'][0]}, by {report['threads']}"
    assert second == f"    at {report['locations'][1]}"


@pytest.mark.planted_fault
def test_a_result_that_depends_on_the_schedule_is_reported(ptx):
    source = """
    extern "C" __global__ void copy(float* out, const float* in) {
      __shared__ __align__(16) float tile[128];
      tile[threadIdx.x] = 0;
      unsigned to = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(in + threadIdx.x) : "memory");
      out[threadIdx.x] = tile[threadIdx.x];
    }
    """
    arguments = ("--block", 128, "--arg", "out=f32[128]", "--arg", "f32[128]:ones", "--schedules", 0)
    record = in_json("check", ptx(source), *arguments, code=1)
    rules = {report["kind"]: report for report in record["reports"]}
    assert rules["ScheduleDependence"]["schedules"] == ["lazy"]
    difference = "out differs from that of eager in 128 of 128 elements, first at (0,), 0.0 instead of 1.0"
    assert difference in rules["ScheduleDependence"]["rule"]
    assert "eager" in rules["read-before-wait"]["schedules"]
    assert rules["ScheduleDependence"].keys() == rules["read-before-wait"].keys()


@pytest.mark.planted_fault
def test_reports_name_arrays_and_state_each_rule_once(ptx):
    source = """
    extern "C" __global__ void shift(float* out, const float* in) {
      out[threadIdx.x + 1] = in[threadIdx.x];
      out[threadIdx.x] = out[threadIdx.x + 2];
    }
    """
    path, arguments = ptx(source), ("--block", 64, "--arg", "out=f32[80]", "--arg", "f32[64]:random", "--schedules", 0)
    record = in_json("check", path, *arguments, code=1)
    messages = [report["message"] for report in record["reports"]]
    assert len(messages) > 1
    assert all(re.search(r"address 0x7[0-9a-f]+ \(out \+ \d+\), which", message) for message in messages)
    assert invoke("check", path, *arguments, code=1).stdout.count("rule: two accesses") == 1
    (report,) = in_json("check", path, "--block", 96, *arguments[2:], code=1)["reports"][-1:]
    assert re.search(r"past the end of the allocation of 256 bytes at 0x7[0-9a-f]+ \(arg1\)$", report["rule"])


@pytest.mark.planted_fault
def test_a_deadlock_is_a_report(ptx):
    source = (
        PTX_WRAPPERS
        + """
    extern "C" __global__ void wait(int* out) {
      __shared__ __align__(8) unsigned long long barrier;
      if (threadIdx.x == 0) mbarrier_init(shared_address(&barrier), 2);
      __syncthreads();
      if (threadIdx.x == 0) mbarrier_arrive(shared_address(&barrier));
      mbarrier_wait(shared_address(&barrier), 0);
      out[0] = 1;
    }
    """
    )
    record = in_json("check", ptx(source), "--block", 64, "--arg", "s32[1]", "--schedules", 0, code=1)
    (report,) = [report for report in record["reports"] if report["kind"] == "Deadlock"]
    assert "pending arrivals 1 of 2" in report["rule"]
    assert report["schedules"] == ["eager", "lazy"]
    assert report["locations"]


@pytest.mark.planted_fault
def test_without_line_information_reports_name_lines_of_the_ptx(ptx):
    path = ptx(SCALE)
    text = "\n".join("" if line.strip().startswith(".loc") else line for line in path.read_text().splitlines())
    path.write_text(text)
    options = ("--entry", "scale", "--block", 128, "--arg", "f32[64]", *FACTOR, "--smem", 512, "--schedules", 0)
    (report,) = in_json("check", path, *options, code=1)["reports"]
    number = next(number for number, line in enumerate(text.splitlines(), 1) if "st.global" in line)
    assert report["kind"] == "OutOfBounds"
    assert report["locations"] == [f"PTX:{number}"]
    clean = invoke("check", path, *options[:4], "--arg", "f32[128]", *options[6:]).stdout
    assert clean.endswith("-lineinfo for those of the source\n")


def test_tensor_maps(ptx):
    source = (
        PTX_WRAPPERS
        + """
    extern "C" __global__ void load(const __grid_constant__ TensorMap map, const unsigned short* in, int* wrong) {
      __shared__ __align__(1024) unsigned short tile[8 * 64];
      __shared__ __align__(8) unsigned long long barrier;
      unsigned b = shared_address(&barrier);
      if (threadIdx.x == 0) {
        mbarrier_init(b, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        mbarrier_expect(b, 1024);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%3, %4}], [%2];"
                     :: "r"(shared_address(tile)), "l"(&map), "r"(b), "r"(64), "r"(8) : "memory");
      }
      __syncthreads();
      mbarrier_wait(b, 0);
      int row = threadIdx.x / 64, column = threadIdx.x % 64;
      int chunk = column / 8 ^ row;
      int expected = row + 8 < 12 ? in[(row + 8) * 128 + 64 + column] : 0;
      if (tile[row * 64 + chunk * 8 + column % 8] != expected) *wrong = 1;
    }
    """
    )
    path = ptx(source)
    for tensor_map in (
        "tensormap(a=bf16[12,128]:random, box=[8,64], swizzle=128)",
        "tensormap(a,box=[8,64],swizzle=128)",
    ):
        array = "ptr:a" if "random" in tensor_map else "a=bf16[12,128]:random"
        arguments = ("--block", 512, "--arg", tensor_map, "--arg", array, "--arg", "wrong=s32[1]:0", "--schedules", 0)
        record = in_json("check", path, *arguments)
        assert record["counters"]["totals"]["tma_loaded_bytes"] == 1024
        assert record["counters"]["totals"]["tma_read_bytes"] == 512
        assert "global_requests" in record["counters"]["totals"]
        assert "st" not in record["counters"]["totals"]["global_requests"]  # nothing was wrong


def test_arguments_reach_the_kernel(tmp_path):
    np.save(tmp_path / "a.npy", np.float32([[1, 2], [3, 4]]))
    texts = ["5", "-3", "0x10", "1.5", "bf16:1.5", "u8:255", "ptr:null", "bytes:0aff", "f32[2]", "x=s16[2,3]:arange",
             "ptr:x", "ptr:x+4", f"f32[2,2]:{tmp_path}/a.npy", "u8[4]:7", "e4m3[2]:ones", "f64[3]:zeros"]  # fmt: skip
    arguments = parse_arguments(texts)
    arrays = arguments.initial(0)
    assert list(arrays) == ["arg8", "x", "arg12", "arg13", "arg14", "arg15"]
    assert np.isnan(arrays["arg8"]).all()
    assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["arg12"].tolist() == [[1, 2], [3, 4]]
    assert arrays["arg13"].tolist() == [7] * 4
    assert arrays["arg14"].astype(float).tolist() == [1, 1]
    assert arrays["arg15"].tolist() == [0] * 3
    device = Device(memory_bytes=1 << 16)
    addresses = {name: device.upload(array) for name, array in arrays.items()}
    values = arguments.values(device, addresses)
    assert values[:4] == [5, -3, 16, 1.5]
    assert [value.tobytes() for value in values[4:6]] == [b"\xc0\x3f", b"\xff"]
    assert values[6:8] == [0, b"\x0a\xff"]
    assert values[8:12] == [addresses["arg8"], addresses["x"], addresses["x"], addresses["x"] + 4]


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="abfstu 0123489xe.,:=+-[]()") | st.from_regex(r"\A(tensormap\()?a?=?[fsu](8|16|32)\[\d?,?\d\].*\Z")
)
def test_any_other_text_is_refused_by_name(text):
    refusal = "--arg"
    try:
        parse_arguments([text])
    except ValueError as error:  # anything else is a defect
        refusal = str(error)
    assert refusal.startswith("--arg")


def test_random_values_depend_on_the_seed_alone():
    first, again, other = (parse_arguments(["f32[9]:random", "f32[9]:random"]).initial(seed) for seed in (1, 1, 2))
    assert first["arg0"].tobytes() == again["arg0"].tobytes()
    assert first["arg0"].tobytes() != other["arg0"].tobytes()
    assert first["arg0"].tobytes() != first["arg1"].tobytes()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["five"], "--arg 'five': write 5, f32:1.5, f32"),
        (["f31:1"], "'f31' is not an element type: use one of f16, bf16"),
        (["f31[2]"], "'f31' is not an element type"),
        (["f32[2,0]"], r"\[2,0\] must be positive numbers"),
        (["f32[]"], r"\[\] must be positive numbers"),
        (["u8:256"], "256 does not fit uint8, which holds 0 to 255"),
        (["u8:1.5"], "'1.5' is not an integer"),
        (["f32[2]:rand"], "'rand' is not a number, nor one of random, zeros"),
        (["ptr:out"], "no array is named 'out': there are none"),
        (["a=f32[2]", "a=f32[2]"], "the name 'a' is taken"),
        (["tensormap(a, swizzle=128)"], r"write tensormap\(ARRAY, box=\[64,64\]"),
        (["tensormap(a=f32[8,8], box=[8,8], swizzle=big)"], "swizzle=big must be"),
        (["tensormap(b, box=[8,8])", "a=f32[2]"], "no array is named 'b': there are a"),
        (["bytes:0g"], "--arg 'bytes:0g'"),
    ],
)
def test_arguments_that_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments(texts)


SCALE = """
extern "C" __global__ void __launch_bounds__(128) scale(float* out, float factor) {
  extern __shared__ float shared[];
  shared[threadIdx.x] = factor;
  out[threadIdx.x] = shared[threadIdx.x];
}
extern "C" __global__ void nothing() {}
"""
OUT = ("--arg", "f32[128]")
FACTOR = ("--arg", "2.0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["kernel.ptx has 2 entries", "--entry NAME", "\n  scale\n  nothing\n"]),
        (("--entry", "other"), ["--entry other names none of them", "\n  scale\n  nothing\n"]),
        (("--entry", "scale", "--block", 128, *OUT), ["given once", ".u64 scale_param_0", ".f32 scale_param_1"]),
        (("--entry", "scale", *OUT, *FACTOR), ["--block is missing"]),
        (("--entry", "scale", "--block", "12x", *OUT, *FACTOR), ["--block='12x'", "positive numbers"]),
        (("--entry", "scale", "--block", 256, *OUT, *FACTOR), ["at most 128 threads"]),
        (("--entry", "scale", "--block", 128, "--smem", 300000, *OUT, *FACTOR), ["bytes of shared memory"]),
        (("--entry", "scale", "--block", 128, *OUT, "--arg", "f64:1"), ["'f64:1'", ".f32 scale_param_1", "1.5"]),
        (("--entry", "scale", "--block", 128, *OUT, *OUT), ["parameter 2 of scale", ".f32 scale_param_1", "1.5"]),
        (
            ("--entry", "scale", "--block", 128, "--arg", 1.5, *FACTOR),
            ["--arg '1.5'", ".u64 scale_param_0", "ptr:NAME"],
        ),
        (("--entry", "nothing", "--block", 1, *OUT), ["given once", "takes no arguments"]),
        (("--entry", "nothing", "--block", 1, "--grid", "1,70000"), ["above the limits"]),
        (("--entry", "scale", "--block", 128, "--arg", "u8[1000000,1000000]", *FACTOR), ["1,000.0 GB", "smaller"]),
        (("--entry", "scale", "--block", 128, "--arg", "f32[1]:none.npy", *FACTOR), ["none.npy cannot be loaded"]),
    ],
)
def test_launches_that_are_refused(ptx, options, words):
    message = error("check", ptx(SCALE), *options)
    assert message.startswith("tilewright: ")
    assert all(word in message for word in words)


def test_too_little_shared_memory_is_reported_with_the_remedy(ptx):
    options = ("--entry", "scale", "--block", 128, *OUT, *FACTOR, "--schedules", 0)
    assert in_json("check", ptx(SCALE), *options, "--smem", 512)["verified"] is True
    (report,) = in_json("check", ptx(SCALE), *options, "--smem", 256, code=1)["reports"]
    assert report["kind"] == "OutOfBounds"
    assert "outside the 256 bytes" in report["rule"]
    assert "as much dynamic shared memory as it needs" in report["rule"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"int main() {}", ["PTX line 1", "'int main() {}'", ".version"]),
        (b"", ["is empty", "nvcc -ptx"]),
        (b".version 8.0\n.target sm_80\n.address_size 64\n", ["has no entry"]),
        (b"\x7fELF\xff\xfe", ["is not text", "cuobjdump"]),
        (b".version 12.0\n.target sm_90\n", [".version 12.0 is unknown"]),
        (b".version 8.0\n.target sm_20\n", [".target sm_20 is unknown"]),
        (b".version 8.0\n.target sm_80\n.address_size 64\n.entry e() { frob.u32; ret; }", ["frob", "PTX line 4"]),
    ],
)
def test_files_that_are_refused(tmp_path, content, words):
    path = tmp_path / "kernel.ptx"
    path.write_bytes(content)
    message = error("check", path, "--block", 1)
    assert all(word in message for word in words)


def test_a_directory_is_refused(tmp_path):
    assert "cannot be read: Is a directory" in error("check", tmp_path, "--block", 1)


def test_a_part_of_a_name_chooses_the_entry(ptx):
    source = "template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= 2; }"
    source += "template __global__ void scale(float*); template __global__ void scale(double*);"
    path = ptx(source)
    record = in_json("check", path, "--entry", "If", "--block", 32, "--arg", "f32[32]:1", "--schedules", 0)
    assert record["kernel"] == "_Z5scaleIfEvPT_"
    message = error("check", path, "--entry", "scale", "--block", 32)
    assert "--entry scale names several of them" in message
    assert "\n  _Z5scaleIfEvPT_\n  _Z5scaleIdEvPT_\n" in message


STRUCTURE = """
struct Pair { int count; float factor; long long rest; };
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void take(unsigned long long p, unsigned n, float f, double d, unsigned char c, Pair pair,
                                unsigned short half, Map map) {}
"""


def test_arguments_take_the_types_of_their_parameters(ptx):
    kernel = Device().load(ptx(STRUCTURE).read_text())
    fitting = ["f32[4]", "-1", "3", "4", "255", "bytes:" + "00" * 16, "f16:1.5", "tensormap(a=f32[8,8], box=[8,8])"]
    arguments = parse_arguments(fitting)
    fit(arguments, fitting, kernel)
    assert arguments.items[1:5] == [-1, 3.0, 4.0, 255]
    assert [type(item) for item in arguments.items[1:5]] == [int, float, float, int]
    wrong = [(0, "1.5", "ptr:NAME or an integer"), (0, "f32:1", "ptr:NAME"), (1, "f32[4]", "a 4-byte integer"),
             (1, "4294967296", "a 4-byte integer"), (2, "f32[4]", "a number such as 1.5"), (2, "f64:1", "a number"),
             (3, "f32:1", "a number"),
             (4, "256", "a 1-byte integer"), (5, "bytes:00", "bytes:HEX of 16 bytes"), (5, "5", "bytes:HEX of 16"),
             (6, "1.5", "a 2-byte integer"), (7, "f32[4]", "tensormap"), (0, "tensormap(b=f32[8,8], box=[8,8])", "ptr"),
             ]  # fmt: skip
    for number, text, taken in wrong:
        texts = [*fitting[:number], text, *fitting[number + 1 :]]
        declared = rf"parameter {number + 1} of take, \.\w+ take_param_{number}"
        with pytest.raises(ValueError, match=rf"^--arg '{re.escape(text)}': {declared}.*, takes .*{taken}"):
            fit(parse_arguments(texts), texts, kernel)


@pytest.mark.planted_fault
def test_a_launch_that_takes_too_long_ends_with_the_estimate_and_what_was_found(ptx, monkeypatch):
    path = ptx(TRANSPOSE, "-DBARRIER=", "-DPAD=1")
    arguments = ("--grid", "1,2000", "--block", "32,32", "--arg", "f32[64000,32]", "--arg", "f32[32,64000]",
                 "--arg", 32, "--arg", 1)  # fmt: skip
    monkeypatch.setattr("tilewright.cli.time_limit.TimeLimit.__call__", ends_with(TimeoutError("too long")))
    record = in_json("check", path, *arguments, code=1)
    assert record["verified"] is False
    assert record["error"].startswith("too long")
    assert [report["kind"] for report in record["reports"]] == ["race"]
    assert record["schedules"] == ["eager"]
    assert "ended early, 1 report until then" in invoke("check", path, *arguments, code=1).stdout


def ends_with(exception):
    def limit(self, done):
        if done > 0:
            raise exception

    return limit


ENDLESS = """
extern "C" __global__ void endless(volatile int* out, int n) {
  for (int i = 0; i != n; i += 2)
    out[threadIdx.x] = i;
}
"""
NEVER = ("--block", 32, "--arg", "s32[32]", "--arg", 1)


def test_an_endless_kernel_ends_with_its_loop(ptx, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0")
    record = in_json("check", ptx(ENDLESS), *NEVER, code=2)
    assert record["verified"] is None
    for words in (
        "4 schedules of 1 CTA would",
        "set TILEWRIGHT_EMULATOR_SECONDS=",
        "does the kernel end?",
        "test.cu:4",
    ):
        assert words in record["error"]


def test_interrupting_shows_where_the_kernel_is(ptx, monkeypatch):
    def interrupt(self, done):
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.cli.time_limit.TimeLimit.__call__", interrupt)
    done = invoke("check", ptx(ENDLESS), *NEVER, code=130)
    assert "endless kernel.ptx under eager: ended early, nothing reported until then" in done.stdout
    assert "interrupted under eager, 0.0% of the check done\n  CTAs 0, warps 0 run" in done.stderr
    assert "test.cu:4" in done.stderr


def test_the_estimate_takes_what_runs_together_as_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tilewright.cli.time_limit.time.monotonic", lambda: now[0])
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "100")

    def ends(seconds, done, batch):
        now[0] = 0.0
        limit = TimeLimit("it", batch, "less")
        now[0] = seconds
        try:
            limit(done)
        except TimeoutError as error:
            return str(error)
        return None

    assert ends(1.9, 0.001, 0.001) is None  # compiling
    assert ends(3, 0.02, 0.011) is None
    refusal = ends(3, 0.02, 0.009)
    assert "it would take the emulator about 103 s, and it stops at 100 s: less, or set" in refusal
    assert "after 3 s 2.00% is done" in refusal
    assert ends(26, 0, 0.25)
    assert ends(90, 0.6, 0.1) is None  # nearly done, though late
    assert ends(201, 1.0, 0.1)
