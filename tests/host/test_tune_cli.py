"""`tilewright tune` and `tilewright compile` on a machine without a GPU."""

import json
import re
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.commands import error, in_json, invoke
from support.tuning import InstantPool, PretendedStand, Turns
from tilewright import api
from tilewright.backends import gpu as gpu_backend
from tilewright.backends.absent import AbsentGpu
from tilewright.cli.compile import parse_rows
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.jit import cache, pool
from tilewright.jit.cache import default_cache
from tilewright.jit.compile import CompilationError
from tilewright.jit.pool import CompilerPool
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner import tuned
from tilewright.planner.tuned import Store
from tilewright.planner.tuned_table import Entry, Key, Table, encode
from tilewright.planner.tuning import search, stand
from tilewright.planner.tuning.budget import Budget

BEST = tuned.best  # which tests have not, unless they ask for it


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache directory."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_built", {})
    for each in (default_cache, tuned.store):
        each.cache_clear()
    yield tmp_path
    for each in (default_cache, tuned.store):
        each.cache_clear()


def entry(m=512, date="2026-01-01T00:00:00+00:00", stages=3):
    key = Key(512, 512, 1, "nt", "bf16", "bf16", (128, 128, 128), "", "")
    config = WgmmaConfig(128, 64, stages, epilogue="direct", overlap=False)
    return Entry(key, m, "wgmma", asdict(config), 4.25, date, "13.0.88")


@pytest.mark.parametrize(
    ("text", "rows"),
    [("7", [7]), ("1-4", [1, 2, 3, 4]), ("1,2, 8-9,2", [1, 2, 8, 9]), ("9,1-2", [1, 2, 9])],
)
def test_rows_are_numbers_and_ranges(text, rows):
    assert parse_rows(text) == rows


def test_rows_that_end_before_they_begin_are_turned_around():
    with pytest.raises(ArgumentValueError, match="5-1 ends before it begins; write 1-5"):
        parse_rows("2,5-1")


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "0", "0-4", "4-1", "1--2", "1-9999999999", "1.5"])
def test_other_rows_are_refused(text):
    with pytest.raises(ArgumentValueError, match="write"):
        parse_rows(text)


def test_compile_makes_each_kernel_once_and_finds_it_again(folder):
    arguments = ("compile", "--shape", "1,512,256", "--rows", "1-64", "--gpu", "h200")
    first = in_json(*arguments)
    assert (first["gpu"], first["arch"], first["products"]) == ("H200", "sm_90a", 64)
    assert first["compiled"] == len(first["kernels"]) == len(set(first["kernels"])) > 1
    assert first["failures"] == {}
    assert first["cache"] == str(folder)
    assert len(list(folder.glob("*.kernel"))) == first["compiled"]
    again = in_json(*arguments)
    assert (again["compiled"], again["kernels"]) == (0, first["kernels"])
    assert f"64 products on an H200 take {len(first['kernels'])} kernels:" in invoke(*arguments).stdout
    one = ("compile", "--shape", "1,512,256", "--gpu", "h200")
    assert "1 product on an H200 takes 1 kernel:" in invoke(*one).stdout


@pytest.mark.parametrize("rows", [("--rows", "1,64"), ()])
def test_compile_fails_where_no_kernel_is_kept(tmp_path, monkeypatch, rows):
    file = tmp_path / "file"
    file.write_text("no directory")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(file))
    default_cache.cache_clear()
    said = error("compile", "--shape", "1,512,256", *rows, "--gpu", "h200")
    assert re.search(rf"(\d) of \1 compiled kernels are not in the cache {file}, .*: set TILEWRIGHT_CACHE_DIR to", said)


def test_compile_takes_suites_and_epilogues():
    plain, biased = (
        in_json("compile", "--shape", "256", "--gpu", "A100", *options)
        for options in ((), ("--bias", "--activation", "gelu"))
    )
    assert plain["kernels"][0].startswith("mma_bf16_nt_")
    assert plain["compiled"] == biased["compiled"] == 1


