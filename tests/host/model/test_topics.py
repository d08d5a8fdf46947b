"""Every topic of `tilewright model`: its help, its forms, and what it refuses."""

import json
import re
import shlex
from typing import Any, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.cli.model import TOPICS

PROGRAM: Any = typer.main.get_command(app)
GROUP = PROGRAM.commands["model"]
NAMES = list(GROUP.commands)


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["model", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def examples(name):
    """The commands in a topic's help, as words without `tilewright model`; lines that end with a backslash go on."""
    text = GROUP.commands[name].help.partition("Examples:")[2].replace("\\\n", " ")
    return [shlex.split(line)[2:] for line in text.splitlines() if line.strip().startswith("tilewright model ")]


def numbers(name):
    """The parameters of a topic that take one whole number."""
    kinds = get_type_hints(GROUP.commands[name].callback)
    return [each for each in GROUP.commands[name].params if kinds.get(each.name) in (int, int | None)]


def with_value(words, parameter, value):
    """An example with another value of a parameter; None if it is a position that the example has not."""
    if parameter.param_type_name == "option":
        return [*words, parameter.opts[0], value]
    place = [each.name for each in GROUP.commands[words[0]].params if each.param_type_name == "argument"].index(
        parameter.name
    )
    if len(words) <= place + 1 or words[place + 1].startswith("-"):
        return None
    return [*words[: place + 1], value, *words[place + 2 :]]


def test_alone_it_lists_the_topics():
    assert len(NAMES) == len(TOPICS) >= 2
    listed = json.loads(invoke("--json").stdout)["topics"]
    assert list(listed) == NAMES
    assert all(re.fullmatch(r"\S.*\S\.", about) for about in listed.values())
    assert [line.split()[0] for line in invoke().stdout.splitlines()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_the_help_run_and_print_one_object(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = examples(name)
    assert len(found) >= 2
    for words in found:
        record = json.loads(invoke(*words, *(() if "--json" in words else ("--json",))).stdout)
        assert record
        assert "error" not in record
        if "--plot" in words:
            assert (tmp_path / words[words.index("--plot") + 1]).stat().st_size > 1000
    words = [word for word in found[0] if word != "--json"]
    assert len(invoke(*words).stdout.splitlines()) > 1


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_chip_is_refused(name):
    options = [option for each in GROUP.commands[name].params for option in each.opts]
    if "--chip" not in options:
        pytest.skip("it is of no chip")
    done = invoke(*examples(name)[0], "--chip", "Voodoo2", "--json", code=2)
    message = json.loads(done.stdout)["error"]
    assert message.startswith("--chip='Voodoo2' is unknown: use ")
    assert "H200" in message


def test_a_gpu_has_one_name_in_all_commands():
    """`model` knows more GPUs than those that kernels are planned for, and says so of them all by either name."""
    for option in ("--chip", "--gpu"):
        assert json.loads(invoke("waves", 115, 1, "--tile", "1,1", option, "H100-PCIe", "--json").stdout)["count"] == 2
        found = CliRunner().invoke(app, ["explain", "64", "64", "64", option, "H20", "--json"])
        assert json.loads(found.stdout)["gpu"] == "H20"


@pytest.mark.parametrize("name", NAMES)
def test_negative_numbers_are_refused_with_one_error(name):
    words = [word for word in examples(name)[0] if word != "--json"]
    assert numbers("waves")
    for parameter in numbers(name):
        bad = with_value(words, parameter, "-3")
        if bad is None:
            continue
        done = invoke(*bad, "--json", code=2)
        assert "-3" in json.loads(done.stdout)["error"]
        assert done.stderr.count("tilewright: ") == 1


LONG = re.compile(r"(?<![\w.,-])\d{4,}(?!\w)")
"""Four digits in a row, but those of names and behind a point."""
SHAPE = re.compile(r"\d+(?: x \d+)+")


@pytest.mark.parametrize("name", [*NAMES, "explain", "inspect"])
def test_numbers_have_commas_between_thousands(name):
    """All but shapes, words of instructions, fields of a tensor map, and what was typed."""
    if name in ("control", "tensor-map"):
        pytest.skip("it shows values as programs have them")
    asked = {
        "explain": [["explain", "16", "28672", "8192", "--gpu", "H20"], ["explain", "8192", "8192", "8192"]],
        "inspect": [["inspect", "wgmma"]],
    }.get(name) or [["model", *words] for words in examples(name) if "--plot" not in words and "--json" not in words]
    for words in asked:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        typed = set(re.findall(r"\d+", " ".join(words)))
        shown = SHAPE.sub("", done.stdout.partition("\nsources\n")[0])
        assert set(LONG.findall(shown)) - typed == set(), shown


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    words = examples("waves")[0]
    assert "is in a folder that does not exist" in invoke(*words, "--plot", tmp_path / "a" / "b.svg", code=2).stderr
    assert "has a suffix that is not drawn" in invoke(*words, "--plot", tmp_path / "b.xyz", code=2).stderr


def test_a_dark_picture_differs_and_needs_a_file(tmp_path):
    words = examples("waves")[0]
    for name, dark in (("light.png", ()), ("dark.png", ("--dark",))):
        invoke(*words, "--plot", tmp_path / name, *dark)
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()
    assert (
        "--dark is about the picture, and there is none: give --plot FILE, too"
        in invoke(*words, "--dark", code=2).stderr
    )


def test_a_pair_that_is_none_is_refused():
    for text in ("3", "3,4,5", "a,b", "-1,2", "3,", "0,4"):
        done = invoke("waves", 5, 5, f"--tile={text}", code=2)
        assert f"--tile='{text}' is not M,N: write whole numbers from 1 on" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "hardware", "H200"), "--json stands before hardware: write it behind"),
        (("hardware", "H200", "--plot", "a.gif"), "has a suffix that is not drawn: use .png, .svg or .pdf"),
        (("swizzle", "--bms", "9,9,9"), "--bms=9,9,9 repeats after 134,217,728 bytes"),
        (("tiling", 512, 512, 512, "--chip", "V100"), "--chip=V100 is sm_70, and tilewright's kernels need sm_80"),
        (("roofline", 512, 512, 512, "--chip", "B200", "--kernel", "mma"), "mma multiplies bf16 by mma, whose rate"),
        (("tiling", 512, 512, 512, "--chip", "B200", "--dtype", "bf16"), "use another --chip, --dtype or --layout"),
        (("tiling", 512, 512, 512, "--chip", "V100"), "later GPU, or --kernel volta_mma, which shows its tensor cores"),
        (("tiling", 64, 64, 64, "--chip", "A100", "--dtype", "fp8_e4m3"), "mma needs tensor cores for fp8, sm_89 or"),
        (("roofline", 64, 64, 64, "--chip", "V100", "--kernel", "volta_mma"), "volta_mma makes whole tiles, for"),
        (("roofline", 64, 64, 64, "--chip", "B200", "--dtype", "int8"), "mma multiplies int8 by mma, whose rate there"),
        (("tiling", 512, 512, 512, "--chip", "A100", "--kernel", "wgmma"), "A100 is sm_80; use --kernel mma, simt"),
        (("tensor-map", 512, 512, 512, "--kernel", "mma"), "does not use TMA, so it has no tensor maps: use"),
        (("wgmma", "--chip", "B200"), "--chip=B200 has no wgmma, which Hopper alone has: use H100-SXM"),
        (("waves", 512, 512, "--sms", 10_001), "--sms=10001 must be an integer from 1 to 10,000"),
        (("waves", 512, 512, "--ctas-per-sm", 33), "--ctas-per-sm=33 must be an integer from 1 to 32"),
        (("issue", "--registers", "1,2,3,4"), "--registers=[1, 2, 3, 4] are more than an instruction reads: give 3"),
        (("l1", "lane*4", "--smem", 999_999), "--smem=999999 bytes cannot be set aside for shared memory: use 0, 8"),
        (("l2", 512, 512, 512, "--chip", "V100"), "--chip=V100 has an L2 of one part: use A100"),
        (("llm", "llama-2-7b", "--weight-bits", 0), "--weight-bits=0 is no width of a weight: give 1 to 16"),
        (("speed-of-light", "-1", 2, 3), "M N K='-1 2 3' is not a shape: write M,N,K of natural"),
        (("occupancy", "--smem", 999_999), "--smem=999999 must be an integer from 0 to 232,448: give one"),
        (("waves", 9, 9, "--tile", "257,256"), "--tile=257 by 256 columns makes 65,792 sums, and an SM has registers"),
        (("waves", 9, 9, "--tile", "256,256", "--ctas-per-sm", 2), "registers for 32,768, for each of 2 CTAs: give a"),
        (("raster", 9, 9, "--tile", "1,99999,1"), "--tile=99999 must be an integer from 1 to 65,536"),
        (("l2", 9, 9, 9, "--tile", "128,128,999"), "--tile=999 takes 511,488 bytes of SMEM for A and B, and a CTA has"),
        (("speed-of-light", 1, 1, 1, "--watts", 1), "--watts=1 is no power limit of an H200: give 200 to 700"),
        (("chains", 3, "--chains", 0), "--chains=0 must be an integer from 1"),
        (("sums", "--k", 10**9), "--k=1000000000 must be an integer from 1 to 65,536"),
        (("waves", 2**62, 1), "M=4611686018427387904 must be an integer from 1 to 9,007,199,254,740,992"),
        (("l1", "lane*4", "--sets", 2**62), "--sets=4611686018427387904 must be an integer from 1 to 2,048"),
        (("control", "-3"), "WORD=-0x3 is no instruction: give 128 bits"),
        (("coalescing", "-lane*4"), "if -lane*4 is a value, write `-- '-lane*4'` at the end"),
        (("hardwear",), "'hardwear' does not exist: use hardware, "),
        (("speed-of-light", "--clock=-5.0"), "--clock=-5 is no clock of H200: give MHz above 0 and up to 1980"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_remedy(words, said):
    assert said in invoke(*words, code=2).stderr


@pytest.mark.parametrize(("chip", "kernel"), [("H200", "wgmma"), ("A100", "mma"), ("B200", "simt")])
def test_a_product_is_cut_by_the_first_kernel_of_the_planner_that_takes_it(chip, kernel):
    for topic in ("tiling", "roofline"):
        assert json.loads(invoke(topic, 512, 512, 512, "--chip", chip, "--json").stdout)["kernel"] == kernel


@pytest.mark.parametrize(
    ("chip", "dtype", "kernel", "out", "tflops"),
    [
        ("H200", "fp8_e4m3", "wgmma", "bf16", 1978.9),
        ("H200", "fp8_e5m2", "wgmma", "bf16", 1978.9),
        ("H200", "int8", "wgmma", "int32", 1978.9),
        ("A100", "int8", "mma", "int32", 624),
        ("RTX-4090", "int8", "mma", "int32", 660.6),
    ],
)
def test_products_of_bytes_are_cut(chip, dtype, kernel, out, tflops):
    words = (512, 512, 512, "--chip", chip, "--dtype", dtype, "--json")
    record = json.loads(invoke("roofline", *words).stdout)
    assert (record["kernel"], record["dtype"], record["out_dtype"]) == (kernel, dtype, out)
    assert record["roofs"][0]["peak"] / 1e12 == pytest.approx(tflops, rel=0.001)
    gmem = json.loads(invoke("tiling", *words).stdout)["levels"][0]
    assert gmem["read_bytes"] == 2 * 512 * 512
    assert gmem["written_bytes"] == 512 * 512 * {"bf16": 2, "int32": 4}[out]


def test_fp8_takes_half_the_clocks_of_bf16():
    words = (
        "timeline",
        256,
        256,
        2048,
        "--kernel",
        "wgmma",
        "--config",
        "tile_m=128,tile_n=128,split_k=1,stages=3",
        "--json",
        "--dtype",
    )
    halves = [json.loads(invoke(*words, dtype).stdout)["tensor_clocks"] for dtype in ("bf16", "fp8_e4m3", "int8")]
    assert halves[0] == 2 * halves[1] == 2 * halves[2] > 0


def test_a_volta_has_the_roofline_of_its_own_rung():
    words = ("roofline", 4096, 4096, 4096, "--chip", "V100", "--kernel", "volta_mma", "--json")
    record = json.loads(invoke(*words).stdout)
    assert (record["chip"], record["kernel"], record["limit"]) == ("V100", "volta_mma", "the units")
    assert record["allowed"] / 1e12 == pytest.approx(125.3, abs=0.1)


def test_a_kernel_that_is_not_for_the_best_unit_is_explained():
    assert invoke("tiling", 512, 512, 512).stderr == ""
    assert invoke("tiling", 512, 512, 512, "--chip", "B200", "--dtype", "fp32").stderr == ""
    note = invoke("tiling", 512, 512, 512, "--chip", "B200").stderr
    assert (
        note == "tilewright: B200 multiplies bf16 best by tcgen05, but no kernel here uses it: simt is taken, in fp32\n"
    )
    said = invoke("roofline", 512, 512, 512, "--chip", "B200").stdout
    assert "CUDA cores, fp32 " in said
    assert said.splitlines()[-1] == "tcgen05 of B200 does 2,250 TFLOP/s in bf16: no kernel here uses it"
    of_mma = invoke("roofline", 512, 512, 512, "--kernel", "mma", "--dtype", "fp8").stdout.splitlines()[-1]
    assert of_mma == "wgmma of H200 does 1,979 TFLOP/s in fp8_e4m3: mma does not use it, as wgmma may"
    note = invoke("roofline", 511, 511, 511).stderr
    assert "H200 multiplies bf16 best by wgmma, but a has row stride 511" in note
    assert note.endswith(": mma is taken, in bf16\n")


def test_kernels_that_are_named_as_a_remedy_run():
    words = ("tiling", 512, 512, 512, "--chip", "B200", "--kernel")
    named = invoke(*words, "wgmma", code=2).stderr.strip().rpartition("use --kernel ")[2].split(", ")
    assert "simt" in named
    for name in named:
        invoke(*words, name)
        invoke("roofline", *words[1:], name)


def test_all_bits_of_an_offset_are_shown():
    rows = [row.split() for row in invoke("swizzle", "--offset", 99_999_999).stdout.splitlines()]
    shown = next(row[1] for row in rows if row[0] == "offset")
    assert int(shown.replace("_", ""), 2) == 99_999_999


def test_what_does_not_depend_on_the_question_can_be_left_out():
    assert "a tile in SMEM" in invoke("swizzle", 64).stdout
    assert "a tile in SMEM" not in invoke("swizzle", 64, "--offset", 200).stdout
    whole, values = (invoke("tensor-map", 512, 512, 512, *words).stdout for words in ((), ("--values",)))
    assert "(1 to 256;" in whole
    assert "(1 to 256;" not in values
    assert [line.split()[0] for line in whole.splitlines()] == [line.split()[0] for line in values.splitlines()]


def test_gaps_of_a_time_line_add_up():
    words = ("timeline", 512, 512, 1024, "--kernel", "wgmma_pipelined")
    record, rows = json.loads(invoke(*words, "--json").stdout), invoke(*words).stdout.splitlines()
    heading = next(at for at, row in enumerate(rows) if "gap of the tensor cores" in row)
    clocks = [float(row.split()[-1].replace(",", "")) for row in rows[heading + 1 :]]
    assert "... and" in rows[-1]
    assert sum(clocks) == pytest.approx(record["clocks"] - record["tensor_clocks"], abs=len(clocks))
