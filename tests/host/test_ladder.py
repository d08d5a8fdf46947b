"""The ladder as a whole: its rungs, their pages, and the command that climbs it."""

import importlib.resources
import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tilewright
from support.commands import error, in_json, invoke
from tilewright.backends.emulation_limit import emulation_seconds
from tilewright.checking.product import Product
from tilewright.dtypes import bf16
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER, gains
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.ladder import measure
from tilewright.ladder.options import LadderOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "ladder"
CUDA = Path(tilewright.__file__).parent / "cuda"
HEADINGS = ["The lines that matter", "What the emulator counts", "Measured", "What limits it next", "In the article"]
MOST_LINES = 160


@pytest.mark.parametrize("rung", LADDER.values(), ids=LADDER)
def test_a_rung_is_one_short_header_and_one_page(rung):
    if isinstance(rung.kernel, LadderKernel):
        header = importlib.resources.files("tilewright") / "cuda" / rung.kernel.header
        assert rung.kernel.header == f"ladder/{rung.name}.cuh"
        assert len(header.read_text().splitlines()) <= MOST_LINES
        assert rung.kernel.inputs
    assert rung.idea.endswith(".")
    page = (DOCS / f"{rung.name}.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert f"(pictures/{rung.name}.svg)" in page
    assert f"<!-- measured:{rung.name} -->" in page


@pytest.mark.parametrize(("name", "count"), [("mma_swizzled", "Three"), ("wgmma_registers", "Four")])
def test_a_rung_of_several_ideas_says_so_in_the_index_too(name, count):
    assert re.search(rf"\n\n{count} (?:small )?things", (DOCS / f"{name}.md").read_text())
    assert re.match(f"{count} (?:small )?things: ", LADDER[name].idea)


def test_the_page_of_a_rung_that_loses_says_why():
    for path in (ROOT / "results").glob("ladder_*.json"):
        timed = {rung["name"]: rung["time_us"] for rung in json.loads(path.read_text())["rungs"] if "time_us" in rung}
        for name, gain in gains(timed).items():
            text = (DOCS / f"{name}.md").read_text()
            before_the_table = text.partition("## Measured\n")[2].partition("<!-- measured:")[0]
            assert round(gain, 2) >= 1 or len(before_the_table.split()) > 20, f"{name}: {gain:.2f}x in {path.name}"


def test_a_type_of_the_ladder_has_its_name_to_itself():
    """All headers share one namespace, and a reader who looks a name up should find one thing."""
    type_name = re.compile(r"^(?:struct|using) (\w+)(?= \{| =)", re.MULTILINE)
    found = {path: type_name.findall(path.read_text()) for path in CUDA.rglob("*.cuh")}
    ladder = [name for path, names in found.items() if path.parent.name == "ladder" for name in names]
    everywhere = Counter(name for names in found.values() for name in names)
    assert len(ladder) > 20
    assert [name for name in ladder if everywhere[name] > 1] == []


def climb(*arguments, code=0):
    return in_json("ladder", "--backend", "emulator", *arguments, code=code)


def test_a_rung_is_verified_and_counted():
    record = climb("--rungs", "uncoalesced", "--shape", "40,40,17", "--seed", 2)
    assert (record["backend"], record["m"], record["n"], record["k"]) == ("emulator", 40, 40, 17)
    assert record["verified"] is True
    assert record["interrupted"] is False
    (rung,) = record["rungs"]
    assert (rung["name"], rung["road"], rung["dtype"], rung["layout"]) == ("uncoalesced", "CUDA cores", "fp32", "nn")
    assert rung["verified"] is True
    assert 0 < rung["relative_error"] < 1e-5
    assert rung["counters"]["totals"]["global_sectors"]["ld"] > 40 * 40 * 17 / 32
    assert any(line.startswith("uncoalesced.cuh:") for line in rung["counters"]["by_line"])
    assert rung["sectors_per_load"] > 4
    assert rung["explanation"]
    assert rung["published"][0]["tflops"] == 0.243


def test_python_gets_the_record_that_the_command_prints():
    options = ("--dtype", "fp16", "--option", "accumulator=fp32", "--seed", 3)
    printed = climb("--rungs", "mma_warp", "--shape", "16,8,32", *options)
    shares = []
    record = measure(
        (16, 8, 32), ["mma_warp"], dtype="fp16", options={"accumulator": "fp32"}, backend="emulator", seed=3,
        progress=shares.append,
    )  # fmt: skip
    assert json.loads(json.dumps(record)) == printed
    assert shares == sorted(shares)
    assert [measure(np.int64(8), ["simt"], backend="emulator")[name] for name in "mnk"] == [8, 8, 8]
    assert measure(0, ["simt"], backend="emulator")["error"] == "no rung ran:\n  simt: the product is empty"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rungs": []}, r"rungs=\[\] names no rung: use some of uncoalesced"),
        ({"rungs": "simt"}, r"rungs='simt' names no rung"),
        ({"rungs": ["naive"]}, r"rungs=\['naive'\] names 'naive', which is not a rung: use uncoalesced"),
        ({"shape": (1, 2)}, r"shape=\(1, 2\) must be \(m, n, k\) of natural numbers, or one for a cube"),
        ({"rungs": 5}, "rungs=5 names no rung: use some of"),
        ({"rungs": iter(["simt"])}, "rungs=<list_iterator .*> names no rung: use some of"),
        ({"rungs": [["simt"]]}, r"rungs=\[\['simt'\]\] names \['simt'\], which is not a rung: use"),
        ({"shape": "32"}, "shape='32' must be"),
        ({"shape": -1}, "shape=-1 must be"),
        ({"seed": -1}, "seed=-1 must be an integer from 0 on: "),
        ({"seed": "x"}, "seed='x' must be an integer from 0 on: "),
        ({"options": [("stages", 3)]}, r"options=\[\('stages', 3\)\] is not a mapping: give one, such as"),
        ({"backend": "cpu"}, "backend='cpu' is unknown: use 'auto', 'gpu' or 'emulator'"),
        ({"settled": True}, "settled=True is a way of measuring time, which needs a GPU: leave it out"),
        (
            {"rungs": ["simt"], "dtype": "fp16"},
            r"dtype='fp16' is nothing for simt: leave it out.*\n  simt: dtype=fp32 ",
        ),
        ({"rungs": ["mma"], "options": {"stages": "many"}}, r"options=\{'stages': 'many'\}: stages of mma is of type"),
        (
            {"rungs": ["mma"], "options": {"sums": 1}},
            r"options=\{'sums': 1\} is nothing (?s:.)* options=\{stages: int\}",
        ),
    ],
)
def test_what_cannot_be_climbed_in_python_is_said(arguments, message):
    with pytest.raises(tilewright.TilewrightError, match=message):
        measure(**{"backend": "emulator"} | arguments)


