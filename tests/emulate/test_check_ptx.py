"""`tilewright check FILE.ptx`: kernels of others, what is counted and what is reported."""

import re

import pytest

from support.commands import error, in_json, invoke
from support.sources import LOAD_TILE, PTX_WRAPPERS, SCALE, TRANSPOSE
from tilewright.emulator.checks.reporting.rules import ERRORS

LAUNCH = ("--grid", "2,2", "--block", "32x32", "--arg", "out=f32[64,64]", "--arg", "f32[64,64]:random",
          "--arg", 64, "--arg", 2.0)  # fmt: skip


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
    assert difference in rules["ScheduleDependence"]["message"]
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
    assert re.search(r"past the end of the allocation of 256 bytes at 0x7[0-9a-f]+ \(arg1\)$", report["message"])


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
    assert "pending arrivals 1 of 2" in report["message"]
    assert report["schedules"] == ["eager", "lazy"]
    assert report["locations"]
    assert report["threads"] == "CTA 0, warps 0-1"
    assert (report["rule"], report["section"]) == (ERRORS["Deadlock"].sentence, ERRORS["Deadlock"].section)


@pytest.mark.parametrize(
    ("statement", "kind", "thread", "offset"),
    [
        ("out[threadIdx.x + 60 * (threadIdx.x == 40)] = 1;", "OutOfBounds", 40, 400),
        ("if (threadIdx.x > 7) *(float*)((char*)out + 4 * threadIdx.x + (threadIdx.x == 9)) = 1;", "Misaligned", 9, 37),
    ],
)
def test_an_error_names_its_thread_address_and_rule(ptx, statement, kind, thread, offset):
    path = ptx(f'extern "C" __global__ void wrong(float* out) {{ {statement} }}')
    record = in_json("check", path, "--block", 64, "--arg", "out=f32[64]", "--schedules", 0, code=1)
    (report,) = record["reports"]
    assert (report["kind"], report["threads"]) == (kind, f"CTA 0, thread {thread}")
    assert report["address"] % 256 == offset % 256
    assert (report["rule"], report["section"]) == (ERRORS[kind].sentence, ERRORS[kind].section)
    assert f"address {report['address']:#x}" in report["message"]
    text = invoke("check", path, "--block", 64, "--arg", "out=f32[64]", "--schedules", 0, code=1).stdout
    assert re.search(
        rf"^    at `st\.\S+` at test\.cu:1 \(PTX line \d+\), by CTA 0, thread {thread}$", text, re.MULTILINE
    )


def test_lines_without_memory_accesses_are_shown_where_there_are_no_others(ptx):
    path = ptx('extern "C" __global__ void wrong(float* out) {\n  out[threadIdx.x] = 1;\n}')
    text = invoke("check", path, "--block", 64, "--arg", "ptr:null", "--schedules", 0, code=1).stdout
    assert re.search(r"^ +warp\n +line +instr\n(  test\.cu:\d +\d+\n)+\Z", text, re.MULTILINE)
    assert "other line" not in text


@pytest.mark.planted_fault
def test_without_line_information_reports_name_lines_of_the_ptx(ptx):
    path = ptx(SCALE)
    text = "\n".join("" if line.strip().startswith(".loc") else line for line in path.read_text().splitlines())
    path.write_text(text)
    options = (
        "--entry",
        "scale",
        "--block",
        128,
        "--arg",
        "f32[64]",
        "--arg",
        2.0,
        "--shared-bytes",
        512,
        "--schedules",
        0,
    )
    (report,) = in_json("check", path, *options, code=1)["reports"]
    number = next(number for number, line in enumerate(text.splitlines(), 1) if "st.global" in line)
    assert report["kind"] == "OutOfBounds"
    assert report["locations"] == [f"`st.global.f32` (PTX line {number})"]
    clean = invoke("check", path, *options[:4], "--arg", "f32[128]", *options[6:]).stdout
    assert clean.endswith("-lineinfo for those of the source\n")