@pytest.mark.parametrize(
    ("options", "epilogue"),
    [
        (
            ("--epilogue", "gelu(acc + bias)", "--operand", "bias=n", "--outputs", "acc,amax"),
            {
                "epilogue": "gelu(acc + bias)",
                "operands": {"bias": np.zeros(96, np.float16)},
                "outputs": {"acc": np.zeros((64, 96), np.float16), "amax": np.zeros(1, np.float32)},
            },
        ),
        (("--gate", "stacked", "--activation", "silu"), {"activation": "silu", "gate": "stacked"}),
        (
            ("--epilogue", "x * y * r", "--gate", "interleaved", "--operand", "r=m,1"),
            {"epilogue": "x * y * r", "gate": "interleaved", "operands": {"r": np.zeros((64, 1), np.float16)}},
        ),
    ],
)
def test_calls_with_an_epilogue_find_what_was_compiled_for_it(folder, options, epilogue):
    found = in_json("compile", "--shape", "64,96,256", "--dtype", "fp16", *options, "--gpu", "H200")
    assert found["compiled"] == len(found["kernels"])
    plan = tw.plan(
        np.zeros((64, 256), np.float16), np.zeros((96, 256), np.float16).T, **epilogue, backend=AbsentGpu(H200)
    )
    assert plan.compiled.name in found["kernels"]
    assert len(list(folder.glob("*.kernel"))) == found["compiled"]


@pytest.mark.parametrize("scaled", [False, True])
def test_results_of_fp8_are_compiled_with_their_scale_and_without(folder, scaled):
    options = ("--dtype", "fp8", "--out-dtype", "fp8_e4m3", "--epilogue", "gelu(acc + bias)", "--operand", "bias=n")
    found = in_json("compile", "--shape", "64,96,256", *options, "--gpu", "H200")
    a, b, out = (np.zeros(shape, ml_dtypes.float8_e4m3fn) for shape in ((64, 256), (96, 256), (64, 96)))
    operands, scale = {"bias": np.zeros(96, ml_dtypes.bfloat16)}, np.ones((), np.float32) if scaled else None
    plan = tw.plan(
        a, b.T, out=out, epilogue="gelu(acc + bias)", operands=operands, scale_out=scale, backend=AbsentGpu(H200)
    )
    assert plan.compiled.name in found["kernels"]
    assert len(list(folder.glob("*.kernel"))) == found["compiled"] == 2


def test_a_kernel_that_does_not_compile_is_named_and_the_exit_code_says_so(monkeypatch):
    failing = CompilationError("ptxas is unhappy", "log")
    monkeypatch.setattr(CompilerPool, "build_all", lambda self, units, arch: ((unit, failing) for unit in units))
    found = in_json("compile", "--shape", "1,512,256", "--rows", "1,64", "--gpu", "H200", code=1)
    assert set(found["failures"].values()) == {"ptxas is unhappy"}
    assert found["compiled"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "--shape", "256"), "no GPU is usable here: name one with --gpu, such as A100"),
        (("compile", "--gpu", "H200"), "neither SUITE nor --shape is given"),
        (("compile", "--shape", "256", "--gpu", "RTX-4090"), "--gpu='RTX-4090' is known to the models alone"),
        (("compile", "--shape", "256", "--gpu", "H300"), "--gpu='H300' is unknown: use A100, H100-SXM"),
        (("compile", "--shape", "256", "--gpu", "H200", "--rows", "0"), "--rows='0': write"),
        (("compile", "--shape", "256", "--gpu", "H200", "--epilogue", "acc +"), "--epilogue: it does not parse"),
        (
            ("compile", "--shape", "256", "--gpu", "H200", "--bias", "--epilogue", "acc"),
            "write --bias and --activation",
        ),
        (("tune",), "neither SUITE nor --shape is given"),
        (("tune", "--shape", "256"), "none is usable here"),
        (("tune", "--shape", "256", "--gpu", "H200"), "products are measured on the GPU that is here: leave it out"),
        (("tune", "--list"), "name the table's GPU with --gpu, such as A100"),
        (("tune", "--list", "--gpu", "H300"), "--gpu='H300' is unknown"),
        (("tune", "--import", "nowhere.json", "--gpu", "H200"), "--import=nowhere.json cannot be read"),
        (("tune", "--export", "no/where.json", "--gpu", "H200"), "in a folder that does not exist"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message):
    assert message in error(*arguments)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """An H200 on which `gemv` takes 5 us and everything else 6 us, and nothing is compiled."""

    def us(config):
        return 5.0 if isinstance(config, GemvConfig) else 6.0

    gpu = SimpleNamespace(hardware=H200)
    monkeypatch.setattr(tuned, "best", BEST)  # what is tuned counts
    monkeypatch.setattr(api, "gpu_count", lambda: 1)
    monkeypatch.setattr(gpu_backend, "backend", lambda device: gpu)
    monkeypatch.setattr(stand, "GpuStand", lambda problem, backend: nullcontext(PretendedStand(us)))
    monkeypatch.setattr(pool, "CompilerPool", lambda jobs: nullcontext(InstantPool()))
    monkeypatch.setattr(search, "Settings", partial(search.Settings, settled=Turns(cycles=5), near=2.0))


