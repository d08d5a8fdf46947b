"""The clock of time lines: on steps whose clocks are known, on our kernels, and against clocks that were counted."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.checking.product import Product
from tilewright.checking.timeline import record
from tilewright.cli import app
from tilewright.dtypes import bf16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.kernels.registry import kernel_named
from tilewright.model.chips import CHIPS
from tilewright.model.timeline import ISSUE, Arrive, Latencies, Pass, Span, Start, Wait, Work, latencies_of, play
from tilewright.rounding import ceil_div

PAGE = Path(__file__).parents[3] / "docs" / "machine" / "timeline.md"
FULL, EMPTY = ("mbarrier", 0, 0, 0), ("mbarrier", 0, 8, 0)
LATENCIES = Latencies(load=100, store=50)


def printed(*words, code=0):
    done = CliRunner().invoke(app, ["model", "timeline", *map(str, words), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def multiply(clocks, group):
    return Start("multiply", clocks, "multiplies", group)


def test_a_load_takes_its_latency_and_its_bytes():
    """640 bytes at 64 a clock, then 100 clocks; the multiplication follows."""
    trace = {
        (0, 0): [Start("load", 640, "slot 0", None, (FULL,))],
        (0, 4): [Pass(FULL), multiply(30, 0), Wait("multiply", (0, 4), 1)],
    }
    line = play(trace, LATENCIES)
    assert [(span.kind, span.begin, span.end) for span in line.spans] == [
        ("load", 0, 110),
        ("wait", 0, 110),
        ("multiply", 110, 140),
        ("wait", 110 + ISSUE, 140),
    ]
    assert (line.end, line.busy(), line.gaps()) == (140, 30, [(0, 110)])


def test_loads_share_the_way_from_l2():
    loads = [Start("load", 640, f"slot {slot}", None, (("mbarrier", 0, slot, 0),)) for slot in range(3)]
    line = play({(0, 0): loads}, LATENCIES)
    assert [span.end for span in line.of("load")] == [110, 120, 130]


def test_a_load_to_several_ctas_takes_the_way_of_each():
    ends = tuple(("mbarrier", cta, 0, 0) for cta in (0, 1))
    other = (("mbarrier", 1, 8, 0),)
    trace = {
        (0, 0): [Start("load", 640, "slot 0", None, ends, (0, 1))],
        (1, 0): [Work(1), Start("load", 64, "slot 1", None, other)],
        (1, 4): [Pass(("mbarrier", 1, 0, 0))],
    }
    line = play(trace, LATENCIES)
    assert [span.end for span in line.of("load", 1)] == [110, 111]
    assert line.of("wait", 1)[0].end == 110


def test_warpgroups_take_turns_on_the_tensor_cores():
    """Each waits for its own; whoever can begin first does."""
    steps = {
        (0, warp): [
            step for group in range(2) for step in (multiply(10, group), Wait("multiply", (0, warp), group + 1))
        ]
        for warp in (0, 4)
    }
    line = play(steps, LATENCIES)
    begins = [(span.begin, span.row) for span in line.of("multiply")]
    assert [begin for begin, _ in begins] == [0, 10, 20, 30]
    assert line.end == line.busy() == 40
    assert line.gaps() == []


def test_a_wait_for_reads_ends_before_the_store_is_written():
    def trace(reads):
        return {(0, 0): [Start("store", 640, "stores", 0), Wait("store", (0, 0), 1, reads)]}

    assert play(trace(True), LATENCIES).of("wait")[0].end == 10
    assert play(trace(False), LATENCIES).of("wait")[0].end == 60


def test_a_wait_leaves_later_groups_in_flight():
    trace = {(0, 0): [multiply(10, 0), multiply(20, 1), Wait("multiply", (0, 0), 1), Work(1)]}
    line = play(trace, LATENCIES)
    assert line.of("wait")[0].end == 10
    assert line.end == 30


def test_work_takes_clocks_and_shared_memory_in_turn():
    trace = {(0, warp): [Work(5, 1280), Arrive(FULL), Pass(FULL)] for warp in range(2)}
    line = play(trace, LATENCIES)
    assert line.end == 25
    assert [(span.row, span.begin, span.end) for span in line.of("wait")] == [("warp 0", 15, 25)]


def test_what_never_happens_is_said():
    """Two warps that each wait for the other."""
    trace = {(0, 3): [Pass(FULL), Arrive(EMPTY)], (1, 2): [Pass(EMPTY), Arrive(FULL)]}
    message = "warps 3 of CTA 0, 2 of CTA 1 wait for what never happens: give it whole"
    with pytest.raises(ArgumentValueError, match=message):
        play(trace, LATENCIES)


@pytest.mark.parametrize("name", ["wgmma", "wgmma_pipelined", "wgmma_two_consumers", "wgmma_multicast"])
def test_all_multiplications_of_a_kernel_are_played(name):
    """Of one cluster's tile: busy clocks are those of the multiply-adds, and each CTA loads A and B at least once."""
    kernel = kernel_named(name, "kernel")
    config = kernel.best(Product(4096, 4096, 512, bf16, bf16, "nt").problem, H200)
    constants = kernel.check(config, Product(4096, 4096, 512, bf16, bf16, "nt").problem, H200)
    block = kernel.blocking(constants).cluster
    trace = record(kernel, config, Product(block.m, block.n, 512, bf16, bf16, "nt"), H200)
    line = play(trace, latencies_of(CHIPS["H200"]))
    ctas = {cta for cta, _ in trace}
    assert len(ctas) == constants.cluster_m * constants.cluster_n
    for cta in ctas:
        assert line.busy("multiply", cta) == constants.tile_m * constants.tile_n * 512 / 2048
        loads = {(span.row, span.begin) for span in line.of("load", cta)}
        assert len(loads) >= 512 // constants.tile_k
    assert line.of("store")
    assert line.end > max(span.end for span in line.of("multiply"))


