"""`tilewright inspect`: resources, loops, remarks, instructions and listings of a kernel."""

import pytest

from support.commands import error, in_json, invoke
from tilewright.jit.compile import compilable
from tilewright.kernels.registry import KERNELS


def test_inspect_reports_resources_and_listings():
    record = in_json("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source")
    assert record["registers"] > 0
    assert record["spill_bytes"] == 0
    assert (record["m"], record["n"], record["k"]) == (64, 64, 64)
    assert f".entry {record['entry']}" in record["ptx"]
    assert "struct Config" in record["source"]
    assert any(opcode.startswith("mma.sync") for opcode in record["instruction_mix"]["ptx"])
    assert "registers per thread" in invoke("inspect", "mma", "--problem", "64x64x64").stdout
    assert invoke("inspect", "mma", "--problem", "64,64,64", "--ptx").stdout.lstrip().startswith("//")
    both = invoke("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source").stdout
    assert both.index("struct Config") < both.index("\n// ptx\n") < both.index(".entry")


def test_inspect_shows_first_what_tells_kernels_apart():
    text = invoke("inspect", "wgmma").stdout
    special, _, others = text.partition("Of the others")
    for name in ("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", "setmaxnreg"):
        assert f"  {name}" in special
        assert f"  {name}" not in others
    assert "cvt.rn.bf16x2.f32" in others


@pytest.mark.parametrize("kernel", ["mma", "simt"])
@pytest.mark.parametrize("arch", ["sm_86", "sm_90", "sm_120"])
def test_inspect_compiles_for_architectures_without_an_entry(kernel, arch):
    record = in_json("inspect", kernel, "--problem", "64,64,64", "--arch", arch, "--ptx")
    assert record["arch"] == arch
    assert f".target {arch}" in record["ptx"]


CTAS_PER_SM = {
    "register_tiles": (1, "registers"),
    "warp_tiles": (2, "registers"),
    "wmma_gmem": (4, "registers"),
    "mma_warp": (32, "CTAs"),
    "wgmma_basic": (8, "registers"),
    "wgmma_larger_tile": (3, "registers"),
    "wgmma_pipelined": (1, "shared memory"),
}
"""CTAs per SM of some rungs on Hopper, and what limits them."""


@pytest.mark.parametrize("rung", CTAS_PER_SM)
def test_inspect_tells_the_ctas_per_sm_and_their_limit(rung):
    ctas, limit = CTAS_PER_SM[rung]
    held = in_json("inspect", rung)["occupancy"]
    assert held["ctas"] == ctas
    assert limit in held["limits"]


def test_inspect_leaves_the_occupancy_out_where_the_limits_are_unknown():
    thor = "sm_110" if 110 in compilable() else "sm_101"  # as CUDA 12 has it
    assert in_json("inspect", "simt", "--problem", "64,64,64", "--arch", thor)["occupancy"] is None
    assert "CTAs per SM" not in invoke("inspect", "simt", "--problem", "64,64,64", "--arch", thor).stdout


def test_inspect_shows_loops_and_remarks():
    text = invoke("inspect", "coalesced").stdout
    assert "one_element.cuh:19      4            24  4 fma" in text
    assert "  one_element.cuh:19: narrow\n    4 loads from GMEM of 4 bytes lie side by side" in text
    assert "tilewright check coalesced --lines" in text
    assert "loads from GMEM  10 of 4 B" in text
    record = in_json("inspect", "coalesced", "--lines")
    assert [each["kind"] for each in record["remarks"]] == ["narrow"]
    assert record["loops"]["ptx"][0]["copies"] == 4
    assert record["accesses"]["ptx"] == {"loads from GMEM": {"4": 10}, "stores to GMEM": {"4": 1}}
    (line,) = [each for each in record["lines"] if each["place"] == "one_element.cuh:19"]
    assert line["source"].startswith("for (int k = 0;")
    assert "None: loops, widths" in invoke("inspect", "wgmma").stdout