def test_what_wins_is_shown_with_the_others_whatever_their_kernels(pretended_gpu):
    arguments = (
        "tune",
        "--shape",
        "16,4096,1001",
        "--shape",
        "3,8192,1024",
        "--shape",
        "512,1024,1023",
        "--seconds",
        "1000",
    )
    said = invoke(*arguments).stdout
    assert len(re.findall("^16x4096x1001 .* Configs timed", said, re.MULTILINE)) == 1
    assert {"GemvConfig", "WgmmaConfig"} <= set(re.findall(r"of untuned  (\w+)\(", said))
    assert len(re.findall(r"^  seconds: operands 0\.0, compilers \d", said, re.MULTILINE)) == 3
    assert "for want of time" not in said
    assert "16x4096x1001: known" in invoke(*arguments).stdout
    known = in_json(*arguments, "--list")
    kernels = {product["known"]["m"]: product["known"]["kernel"] for product in known["products"]}
    assert kernels == {16: "gemv", 3: "gemv", 512: "wgmma"}
    assert len(known["entries"]) == 3


def test_a_product_gets_the_seconds_that_are_asked_for(pretended_gpu, monkeypatch):
    asked = []

    class Watched(Budget):
        def __init__(self, seconds, already):
            asked.append(seconds)
            super().__init__(0.0, already)

    monkeypatch.setattr(search, "Budget", Watched)
    (product,) = in_json("tune", "--shape", "512,1024,1024", "--seconds", "25")["products"]
    assert (product["measured"], product["late"] > 30) == (1, True)
    assert product["seconds"] == pytest.approx(sum(product["spent"].values()))
    assert (
        "left out for want of time (--seconds gives more)"
        in invoke("tune", "--shape", "512,1024,1024", "--again").stdout
    )
    assert asked == [25.0, 10.0]
    assert "--seconds': Input should be greater than or equal to 1" in error(
        "tune", "--shape", "512", "--seconds", "0.5"
    )


@pytest.mark.parametrize(
    ("epilogue", "shown"), [("[bold red]x[/] [/nope]", "[/nope]"), ("\ud800", r"\ud800"), ("\x1b[2J", r"\x1b[2J")]
)
def test_what_others_wrote_into_a_table_is_shown_as_it_is(folder, epilogue, shown):
    strange = entry()
    Store("H200-132").add([strange._replace(key=strange.key._replace(epilogue=epilogue))])
    text = invoke("tune", "--list", "--gpu", "H200").stdout
    assert shown in text
    assert "\x1b" not in text