def test_a_rung_that_does_not_take_the_shape_is_skipped_with_its_reason():
    record = climb("--rungs", "uncoalesced,wgmma_basic", "--shape", "40,40,17")
    assert record["verified"] is True
    ran, skipped = record["rungs"]
    assert ran["verified"] is True
    assert skipped["verified"] is None
    assert "wgmma_basic makes whole tiles" in skipped["skipped"] or "16 bytes" in skipped["skipped"]
    assert "error" not in record


def test_where_no_rung_runs_that_is_an_error():
    record = climb("--shape", "0,16,16", code=2)
    assert record["verified"] is None
    assert all("empty" in rung["skipped"] and rung["verified"] is None for rung in record["rungs"])
    assert "no rung ran" in record["error"]
    message = error("ladder", "--backend", "emulator", "--rungs", "wmma_gmem,mma_smem", "--shape", "40,48,32")
    assert "no rung ran" in message
    assert "m is a positive multiple of 32, and it is 40" in message
    assert "m is a positive multiple of 128, and it is 40" in message


def test_a_rung_that_takes_too_long_is_left_out_with_the_estimate(monkeypatch):
    def limit(self, done):
        raise TimeoutError("would take the emulator a week")

    monkeypatch.setattr("tilewright.checking.time_limit.TimeLimit.__call__", limit)
    record = climb("--rungs", "coalesced", "--shape", "32", code=2)
    assert "a week" in record["error"]
    (rung,) = record["rungs"]
    assert rung["skipped"] in record["error"]


def test_the_estimate_is_of_the_unit_that_multiplies():
    """Half a minute of wgmma is minutes of mma, and longer still of fused multiply-adds."""
    problem = Product(2048, 2048, 8192, bf16, bf16).problem
    seconds = []
    for name in ("wgmma_basic", "mma_warp", "coalesced"):
        kernel = EVERY_KERNEL[name]
        seconds.append(emulation_seconds(kernel, kernel.config_type(), problem, H200))
    assert seconds[0] < 60 < seconds[1] < seconds[2]