def test_inspect_prints_listings_by_lines_of_the_source_in_100_columns():
    printed = invoke("inspect", "mma", "64", "64", "64", "--lines").stdout.splitlines()
    assert max(map(len, printed)) <= 100
    multiplied = "  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    at = next(number for number, line in enumerate(printed) if line.startswith(multiplied))
    assert printed[at - 1].startswith(("mma.cuh:23  ", "mma.cuh:26  "))  # the asm begins, or ends for CUDA 12


@pytest.mark.parametrize(
    ("words", "product", "opcode"),
    [
        (("wgmma", "--problem", "64,64,256", "--dtype", "fp8_e4m3", "--recipe", "1x128_128x128"),
         "64x64x256 fp8_e4m3 1x128_128x128 nt -> bf16", "k32.f32.e4m3.e4m3"),
        (("mma", "--problem", "64,64,64", "--dtype", "int8", "--arch", "sm_80"), "64x64x64 int8 nt -> int32",
         "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
        ((64, 64, 256, "--dtype", "int8", "--recipe", "row"), "64x64x256 int8 row nt -> bf16", "mma"),
    ],
)  # fmt: skip
def test_inspect_compiles_kernels_of_fp8_and_int8(words, product, opcode):
    record = in_json("inspect", *words)
    assert record["product"] == product
    assert any(opcode in each for each in record["instruction_mix"]["ptx"])
    assert f" for {product}\n" in invoke("inspect", *words).stdout


@pytest.mark.parametrize("target", [("wgmma", 64, 512, 512), (64, 512, 512)])
def test_inspect_compiles_a_config_of_which_fields_are_given(target):
    found = in_json("inspect", *target, "--config", "tile_m=64,tile_n=64,stages=3,split_k=2")
    assert [found["config"][name] for name in ("tile_m", "tile_n", "stages", "split_k")] == [64, 64, 3, 2]
    assert found["cluster"] == 2


@pytest.mark.parametrize("words", [("simt", "0", "8", "8"), ("0", "8", "8"), ("mma", "--problem", "8,0,8")])
def test_a_product_without_results_has_no_kernel_to_show(words):
    assert "leaves no elements of out, so nothing runs: give an M and an N of 1 or more" in error("inspect", *words)


def test_inspect_takes_a_product_for_the_kernel_of_the_planner():
    record = in_json("inspect", "4096", "4096", "4096", "--dtype", "fp16")
    assert (record["kernel"], record["dtype"], record["m"]) == ("wgmma", "fp16", 4096)
    assert record["threads"] == 384
    assert in_json("inspect", "4096x4096x4096", "--dtype", "fp16") == record
    assert "M N K='33 4096' is not a shape: write M,N,K" in error("inspect", "33", "4096")
    for shape in ((64, 64, 64), ("64,64,64",)):
        for words in (shape, ("mma", *shape)):
            assert "two shapes: leave one out" in error("inspect", *words, "--problem", "64,64,64")


@pytest.mark.parametrize(("kernel", "layout"), [("uncoalesced", "tt"), ("coalesced", "tn")])
@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_rung_refuses_another_layout_without_a_shape_as_with_one(command, kernel, layout):
    for shape in ((), (64, 64, 64)):
        assert f"{kernel} takes layout nn, for which" in error(command, kernel, *shape, "--layout", layout)


def test_copy_is_inspected_without_a_sum():
    record = in_json("inspect", "copy")
    assert (record["m"], record["n"], record["k"]) == (4096, 4096, 0)


@pytest.mark.parametrize(
    ("kernel", "arch", "said"),
    [
        ("wgmma", "sm_90", "on a GPU of sm_90: wgmma needs sm_90a (Hopper) and this GPU is sm_90; use --arch sm_90a"),
        ("gemv", "sm_80", "on A100: gemv needs clusters, sm_90 or later, and A100 is sm_80; use --arch sm_90a"),
    ],
)
def test_inspect_says_for_which_architecture_a_kernel_is(kernel, arch, said):
    assert said in error("inspect", kernel, "--arch", arch)
    assert "use --arch" not in error("inspect", "uncoalesced", "--layout", "tt", "--arch", arch)


def test_inspect_takes_a_gpu_in_place_of_an_architecture():
    words = ("inspect", 16, 4096, 4096, "--gpu")
    found = {name: in_json(*words, name) for name in ("A100", "h20", "H200")}
    assert [record["gpu"] for record in found.values()] == ["A100", "H20", "H200"]
    assert [record["arch"] for record in found.values()] == ["sm_80", "sm_90a", "sm_90a"]
    for name, record in found.items():
        assert record["config"] == in_json("explain", *words[1:], name)["config"]
    assert found["h20"]["config"] != found["H200"]["config"]
    assert found["H200"] == in_json(*words[:4])
    assert "--gpu=A100 and --arch=sm_80 both say what to compile for: leave one out" in error(
        *words, "A100", "--arch", "sm_80"
    )
    assert "--gpu=V100 is sm_70, and tilewright's kernels need sm_80: use A100" in error(*words, "V100")
    assert "--gpu='H2'" in error(*words, "H2")


def test_the_help_of_inspect_names_every_production_kernel():
    text = " ".join(invoke("inspect", "--help").stdout.replace("│", " ").split())
    assert f"({', '.join(KERNELS)})" in text
    assert "for gemv also sm_90" in text
    assert "for mma, simt and copy also sm_80 to sm_89" in text


@pytest.mark.parametrize("command", ["run", "inspect", "check"])
def test_an_error_about_a_type_names_the_option_that_gave_it(command):
    words = (command, 64, 64, 64) if command == "run" else (command, "mma")
    assert "--dtype is fp32 and b is fp16: both must" in error(*words, "--dtype", "fp32", "--b-dtype", "fp16")


SOURCE = """#include "width.cuh"
template <int N> __global__ void __launch_bounds__(128) scale(float* out, const float* in) {
#pragma unroll
  for (int i = 0; i < N; ++i) out[threadIdx.x + WIDTH * i] = in[threadIdx.x + WIDTH * i] * FACTOR;
}
__global__ void other(double* out) { out[threadIdx.x] = 0; }
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "width.cuh").write_text("#define WIDTH 128\n")
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    return path


def test_inspect_takes_a_source_of_the_user(source):
    compiling = ("inspect", source, "--include", source.parent / "headers", "--define", "FACTOR=2.0f")
    record = in_json(*compiling, "--entry", "scale<4>", "--ptx", "--source")
    assert (record["kernel"], record["threads"]) == ("scale<4>", 128)
    assert record["accesses"]["ptx"] == {"loads from GMEM": {"4": 4}, "stores to GMEM": {"4": 4}}
    assert record["unrolled"] == [{"place": "scale.cu:4", "pragma": "#pragma unroll", "copies": None}]
    assert record["occupancy"]["warps_per_cta"] == 4
    assert (record["remarks"], record["source"]) == ([], SOURCE)
    assert f".entry {record['entry']}" in record["ptx"]
    text = invoke(*compiling, "--entry", "other").stdout
    assert f"other of {source}" in text
    assert "unknown: give --block" in text
    assert in_json(*compiling, "--entry", "other", "--block", 64, "--arch", "sm_80")["occupancy"]["warps_per_cta"] == 2
    assert 'cannot open source file "width.cuh"' in error("inspect", source, "-D", "FACTOR=1")


def test_inspect_refuses_options_of_the_other_kind(source):
    assert "--dtype is for a product" in error("inspect", source, "--dtype", "bf16")
    assert "--define is for a kernel of a file" in error("inspect", "mma", "-D", "N=4")
    assert "is not CUDA C++" in error("inspect", "./kernel.ptx")
    assert "a file (FILE.cu, ./FILE), M N K or one of" in error("inspect", "nothing")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--block", 5000), "--block=5000 must be an integer from 1 to 1,024"),
        (("--block", 64, "--shared-bytes", 999_999), "--shared-bytes=999999 must be an integer from 0 to 232,448"),
    ],
)
def test_what_no_cta_can_have_is_refused_by_its_option(source, options, said):
    compiling = ("--include", source.parent / "headers", "--define", "FACTOR=2.0f", "--entry", "other")
    assert said in error("inspect", source, *compiling, *options)
