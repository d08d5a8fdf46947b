"""Each check finds a fault planted in a small kernel, names both lines, and is silent when the fault is not there.

The kernels stand in checks/, one in a file. -DFAULT=1 plants the fault. The first line tells which kind of report it
gives, the launch, the asynchrony it needs (eager if none is named), the error of the emulator that it ends in, and
what other reports follow. A report must first name a statement marked /*1*/, and then one marked /*2*/.
"""

import re
from collections import Counter
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import tilewright.emulator as emulator
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device
from tilewright.emulator import launch as launch_module
from tilewright.emulator.checks.reporting.rules import RULES
from tilewright.emulator.ptx.syntax import Entry, Variable
from tilewright.emulator.ptx.variables import variable_at

FOLDER = Path(__file__).parent / "checks"
POLICIES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(3))]
COUNT = 4096


class Case:
    """One kernel (int* out, const int* in)."""

    def __init__(self, path):
        text = path.read_text()
        self.name = path.stem
        self.options = dict(option.split("=") for option in text.split("\n")[0].split()[1:])
        self.kind = self.options["kind"]
        self.source = text.replace('#include "wrappers.cuh"\n', (FOLDER / "wrappers.cuh").read_text())

    def run(self, fault, policy, *, lineinfo=True):
        """Run the kernel; returns the contents of `out`."""
        device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
        out = device.upload(np.zeros(COUNT, np.int32))
        values = device.upload(np.arange(COUNT, dtype=np.int32) * 7 % 1001)
        ptx = compile_ptx(self.source, "sm_90a", f"-DFAULT={fault}")
        grid, block, cluster = (int(self.options.get(name, 1)) for name in ("grid", "block", "cluster"))
        kernel = device.load(ptx if lineinfo else without_lines(ptx))
        dependent = "dependent" in self.options
        device.launch(kernel, (grid,), (block,), [out, values], cluster=(cluster,), dependent=dependent)
        return device.read(out, 4 * COUNT).view(np.int32)

    def run_faulty(self, **options):
        """Run the faulty kernel to its end, or to the error it ends in."""
        policy = self.options.get("policy", "eager"), 0
        if error := self.options.get("error"):
            with pytest.raises(getattr(emulator, error)):
                self.run(1, policy, **options)
        else:
            self.run(1, policy, **options)

    @cached_property
    def lines(self):
        return self.source.split("\n")

    def is_marked(self, mark, location):
        """Whether a location names, maybe through inlining, a statement with a mark."""
        return any(f"/*{mark}*/" in self._statement(int(number)) for number in re.findall(r"\.cu:(\d+)", location))

    def _statement(self, number):
        """From a line to the next that ends a statement."""
        rest = self.lines[number - 1 :]
        end = next((index for index, line in enumerate(rest) if re.search(r"[;{}]\s*(/\*|$)", line)), 0)
        return "\n".join(rest[: end + 1])


def without_lines(ptx):
    """PTX as a compiler writes it without line information."""
    return re.sub(r"^\s*\.(loc|file)\b.*\n", "", ptx, flags=re.M)


def numbers(reports):
    """How many pairs of instructions were reported, by kind."""
    found = Counter()
    for report in reports:
        found[report.kind] += 1 + report.more
    return found


CASES = [Case(path) for path in sorted(FOLDER.glob("*.cu"))]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_correct_kernel(case):
    results = [case.run(0, policy) for policy in POLICIES]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.planted_fault
@each_case
def test_faulty_kernel(case, reports):
    case.run_faulty()
    assert {report.kind for report in reports()} - {case.options.get("also")} == {case.kind}
    for report in reports():
        assert f"PTX ISA, {RULES[report.kind].section}" in str(report)
        if report.kind == case.kind:
            for mark, location in enumerate(report.locations, 1):
                assert case.is_marked(mark, location), f"{location} is not marked {mark}"


@pytest.mark.planted_fault
@each_case
def test_reports_do_not_need_line_information(case, reports):
    case.run_faulty()
    with_lines = numbers(reports())
    case.run_faulty(lineinfo=False)
    assert numbers(reports()) == with_lines + with_lines


@pytest.mark.planted_fault
def test_the_rule_of_an_overwrite_is_about_threads_that_read_too(reports):
    (case,) = (case for case in CASES if case.name == "slot_refilled_while_it_is_read")
    case.run_faulty()
    assert "it may overwrite data that threads read only after they are known to have done so" in reports()[0].rule