def test_two_of_four_are_what_the_sparse_rung_multiplies():
    record = climb("--rungs", "mma_smem,sparse_mma", "--shape", "128,128,64")
    dense, sparse = record["rungs"]
    assert (dense["data"], sparse["data"]) == ("randn", "2:4")
    assert (dense["side_step"], sparse["side_step"]) == (False, True)
    instructions = [sum(rung["counters"]["totals"]["tensor_instructions"].values()) for rung in (dense, sparse)]
    assert instructions[0] == 2 * instructions[1]
    assert sparse["verified"] is True
    text = invoke("ladder", "--backend", "emulator", "--rungs", "sparse_mma", "--shape", "128,128,32").stdout
    assert "sparse_mma: its A is 2:4 sparse" in text


@pytest.mark.parametrize("layout", ["nn", "tn"])
def test_of_four_neighbors_along_k_the_larger_two_stay(layout):
    product = Product(6, 3, 20, bf16, bf16, layout)
    dense, sparse = (product.operands(7, data)["a"] for data in ("randn", "2:4"))
    assert dense.strides == sparse.strides
    for row, kept in zip(dense.astype(float), sparse.astype(float), strict=True):
        for k in range(0, 20, 4):
            larger = sorted(abs(row[k : k + 4]))[2:]
            assert [value for value in row[k : k + 4] if abs(value) in larger] == [x for x in kept[k : k + 4] if x]


def test_options_reach_the_rungs_that_have_them():
    options = ("--dtype", "fp16", "--option", "accumulator=fp32")
    record = climb("--rungs", "mma_warp", "--shape", "16,8,32", *options)
    (rung,) = record["rungs"]
    assert rung["config"] == {"accumulator": "fp32"}
    assert rung["verified"] is True
    assert rung["counters"]["totals"]["tensor_instructions"].keys() == {"mma.m16n8k16.f32.f16.f16"}
    assert "ignored" not in rung


def test_options_that_a_rung_does_not_have_are_noted():
    options = LadderOptions.parse("bf16", "hilbert", ["overlap=false", "stages=3"])
    options.require(list(LADDER.values()), named=False)
    ignored = {name: options.ignored_by(rung) for name, rung in LADDER.items()}
    assert ignored["wgmma_hilbert"] == ["--option overlap=false", "--option stages=3"]
    assert ignored["wgmma"] == ["--schedule hilbert"]
    assert ignored["coalesced"] == ["--dtype bf16", "--schedule hilbert", "--option overlap=false", "--option stages=3"]
    problem = Product(4096, 4096, 4096, bf16, bf16, "nt").problem
    config = options.config(LADDER["wgmma"], problem, H200)
    assert (config.overlap, config.stages) == (False, 3)
    assert options.config(LADDER["wgmma_persistent"], problem, H200) == tilewright.ScheduleConfig("hilbert")
    assert options.config(LADDER["wgmma_basic"], problem, H200) == LADDER["wgmma_basic"].kernel.config_type()


def test_the_table_says_which_rungs_leave_an_option_out(monkeypatch):
    chosen = {name: LADDER[name] for name in ("coalesced", "mma_warp")}
    monkeypatch.setattr("tilewright.ladder.climb.LADDER", chosen)
    text = invoke("ladder", "--backend", "emulator", "--shape", "16", "--option", "accumulator=fp32").stdout
    assert "Without --option accumulator=fp32, which they do not have: coalesced\n" in text
    record = climb("--shape", "16", "--option", "accumulator=fp32")
    assert [rung.get("ignored") for rung in record["rungs"]] == [["--option accumulator=fp32"], None]


def test_the_table_says_what_the_counters_mean():
    text = invoke("ladder", "--backend", "emulator", "--rungs", "uncoalesced", "--shape", "64").stdout
    assert "64x64x64" in text
    assert "sectors" in text
    assert "The product agrees with float64." in text


def test_a_wrong_rung_is_bad_news(monkeypatch):
    from tilewright.reference import Comparison

    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, math.nan, 1e-6, 1))
    record = climb("--rungs", "uncoalesced", "--shape", "32", code=1)
    assert record["verified"] is record["rungs"][0]["verified"] is False
    assert "relative_error" not in record["rungs"][0]


