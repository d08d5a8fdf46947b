"""Reports that are waived by kind, file and line: on the command line, in Python and on a Device; and warnings."""

import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.commands import error, in_json, invoke
from tilewright.emulator import Device
from tilewright.emulator.checks.reporting.waivers import waivers_of
from tilewright.errors import ArgumentTypeError, ArgumentValueError

SHIFT = """
extern "C" __global__ void shift(int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
  out[threadIdx.x ^ 32] = 7;
}
"""
LAUNCH = ("--block", 64, "--arg", "s32[64]", "--schedules", 0)
SHARED, GLOBAL = ["test.cu:5", "test.cu:4"], ["test.cu:6", "test.cu:5"]


def races(result):
    return [[place.split(" at ")[1].split()[0] for place in report["locations"]] for report in result["reports"]]


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("ignore", "left", "waived"),
    [
        ([], [SHARED, GLOBAL], {}),
        (["race"], [], {"race": 2}),
        (["race@test.cu"], [], {"race@test.cu": 2}),
        (["race@src/test.cu:4"], [GLOBAL], {"race@src/test.cu:4": 1}),
        (["race@test.cu:5"], [], {"race@test.cu:5": 2}),
        (["race@test.cu:6", "race@test.cu:4"], [], {"race@test.cu:6": 1, "race@test.cu:4": 1}),
        (["race@other.cu", "race@test.cu:14", "proxy-fence"], [SHARED, GLOBAL], {}),
    ],
)
def test_the_same_waivers_everywhere(ptx, tmp_path, ignore, left, waived):
    path = ptx(SHIFT)
    options = [text for waiver in ignore for text in ("--ignore", waiver)]
    record = in_json("check", path, *LAUNCH, *options, code=1 if left else 0)
    assert (races(record), record["waived"], record["verified"]) == (left, waived, not left)
    assert record["unused_waivers"] == [waiver for waiver in ignore if waiver not in waived]
    written = tmp_path / "waivers.txt"
    written.write_text("# accepted\n\n" + "".join(f"  {waiver}  # because\n" for waiver in ignore))
    assert in_json("check", path, *LAUNCH, "--waivers", written, code=1 if left else 0) == record
    found = races(record), record["waived"], record["verified"]
    out = np.zeros(64, np.int32)
    for given in (ignore, written, [written], *(ignore if len(ignore) == 1 else ())):
        result = tw.check(path, out, grid=1, block=64, schedules=0, ignore=given)
        assert (races(result.as_dict()), result.waived, result.verified) == found
    device = Device(memory_bytes=1 << 20, ignore=ignore)
    device.launch(device.load(path.read_text()), 1, 64, [device.allocate(256)])
    assert [report.kind for report in device.reports] == ["race"] * len(left)
    assert device.reports.waived == waived


@pytest.mark.planted_fault
def test_what_is_waived_is_shown(ptx):
    text = invoke("check", ptx(SHIFT), *LAUNCH, "--ignore", "race@test.cu:4", "--ignore", "race@test.cu:6").stdout
    assert "under eager, lazy: clean, 2 waived reports" in text
    assert "waived by race@test.cu:4: 1 report\n" in text


@pytest.mark.planted_fault
def test_a_waiver_that_covers_nothing_is_a_warning(ptx):
    done = invoke("check", ptx(SHIFT), *LAUNCH, "--ignore", "race", "--ignore", "race@test.cu:14")
    assert done.stderr == "tilewright: the waiver race@test.cu:14 covers no report: leave it out, or mend its place\n"


@pytest.mark.parametrize(
    ("waiver", "message"),
    [
        ("races", r"--ignore races is not a kind of reports: use race, "),
        ("race@", r"--ignore race@ is not a waiver: write KIND, KIND@FILE or KIND@FILE:LINE"),
        ("race@a.cu:x", r"is not a waiver"),
        (
            "OutOfBounds",
            "cannot be waived, since OutOfBounds ends the launch, and nothing is known about the rest of it",
        ),
    ],
)
def test_what_is_no_waiver(ptx, waiver, message):
    assert message in error("check", ptx(SHIFT), *LAUNCH, "--ignore", waiver)
    with pytest.raises(ArgumentValueError, match=r"ignore='rac|ignore='Out"):
        Device(ignore=waiver)


