"""`tilewright check FILE.ptx`: kernels of others, with arguments that the command line describes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.nvrtc import compile_ptx
from emulate.test_emulator_async import PTX_WRAPPERS
from host.test_cli import error, in_json, invoke
from tilewright.cli.check_arguments import parse_arguments
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
        ((), ["entry is None", "scale, nothing"]),
        (("--entry", "other"), ["'other'", "scale, nothing"]),
        (("--entry", "scale", "--block", 128, *OUT), ["given 1 times", "scale_param_0 (8 bytes), scale_param_1 (4"]),
        (("--entry", "scale", *OUT, *FACTOR), ["--block is missing"]),
        (("--entry", "scale", "--block", "12x", *OUT, *FACTOR), ["--block='12x'", "positive numbers"]),
        (("--entry", "scale", "--block", 256, *OUT, *FACTOR), ["at most 128 threads"]),
        (("--entry", "scale", "--block", 128, "--smem", 300000, *OUT, *FACTOR), ["bytes of shared memory"]),
        (("--entry", "scale", "--block", 128, *OUT, "--arg", "f64:1"), ["args[1] has 8 bytes", "has 4"]),
        (("--entry", "nothing", "--block", 1, "--grid", "1,70000"), ["above the limits"]),
        (("--entry", "scale", "--block", 128, "--arg", "u8[1000000,1000000]", *FACTOR), ["1,000.0 GB", "smaller"]),
        (("--entry", "scale", "--block", 128, *OUT, "--arg", "f32[1]:none.npy"), ["none.npy cannot be loaded"]),
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