MESSAGES = {
    "in_place_shift": r"which thread 0 of CTA 0 reads .*: a barrier, __syncwarp\(\) if only .*, else __syncthreads\(\)",
    "block_reduction": r"reads shared address \w+ \(sums.*\), which thread .* without order: .*__syncthreads\(\), must",
    "flag_between_blocks": r"which thread \d+ of CTA \d writes without order: .*acquire of \.gpu scope",
    "peer_written_while_it_reads": r"which thread \d+ of CTA \d reads without order: a barrier of the cluster must",
    "global_store_read_by_another_block": r"which a bulk store of CTA \d accesses without order",
    "slot_refilled_while_it_is_read": r"which thread \d+ of CTA 0 reads without order: .* by __syncwarp\(\) or another",
    "zeros_moved_past_the_fence": r"sets to a constant after `wgmma\.fence\S*` at test\.cu:\d+.*: ptxas serializes",
    "accumulator_set_after_the_fence": r"after `wgmma\.fence\S*` at test\.cu:\d+.*the compiler has moved it",
    "store_without_fence": r"which thread \d+ of CTA \d+ has written, without fence\.proxy\.async in between",
    "global_load_without_fence": r"has written, without fence\.proxy\.async in between",
    "exit_before_the_peer_has_read": r"thread \d+ of CTA 1 is done .* by `ld\.shared::cluster\S*` .* address 0x\w+",
    "copy_to_a_peer_and_exit": r"a copy that signals the mbarrier .* by `cp\.async\.bulk\S*` .* address 0x\w+",
}


@pytest.mark.planted_fault
@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name, reports):
    [case] = [case for case in CASES if case.name == name]
    case.run_faulty()
    found = [report for report in reports() if report.kind == case.kind]
    assert any(re.search(MESSAGES[name], report.message) for report in found), found
    if not case.kind.startswith("wgmma"):
        assert all(f"{report.address:#x}" in report.message for report in found)


def test_every_rule_has_a_case():
    assert {case.kind for case in CASES} == set(RULES)


# By hand: what no compiler writes, or what ends a launch ------------------------------------------------------------

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def launch(ptx, *, threads=32, grid=1, args=(), device=None, **options):
    device = device or Device(memory_bytes=1 << 20, **options)
    device.launch(device.load(ptx), (grid,), (threads,), list(args))
    return device


REGISTER = """
.visible .entry e(.param .u64 out) {
  .reg .pred p; .reg .b32 %r<4>; .reg .b64 %d<3>;
  mov.u32 %r0, %tid.x;
  ld.param.u64 %d0, [out];
  mad.wide.u32 %d1, %r0, 4, %d0;
  setp.lt.u32 p, %r0, LIMIT;
  @!p bra SKIP;
  mov.u32 %r1, 7;
SKIP:
  mov.b32 %r2, %r1;
  st.global.u32 [%d1], %r2;
  ret;
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(("limit", "threads"), [(32, None), (20, "threads 20-31"), (0, "warp 0")])
def test_register_without_a_value(limit, threads):
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(128)
    launch(HEADER + REGISTER.replace("LIMIT", str(limit)), args=[out], device=device)
    if threads is None:
        assert not device.reports
    else:
        [report] = device.reports
        assert report.kind == "uninitialized-register"
        assert threads in report.threads
        assert "`st.global.u32` (PTX line 15)" in report.locations[0]


MBARRIER = """
.visible .entry e() {
  .shared .align 128 .b8 data[256];
  .shared .align 8 .b64 bar;
  .reg .pred p; .reg .b32 %%r<4>; .reg .b64 %%d<4>;
  mov.u32 %%r0, %%tid.x;
  setp.ne.u32 p, %%r0, 0;
  @p bra END;
  mbarrier.init.shared::cta.b64 [bar], 1;
  %s
END:
  ret;
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("mbarrier.init.shared::cta.b64 [bar], 1;", "MbarrierLifetime", "again without mbarrier.inval"),
        (
            "mbarrier.inval.shared::cta.b64 [bar]; mbarrier.arrive.shared::cta.b64 %d0, [bar];",
            "MbarrierLifetime",
            "not initialized",
        ),
        ("mbarrier.arrive.shared::cta.b64 %d0, [bar], 2;", "BarrierProtocol", "arrives too often"),
        ("mbarrier.arrive.shared::cta.b64 %d0, [bar+4];", "Misaligned", "not a multiple of 8"),
        ("st.shared.u32 [data+2], %r0;", "Misaligned", "not a multiple of 4"),
        ("st.shared.u32 [data+300], %r0;", "OutOfBounds", "outside the 272 bytes"),
        ("ld.global.u32 %r1, [16];", "OutOfBounds", "outside every allocation"),
        (
            "mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [bar], 16;"
            " WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0; @!p bra WAIT;",
            "Deadlock",
            "missing bytes 16",
        ),
    ],
)
def test_protocol(body, error, message):
    with pytest.raises(getattr(emulator, error), match=message):
        launch(HEADER + MBARRIER % body)