def test_tensor_maps(ptx):
    path = ptx(LOAD_TILE)
    for tensor_map in (
        "tensormap(a=bf16[12,128]:random, box=[8,64], swizzle=128)",
        "tensormap(a,box=[8,64],swizzle=128)",
    ):
        array = "ptr:a" if "random" in tensor_map else "a=bf16[12,128]:random"
        arguments = ("--block", 512, "--arg", tensor_map, "--arg", array, "--arg", "wrong=s32[1]:0", "--schedules", 0)
        record = in_json("check", path, *arguments)
        assert record["counters"]["totals"]["tma_loaded_bytes"] == 1024
        assert record["counters"]["totals"]["tma_read_bytes"] == 1024
        assert "global_requests" in record["counters"]["totals"]
        assert "st" not in record["counters"]["totals"]["global_requests"]  # nothing was wrong


def test_a_part_of_a_name_chooses_the_entry(ptx):
    source = "template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= 2; }"
    source += "template __global__ void scale(float*); template __global__ void scale(double*);"
    path = ptx(source)
    record = in_json("check", path, "--entry", "If", "--block", 32, "--arg", "f32[32]:1", "--schedules", 0)
    assert record["kernel"] == "_Z5scaleIfEvPT_"
    message = error("check", path, "--entry", "scale", "--block", 32)
    assert "--entry scale names several of them" in message
    assert "\n  scale<float>\n  scale<double>\n" in message


MANY = """
.version 8.5
.target sm_80
.address_size 64
.visible .entry many(.param .u64 out) {{
  .reg .b32 %t, %none; .reg .b64 %p;
  .shared .align 4 .b8 tile[4096];
  mov.u32 %t, %tid.x;
  ld.param.u64 %p, [out];
  {races}
  mad.wide.u32 %p, %t, 4, %p;
  st.global.u32 [%p], %none;
  ret;
}}
"""
RACES = "\n".join(f"st.shared.u32 [tile+{4 * place}], %t;" for place in range(1000))


@pytest.mark.planted_fault
def test_many_faults_of_one_kind_do_not_hide_another(tmp_path):
    """Without line information, each instruction has a line of its own."""
    path = tmp_path / "many.ptx"
    path.write_text(MANY.format(races=RACES))
    arguments = ("--block", 32, "--arg", "u32[32]", "--schedules", 0)
    record = in_json("check", path, *arguments, code=1)
    kinds = [report["kind"] for report in record["reports"]]
    assert kinds == ["race"] * 100 + ["uninitialized-register"]
    assert record["unlisted"] == {"race": 900}
    text = invoke("check", path, *arguments, code=1).stdout
    assert "1001 reports" in text
    assert "race: and 900 more on other lines" in text


@pytest.mark.planted_fault
def test_faults_on_the_same_lines_are_counted(ptx):
    source = """
    extern "C" __global__ void unrolled(int* out) {
      __shared__ int tile[64];
      #pragma unroll
      for (int i = 0; i < 8; i++)
        asm volatile("st.shared.u32 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(tile + i)), "r"(threadIdx.x));
      __syncthreads();
      out[threadIdx.x] = tile[threadIdx.x % 8];
    }
    """
    arguments = ("--block", 32, "--arg", "s32[32]", "--schedules", 0)
    (report,) = in_json("check", ptx(source), *arguments, code=1)["reports"]
    assert (report["kind"], report["more"]) == ("race", 7)
    assert "and 7 more like it on these lines" in invoke("check", ptx(source), *arguments, code=1).stdout


def test_many_schedules_are_counted(ptx):
    path = ptx('extern "C" __global__ void wrong(float* out) { out[threadIdx.x] = 1; }')
    shown = invoke("check", path, "--block", 32, "--arg", "f32[1]", "--schedules", 20, "--no-lines", code=1).stdout
    said = "eager, lazy, random(0), random(1), random(2), random(3) and 16 more"
    assert f"under {said}: 1 report\n" in shown
    assert f"OutOfBounds ({said}): " in shown