def test_files_that_hold_no_waivers(tmp_path):
    path = tmp_path / "waivers.txt"
    with pytest.raises(ArgumentValueError, match=r"waivers\.txt cannot be read: No such file"):
        waivers_of(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentValueError, match="it is not text"):
        waivers_of(path)
    path.write_text("race\nrace at 5\n")
    with pytest.raises(ArgumentValueError, match=r"waivers\.txt:2: 'race at 5' is not a waiver"):
        waivers_of(path)
    with pytest.raises(ArgumentTypeError, match=r"ignore=7 must be KIND"):
        waivers_of([7])  # type: ignore[list-item]


EARLY = """
extern "C" __global__ void store(int* out) {
  __shared__ __align__(128) int row[32];
  row[threadIdx.x] = threadIdx.x;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128; cp.async.bulk.commit_group;"
                 :: "l"(out), "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
"""


@pytest.mark.planted_fault
def test_a_store_that_is_under_way_at_the_exit_ends_and_can_be_waived(ptx):
    path, out = ptx(EARLY), np.zeros(32, np.int32)
    result = tw.check(path, out, grid=1, block=32)
    (report,) = result.reports
    assert (report["kind"], report["schedules"]) == ("exit-before-wait", ["eager", "lazy", "random(0)", "random(1)"])
    assert report["threads"] == "CTA 0, thread 0"
    np.testing.assert_array_equal(out, np.arange(32))
    assert tw.check(path, out, grid=1, block=32, ignore="exit-before-wait").verified


def test_without_checks_it_ends_the_launch():
    device = Device(memory_bytes=1 << 20, checks=False)
    with pytest.raises(tw.emulator.AsyncHazard, match=r"exited by .* without waiting for their bulk stores"):
        device.launch(device.load(compile_ptx(EARLY)), 1, 32, [device.allocate(128)])


DIVERGED = """
extern "C" __global__ void half(int* out) {
  if (threadIdx.x < 16)
    asm volatile("{.reg .b32 a; wmma.load.a.sync.aligned.row.m16n16k16.s8 {a, a}, [%0];}" :: "l"(out) : "memory");
  else out[threadIdx.x] = 1;
}
"""


@pytest.mark.planted_fault
def test_a_waiver_does_not_hide_what_ended_the_launch(ptx):
    result = tw.check(ptx(DIVERGED), np.zeros(32, np.int32), grid=1, block=32, ignore="divergent-collective")
    assert not result.verified


@pytest.mark.planted_fault
def test_a_warning_is_no_fault(ptx):
    """Zeros after wgmma.fence, as NVRTC and CuTe DSL place them."""
    source = """
    extern "C" __global__ void product(float* out) {
      __shared__ __align__(128) int tiles[576];
      for (int i = threadIdx.x; i < 576; i += 128) tiles[i] = 0;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      unsigned long long tile = (unsigned)__cvta_generic_to_shared(tiles) >> 4 | 8ull << 16 | 16ull << 32;
      float d[4] = {0, 0, 0, 0};
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
          "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(tile) : "memory");
      out[threadIdx.x] = d[0];
    }
    """
    path, arguments = ptx(source), ("--block", 128, "--arg", "f32[128]", "--schedules", 0)
    record = in_json("check", path, *arguments)
    assert record["verified"] is True
    assert record["reports"] == []
    (warning,) = record["warnings"]
    assert warning["kind"] == "wgmma-serialization"
    assert "ptxas serializes here" in warning["message"]
    text = invoke("check", path, *arguments).stdout
    assert "clean, 1 warning" in text
    assert "warning, wgmma-serialization (eager, lazy): " in text
    assert in_json("check", path, *arguments, "--ignore", "wgmma-serialization")["warnings"] == []
