"""How `tilewright check FILE.ptx` ends what would take too long, or is interrupted."""

import pytest

import tilewright as tw
from support.commands import in_json, invoke
from support.sources import TRANSPOSE
from tilewright.checking.time_limit import TimeLimit


@pytest.mark.planted_fault
def test_a_launch_that_takes_too_long_ends_with_the_estimate_and_what_was_found(ptx, monkeypatch):
    path = ptx(TRANSPOSE, "-DBARRIER=", "-DPAD=1")
    arguments = ("--grid", "1,2000", "--block", "32,32", "--arg", "f32[64000,32]", "--arg", "f32[32,64000]",
                 "--arg", 32, "--arg", 1)  # fmt: skip
    monkeypatch.setattr("tilewright.checking.time_limit.TimeLimit.__call__", ends_with(TimeoutError("too long")))
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
        "4 schedules of 1 CTA would take the emulator more than",
        ": take fewer --schedules, or set TILEWRIGHT_EMULATOR_SECONDS=inf to wait",
        "does the kernel end?",
        "test.cu:4",
    ):
        assert words in record["error"]


MULTIPROCESSORS = """
extern "C" __global__ void multiprocessors(unsigned* out) {
  unsigned here, all;
  asm("mov.u32 %0, %%smid; mov.u32 %1, %%nsmid;" : "=r"(here), "=r"(all));
  if (here >= all)
    out[32] = here;
}
"""


@pytest.mark.parametrize("grid", ["65535,65535,65535", "2147483647,65535"])
def test_a_grid_of_more_ctas_than_32_bits_count_is_estimated(ptx, monkeypatch, grid):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0.5")
    launch = ("--grid", grid, "--block", 32, "--arg", "s32[32]", "--schedules", 0)
    record = in_json("check", ptx(MULTIPROCESSORS), *launch, code=2)
    assert "CTAs would take the emulator about" in record["error"] or "more turns than max_steps" in record["error"]
    assert record.get("reports", []) == []


def test_schedules_are_not_without_limit(ptx):
    assert "at most 10000: take fewer" in in_json("check", ptx(ENDLESS), *NEVER, "--schedules", 10**11, code=2)["error"]
    with pytest.raises(ValueError, match="schedules is 100000000000, and a check takes at most 10000"):
        tw.check("", grid=1, block=1, schedules=10**11)


def test_what_cannot_be_less_is_not_advised(ptx, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0")
    message = in_json("check", ptx(ENDLESS), *NEVER, "--schedules", 0, code=2)["error"]
    assert ": give the kernel less to do, or set" in message


def test_several_ctas_could_be_fewer(ptx, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0")
    message = in_json("check", ptx(ENDLESS), *NEVER, "--grid", 2, code=2)["error"]
    assert "4 schedules of 2 CTAs would" in message
    assert ": take a smaller --grid or fewer --schedules, or set" in message


def test_interrupting_shows_where_the_kernel_is(ptx, monkeypatch):
    def interrupt(self, done):
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.checking.time_limit.TimeLimit.__call__", interrupt)
    done = invoke("check", ptx(ENDLESS), *NEVER, code=130)
    assert "endless kernel.ptx under eager: ended early, nothing reported until then" in done.stdout
    assert "interrupted under eager, 0.0% of the check done\n  CTA 0, warp 0 ran" in done.stderr
    assert "test.cu:4" in done.stderr


def test_the_estimate_takes_what_runs_together_as_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tilewright.checking.time_limit.time.monotonic", lambda: now[0])
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
    assert "TILEWRIGHT_EMULATOR_SECONDS=207 to wait (twice the estimate)\n  after 3 s 2.00% is done" in refusal
    bound = ends(26, 0, 0.25)
    assert "it would take the emulator more than 104 s, and it stops at 100 s: less, or set" in bound
    assert "TILEWRIGHT_EMULATOR_SECONDS=inf to wait\n  after 26 s no thread has ended" in bound
    assert ends(90, 0.6, 0.1) is None  # nearly done, though late
    assert ends(201, 1.0, 0.1)