def test_tables_are_listed_exported_and_imported(folder, tmp_path, monkeypatch):
    assert "nothing was tuned for an H200" in invoke("tune", "--list", "--gpu", "H200").stdout
    shipped = len(tuned.store("H200-132").shipped())
    assert ("In the package's own table" in invoke("tune", "--list", "--gpu", "H200").stdout) == (shipped > 0)
    assert len(in_json("tune", "--list", "--gpu", "H200")["shipped"]) == shipped
    Store("H200-132").add([entry(), entry(m=7)])
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    Store("H200-132", [tmp_path / "shared" / "tuned"]).add([entry(m=11)])
    for each in (default_cache, tuned.store):
        each.cache_clear()
    shared = in_json("tune", "--list", "--gpu", "H200")["others"]
    assert [[each["m"] for each in entries] for entries in shared.values()] == [[11]]
    assert "where no table before it has one that can be used" in invoke("tune", "--list", "--gpu", "H200").stdout
    listed = in_json("tune", "--list", "--gpu", "H200")
    assert listed["entries"] == json.loads(json.dumps([entry(m=7).as_dict(), entry().as_dict()]))
    assert "4.25" in invoke("tune", "--list", "--gpu", "H200").stdout
    exported = tmp_path / "exported.json"
    invoke("tune", "--export", str(exported), "--gpu", "H200")
    other = tmp_path / "other.json"
    newer, older = (
        entry(stages=4, date="2026-02-01T00:00:00+00:00"),
        entry(m=7, stages=5, date="2025-01-01T00:00:00+00:00"),
    )
    other.write_text(encode(Table([newer, older, entry(m=9)]), "H200-132"))
    assert in_json("tune", "--import", str(other), "--gpu", "H200")["imported"] == 3
    assert Store("H200-132").table().entries() == [entry(m=7), entry(m=9), newer]
    invoke("tune", "--import", str(exported), "--gpu", "H200")
    assert Store("H200-132").table().entries() == [entry(m=7), entry(m=9), newer]


def test_a_record_is_no_suite():
    assert "record.json is no suite: `tilewright bench` alone shows records" in error("compile", "record.json")


def test_an_export_of_nothing_says_so_and_what_to_do(folder, tmp_path):
    export = ("tune", "--gpu", "A100", "--export", tmp_path / "none.json")
    said = invoke(*export, "--list").stdout
    assert said.startswith(f"{tmp_path}/none.json: entries written: 0\n")
    assert said.count("nothing was tuned for an A100-108: `tilewright tune SUITE` does it, on that GPU\n") == 1
    assert in_json(*export)["exported"] == 0


@pytest.mark.parametrize("option", ["--list", "--export"])
def test_a_damaged_table_is_said_and_overwrites_no_export(tmp_path, option):
    store, exported = Store("H200-132"), tmp_path / "exported.json"
    store.add([entry()])
    invoke("tune", "--export", str(exported), "--gpu", "H200")
    before, to = exported.read_text(), [str(exported)] if option == "--export" else []
    store.path.write_text(before[:100])
    assert f"{store.path} cannot be used: it is not JSON" in error("tune", option, *to, "--gpu", "H200")
    store.path.unlink()
    store.path.mkdir()
    said = error("tune", option, *to, "--gpu", "H200")
    assert f"{store.path} cannot be read (Is a directory): make it readable" in said
    assert exported.read_text() == before


def test_a_table_of_another_gpu_is_not_imported_and_nothing_is_lost(tmp_path):
    Store("H200-132").add([entry()])
    other = tmp_path / "other.json"
    other.write_text(encode(Table([entry(m=7)]), "A100"))
    assert "it is for GPU 'A100', and this one is 'H200-132'" in error("tune", "--import", str(other), "--gpu", "H200")
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"format": 1}))
    assert "not a table of tuned Configs" in error("tune", "--import", str(broken), "--gpu", "H200")
    for field, value in (("stages", "3"), ("epilogue", "x"), ("swap_ab", 1)):
        wrong = entry(m=7)
        broken.write_text(encode(Table([wrong._replace(config={**wrong.config, field: value})]), "H200-132"))
        said = error("tune", "--import", str(broken), "--gpu", "H200")
        assert f": it has a config with {field}={value!r}: write one" in said
    for wrong, reason in (
        (entry(stages=50, date="2026-12-01"), "512x512x512 bf16 nt: its Config cannot be used: it needs"),
        (entry(stages=1, date="2026-12-01"), "its Config cannot be used: it breaks the rule `stages >= 2`"),
        (entry()._replace(key=entry().key._replace(dtype="fp32")), "wgmma does not take it: wgmma multiplies"),
    ):
        broken.write_text(encode(Table([wrong]), "H200-132"))
        assert reason in error("tune", "--import", str(broken), "--gpu", "H200")
    assert Store("H200-132").table().entries() == [entry()]