def test_warps_of_a_quarter_take_turns_and_wait_until_they_begin():
    """Warps 0 and 4 have one tensor core, and warp 1 has another; of four, one is busy for 20 clocks and one for 10."""
    trace = {
        (0, warp): [Start("multiply", 10, "multiplies", quarter=warp % 4), Work(1), Arrive(FULL)] for warp in (0, 1, 4)
    }
    line = play(trace | {(0, 2): [Pass(FULL)]}, LATENCIES)
    assert [(span.begin, span.quarter) for span in line.of("multiply")] == [(0, 0), (0, 1), (10, 0)]
    assert line.of("wait")[0].end == 10 + ISSUE + 1
    assert line.busy() == (20 + 10) / 4
    assert line.gaps() == []


@pytest.mark.parametrize(
    ("name", "chip", "layout"), [("mma", "A100", "nt"), ("mma", "H200", "nt"), ("mma_swizzled", "H200", "nn")]
)
def test_copies_of_threads_fill_slots_ahead_of_the_tensor_cores(name, chip, layout):
    """Busy clocks are those of the multiply-adds, and each of the ring's slots gets its share of A and B."""
    kernel, gpu = kernel_named(name, "kernel"), CHIPS[chip].gpu
    problem = Product(4096, 4096, 512, bf16, bf16, layout).problem
    config = kernel.best(problem, gpu)
    constants = kernel.check(config, problem, gpu)
    block = kernel.blocking(constants).cluster
    trace = record(kernel, config, Product(block.m, block.n, 512, bf16, bf16, layout), gpu)
    line = play(trace, latencies_of(chip))
    assert line.busy() == block.m * block.n * 512 / gpu.macs("mma", bf16)
    loaded = Counter[str]()
    for steps in trace.values():
        for step in steps:
            if isinstance(step, Start) and step.way == "load":
                loaded[step.row] += step.amount
    assert set(loaded) == {f"slot {number}" for number in range(len(loaded))}
    assert sum(loaded.values()) == (block.m + block.n) * 512 * 2
    stages = getattr(constants, "stages", len(loaded))
    assert len(loaded) == stages >= 3
    first = line.of("multiply")[0].begin
    assert sum(span.begin < first for span in line.of("load")) >= 2 * len(trace)


def test_consumers_by_turns_leave_no_gap_while_one_stores():
    """The tensor cores never wait between tiles, and each store lies beside the other consumer's products."""
    by_turns = "tile_n=192,stages=5,group_m=13,epilogue=direct,overlap=False,wait_depth=1,ping_pong=True"
    found = printed(8192, 8192, 512, "--tiles", 4, "--config", by_turns)
    assert [begin == 0 or end == found["clocks"] for begin, end in found["gaps"]] == [True, True]
    spans = [Span(**span) for span in found["spans"]]
    rows = ["warps 0 to 3: multiply", "warps 4 to 7: multiply"]
    times = [[(each.begin, each.end) for each in spans if each.row == row] for row in rows]
    assert all(times)
    stores = [each for each in spans if each.kind == "store" and each.row == "warps 0 to 3: store"]
    assert stores
    for store in stores:
        assert any(begin < store.end and store.begin < end for begin, end in times[1])


COUNTED = {
    "3072": "tile_m=192,tile_n=192,stages=3,epilogue=tma,overlap=True,wait_depth=0,ping_pong=False",
    "300": "tile_m=128,tile_n=152,stages=6,cluster_n=2,swap_ab=True,ping_pong=False",
    "2048": "tile_n=256,stages=4,ping_pong=False",
}
"""The Configs that were counted, by m, whatever the planner takes."""


def test_clocks_are_below_those_that_were_counted_on_an_h200_and_near_them():
    """The page's table has both."""
    rows = re.findall(r"^\| (\d+) x (\d+) x (\d+) \| ([\d,]+) \| ([\d,]+) \| (\d+)% \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 4
    for m, n, k, here, counted, share in rows:
        clocks, measured = (int(each.replace(",", "")) for each in (here, counted))
        words = ("--config", COUNTED[m]) if m in COUNTED else ()
        assert printed(m, n, k, *words)["clocks"] == clocks
        assert f"{clocks / measured:.0%}" == f"{share}%"
        assert 0.75 < clocks / measured < 1


def test_a_kernel_that_stays_makes_several_tiles_and_another_one_one():
    found = printed(4096, 4096, 512)
    tile_m, tile_n = (found["config"][f"tile_{extent}"] for extent in "mn")
    tiles = ceil_div(4096, tile_m) * ceil_div(4096, tile_n)
    assert found["tiles"] == ceil_div(tiles, H200.sm_count) > 1
    assert printed(4096, 4096, 512, "--tiles", 2)["tiles"] == 2
    assert printed(2048, 2048, 512, "--kernel", "wgmma_basic")["tiles"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((512, 512, 512, "--kernel", "simt"), "kernel='simt' multiplies with cuda_cores: loads of TMA and cp.async"),
        ((512, 512, 512, "--kernel", "mma_warp"), "kernel='mma_warp' loads operands through registers: loads of TMA"),
        ((4096, 4096, 1024_000), "fewer tiles, or a smaller k"),
        ((4096, 4096, 512, "--tiles", 0), "--tiles=0 must be an integer from 1 on"),
    ],
)
def test_what_cannot_be_played_is_refused(words, message):
    assert message in printed(*words, code=2)["error"]


def test_unknown_latencies_are_refused():
    with pytest.raises(ArgumentValueError, match="'B200' has no published latencies: use V100, A100, RTX-4090, H100-"):
        latencies_of(CHIPS["B200"])