def test_ctrl_c_in_the_emulator_keeps_what_was_climbed(monkeypatch):
    from tilewright.ladder import emulated

    count = emulated.count

    def interrupted(result, *others):
        if result.rung.name == "coalesced":
            raise KeyboardInterrupt
        count(result, *others)

    monkeypatch.setattr(emulated, "count", interrupted)
    record = climb("--rungs", "uncoalesced,coalesced", "--shape", "32", code=130)
    assert (record["interrupted"], record["verified"]) == (True, True)
    assert [rung["verified"] for rung in record["rungs"]] == [True, None]
    assert record["rungs"][0]["counters"]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_bar_chart_is_a_picture(tmp_path, suffix):
    path = tmp_path / f"ladder.{suffix}"
    invoke("ladder", "--backend", "emulator", "--rungs", "uncoalesced", "--shape", "32", "--plot", path)
    beginning = path.read_bytes()[:64]
    assert beginning.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in beginning


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rungs", ","), ["--rungs=','", "names no rung", "uncoalesced"]),
        (("--rungs", "naive"), ["--rungs='naive'", "is not a rung", "uncoalesced"]),
        (("--shape", "12,13"), ["--shape='12,13' is not a shape", "M,N,K"]),
        (("--settled",), ["--settled", "needs a GPU"]),
        (
            ("--rungs", "uncoalesced", "--shape", "32", "--plot", "/tmp/ladder.xyz"),
            ["--plot=", "has a suffix that is not drawn: use .png, .svg or .pdf"],
        ),
        (("--rungs", "uncoalesced", "--shape", "8192"), ["no rung ran", "hours", "smaller product"]),
        (("--rungs", "mma_warp", "--option", "accumulator=fp8"), ["accumulator=fp8", "mma_warp", "'fp16' or 'fp32'"]),
        (("--rungs", "mma_warp", "--option", "sums=fp16"), ["sums=fp16", "mma_warp: ", "accumulator=fp16|fp32"]),
        (("--rungs", "simt,mma_warp", "--option", "accumulator=fp16"), ["accumulator=fp16 is nothing for simt:"]),
        (("--option", "sums=fp16"), ["sums=fp16 is nothing for any rung", "accumulator=fp16|fp32", "stages=int"]),
        (("--rungs", "mma", "--option", "stages=many"), ["stages of mma is of type int", "'many'"]),
        (("--rungs", "mma", "--option", "stages"), ["--option 'stages'", "NAME=VALUE"]),
        (
            ("--rungs", "wgmma_hilbert", "--schedule", "hilbert", "--option", "schedule=blocked"),
            ["--schedule hilbert and --option schedule=blocked", "leave one out"],
        ),
        (("--rungs", "wgmma_hilbert", "--schedule", "zigzag"), ["zigzag", "wgmma_hilbert", "'row_major' or 'blocked'"]),
        (("--rungs", "wgmma_basic", "--schedule", "hilbert"), ["--schedule hilbert is nothing for wgmma_basic"]),
        (("--rungs", "coalesced", "--dtype", "fp16"), ["--dtype fp16 is nothing for coalesced", "--dtype fp32"]),
        (
            ("--rungs", "mma_warp", "--dtype", "bf16", "--option", "accumulator=fp16"),
            ["kernel 'mma_warp'", "bf16 in fp32 only: take accumulator='fp32'"],
        ),
    ],
)
def test_what_cannot_be_climbed_is_said(arguments, words):
    message = error("ladder", "--backend", "emulator", *arguments)
    for word in words:
        assert word in message


def test_that_an_instruction_runs_in_software_is_said_wherever_its_rung_is_shown():
    record = climb("--rungs", "volta_mma", "--shape", "128,256,32")
    assert "in software" in record["rungs"][0]["note"]
    arguments = ("ladder", "--backend", "emulator", "--rungs", "volta_mma", "--shape", "128,256,32")
    assert "volta_mma: its instruction runs in software" in invoke(*arguments).stdout
    assert "runs in software" in (DOCS / "README.md").read_text()
    assert "runs in software" in (DOCS / "pictures/measured.svg").read_text()


def test_bytes_are_counted_by_level():
    record = climb("--rungs", "uncoalesced,mma_swizzled,wgmma_two_consumers", "--shape", "128,256,64")
    alone, staged, asynchronous = record["rungs"]
    assert (alone["smem_bytes"], alone["flops_per_smem_byte"]) == (0, None)
    operands = 2 * 64 * (128 + 256)
    assert asynchronous["smem_bytes"] == operands + 2 * 64 * 2 * (64 + 256)  # TMA writes, and two warpgroups read
    assert asynchronous["l2_bytes"] == operands + 2 * 128 * 256
    assert staged["smem_bytes"] > 2 * operands


def test_a_published_figure_may_be_a_range():
    figures = {name: [each.range for each in rung.published] for name, rung in LADDER.items()}
    assert figures["coalesced"] == ["3.171"]
    assert figures["register_tiles"] == ["7 to 9"]
