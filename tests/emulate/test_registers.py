"""The registers of a thread at a line, as a debugger would show them."""

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.commands import error, in_json, invoke
from tilewright.checking.registers import meanings
from tilewright.emulator import Device, Observer
from tilewright.errors import ArgumentValueError
from tilewright.model.fragments.instructions import fragments_of

PAGE = (Path(__file__).parents[2] / "docs/machine/fragments.md").read_text(encoding="utf-8")
TILE, STEPS = re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
LOAD, MULTIPLY = (
    1 + next(number for number, line in enumerate(TILE.splitlines()) if f'volatile("{name}' in line)
    for name in ("ldmatrix.sync.aligned.m8n8.x4", "mma")
)
ARGUMENTS = ("--block", 32, "--arg", "d=f32[16,8]", "--arg", "a=f16[16,16]:arange", "--arg", "b=f16[16,8]:ones",
             "--schedules", 0)  # fmt: skip


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "tile.cu"
    path.write_text(TILE)
    return path


def pairs(registers):
    return [register["f16"] for register in registers]


@pytest.mark.parametrize("lane", [0, 5, 31])
def test_ldmatrix_gives_a_lane_its_fragment(source, lane):
    """The article's step with a debugger: element [i][j] of A is 16 i + j, so halves say which elements they are."""
    (load,) = in_json("check", source, *ARGUMENTS, "--at", f"tile.cu:{LOAD}@{lane}")["registers"]
    held = fragments_of("mma.m16n8k16.f16").of("A").held(lane)
    assert pairs(load["written"]) == [[16 * row + column for row, column in register] for register in held]
    address = 1024 + 2 * (lane % 16 * 16 + lane // 16 * 8)
    assert [register["value"] for register in load["read"]] == [address]


def test_mma_has_its_operands_before_and_its_sums_after(source):
    record = in_json("check", source, *ARGUMENTS, "--at", f"tile.cu:{MULTIPLY}@5")
    multiply = record["registers"][-1]
    assert "`mma.sync.aligned.m16n8k16" in multiply["instruction"]
    a, b, c = multiply["read"][:4], multiply["read"][4:6], multiply["read"][6:]
    assert pairs(a) == [[18, 19], [146, 147], [26, 27], [154, 155]]
    assert pairs(b) == [[1, 1], [1, 1]]
    assert {register["f32"] for register in c} == {0}
    rows = np.arange(256).reshape(16, 16).sum(axis=1)
    assert [register["f32"] for register in multiply["written"]] == [rows[1], rows[1], rows[9], rows[9]]


def test_the_page_shows_what_the_command_prints(source):
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()
    printed = invoke("check", source, *ARGUMENTS, "--at", f"tile.cu:{LOAD}").stdout.splitlines()

    def without_numbers(lines):  # of registers and of lines in the PTX, which are the compiler's
        return [re.sub(r"%r\d+ *|PTX line \d+", "", line).split() for line in lines]

    first = next(number for number, line in enumerate(printed) if "`ldmatrix" in line)
    assert without_numbers(printed[first : first + len(shown)]) == without_numbers(shown)


@pytest.mark.planted_fault
def test_the_pages_barrier_must_stay(tmp_path):
    path = tmp_path / "steps.cu"
    path.write_text(STEPS)
    launch = ("--block", 32, "--arg", "out=u32[32]", "--arg", "a=f16[64,16]:random", "--arg", 4)
    assert in_json("check", path, "-D", "AFTER=__syncthreads()", *launch)["verified"] is True
    (race,) = in_json("check", path, "-D", "AFTER=", *launch, code=1)["reports"]
    assert race["kind"] == "race"
    store, load = race["locations"]
    assert "`st.shared.v4.u32` at steps.cu:9" in store
    assert "`ldmatrix.sync.aligned.m8n8.x4.shared.b16` at steps.cu:12" in load


def test_in_python():
    out, values = np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
    kernel = """
    extern "C" __global__ void halve(float* out, const float* in) {
      if (threadIdx.x >= 2)
        out[threadIdx.x] = in[threadIdx.x] / 2;
    }
    """
    result = tw.check(compile_ptx(kernel), out, values, grid=2, block=32, schedules=0, at="test.cu:4@7")
    assert result.registers is not None
    numbers = [register.get("f32") for each in result.registers for register in each["written"]]
    assert {7.0, 3.5} <= set(numbers)
    assert tw.check(compile_ptx(kernel), out, values, grid=2, block=32, schedules=0, at="test.cu:4@1").registers == []
    assert tw.check(compile_ptx(kernel), out, values, grid=2, block=32, schedules=0).registers is None


def test_a_thread_that_no_cta_has_is_refused(source):
    said = error("check", source, *ARGUMENTS, "--at", f"tile.cu:{LOAD}@77")
    assert f"tile.cu:{LOAD}@77 names thread 77, and a CTA has 32: take one of 0..31" in said


def test_a_thread_that_never_comes_there(tmp_path):
    path = tmp_path / "few.cu"
    path.write_text("""extern "C" __global__ void few(float* out) {
  if (threadIdx.x < 8)
    out[threadIdx.x] = 1;
}
""")
    printed = invoke("check", path, "--block", 32, "--arg", "out=f32[8]", "--schedules", 0, "--at", "few.cu:3@9").stdout
    assert "the thread does not execute the line" in printed


@pytest.mark.parametrize("at", ["7", "tile.cu", "tile.cu:7@", "tile.cu:x@1", "@3"])
def test_what_is_no_place_is_refused(source, at):
    said = error("check", source, *ARGUMENTS, "--at", at)
    assert f"--at {at} is no place: write FILE:LINE or FILE:LINE@THREAD" in said


def test_a_line_without_instructions_is_refused(source):
    said = error("check", source, *ARGUMENTS, "--at", "tile.cu:1")
    assert "'tile.cu:1' is no line of " in said
    assert f"tile.cu:{LOAD}" in said
    with pytest.raises(ArgumentValueError, match=r"'PTX:1' is no line of"):
        Device(trace=["PTX:1"]).load(compile_ptx('extern "C" __global__ void f(int* p) { *p = 1; }'))


def test_an_observer_hears_of_all_lanes():
    class Sums(Observer):
        def __init__(self):
            self.written = []

        def traced(self, site, group, active, read, written):
            self.written += [np.broadcast_to(values, (group.size,)) for values in written.values()]

    ptx = compile_ptx("""
    extern "C" __global__ void square(int* out) {
      out[threadIdx.x] = threadIdx.x * threadIdx.x;
    }
    """)
    sums = Sums()
    device = Device(observers=[sums], trace=["test.cu:3"])
    device.launch(device.load(ptx), 1, 32, [device.upload(np.zeros(32, np.int32))])
    assert any((values == np.arange(32) ** 2).all() for values in sums.written)
    quiet = Device(observers=[Sums()])
    assert "traced" not in quiet.load(ptx).program.source


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (np.bool_(True), {"bits": 1, "value": True}),
        (np.uint32(0x3B55BAEE), {"bits": 32, "value": 0x3B55BAEE, "f16": [-0.8662109375, 0.91650390625]}),
        (np.uint32(0x7F800000), {"f32": None, "bf16": [0, None]}),
        (np.uint64(0x3FF0000000000000), {"bits": 64, "f64": 1.0}),
        (np.uint16(0x3C00), {"bits": 16, "f16": [1.0]}),
    ],
)
def test_meanings_of_bits(bits, expected):
    """BAEE and 3B55 are the halves that the article about mma decodes by hand."""
    found = meanings("%r1", bits)
    assert {key: found[key] for key in expected} == expected