TOUCHED = """
.global .align 16 .b8 source[16];
.visible .entry e() {
  .shared .align 16 .b64 bar;
  .shared .align 16 .b64 other;
  .reg .pred p; .reg .b32 %%r<4>; .reg .b64 %%d<4>;
  mov.u32 %%r0, %%tid.x;
  setp.ne.u32 p, %%r0, 0;
  @p bra END;
  mbarrier.init.shared::cta.b64 [other], 1;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [other], 16;
  %s
END:
  ret;
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    "access",
    [
        "ld.shared.u32 %r1, [bar+4];",
        "st.shared.u8 [bar], %r0;",
        "red.shared.add.u32 [bar+4], 1;",
        "cp.async.ca.shared.global [bar], [source], 8; cp.async.wait_all;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [source], 16, [other];"
        " W: mbarrier.test_wait.parity.shared::cta.b64 p, [other], 0; @!p bra W;",
        "fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [source], [bar], 16;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ],
)
def test_only_mbarrier_instructions_access_an_mbarrier(access):
    [report] = launch(HEADER + TOUCHED % access).reports
    assert report.kind == "mbarrier-access"
    assert "which the mbarrier at shared address 0x400 (bar) occupies until" in report.message
    ended = "mbarrier.inval.shared::cta.b64 [bar]; " + access
    assert not launch(HEADER + TOUCHED % ended).reports


COUNTER = """
extern "C" __global__ void count(int* out, const int* in) {
  atomicAdd(out + 1, 1);
  if (threadIdx.x == 0) out[2 + blockIdx.x] = in[0];
}
"""


def test_launches_are_ordered():
    device = Device(memory_bytes=1 << 20)
    out, values = device.upload(np.zeros(64, np.int32)), device.upload(np.zeros(4, np.int32))
    kernel = device.load(compile_ptx(COUNTER))
    for source in (values, out, values):
        device.launch(kernel, (2,), (32,), [out, source])
    assert device.read(out, 8).view(np.int32)[1] == 192


HANDOVER = """
extern "C" __global__ void handover(int* out, const int* in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(out, 1);
  if (!FAULT) out[1 + i] = in[i];
  else out[1 + threadIdx.x] = in[i];
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize("fault", [0, 1])
def test_races_between_blocks_that_are_not_resident_together(fault, reports):
    count = 72 * 1024
    device = Device(memory_bytes=1 << 22)
    out, values = device.upload(np.zeros(count + 1, np.int32)), device.upload(np.zeros(count, np.int32))
    device.launch(device.load(compile_ptx(HANDOVER, "sm_90a", f"-DFAULT={fault}")), (72,), (1024,), [out, values])
    assert device.read(out, 4).view(np.int32) == count
    assert [report.kind for report in reports()] == ["race"] * fault


TICKET = """
extern "C" __global__ void last_block(int* out, const int* in) {
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[1 + i] = in[i];
  if (FAULT) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  else __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(out, 1) == gridDim.x - 1;
  __syncthreads();
  __threadfence();
  int sum = 0;
  for (int block = 0; last && block < gridDim.x; block++) sum += out[1 + block * blockDim.x + (threadIdx.x ^ 1)];
  __syncthreads();
  if (last) out[1 + i] = sum;
}
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize("fault", [0, 1])
def test_the_last_block_reads_what_blocks_have_written_that_were_not_resident_with_it(fault, reports, monkeypatch):
    monkeypatch.setattr(launch_module, "RESIDENT_LANES", 128)
    monkeypatch.setattr(launch_module, "CHUNK_LANES", 128)
    count = 7 * 64
    device = Device(memory_bytes=1 << 20)
    out, values = device.upload(np.zeros(count + 1, np.int32)), device.upload(np.ones(count, np.int32))
    device.launch(device.load(compile_ptx(TICKET, "sm_90a", f"-DFAULT={fault}")), (7,), (64,), [out, values])
    assert device.read(out + 4 * (count - 63), 256).view(np.int32).tolist() == [7] * 64
    assert {report.kind for report in reports()} == ({"race"} if fault else set())


@pytest.mark.parametrize(
    ("name", "offset", "said"),
    [
        ("_ZZ9block_sumE7partial", 4, "partial + 4"),
        ("_ZZN10tilewright4warpI7Config1EEvvE4tile", 0, "tile"),
        ("_ZZ4kE2x1", 0, "x1"),
        ("global_smem", 8, "global_smem + 8"),
        ("_Zebra", 0, "_Zebra"),
        ("_Z" + "9" * 5000 + "a", 0, "_Z" + "9" * 5000 + "a"),
        ("partial", 16, ""),
    ],
)
def test_shared_variables_have_the_names_of_the_source(name, offset, said):
    entry = Entry("kernel")
    entry.shared[name] = Variable(name, 4, 16)
    assert variable_at(entry, offset) == said
