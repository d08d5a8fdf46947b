"""`tilewright.explain` and `tilewright explain`: parts that add up, and causes that are causes."""

import json
import re
from inspect import signature

import numpy as np
import pytest

import tilewright as tw
from support.commands import error, in_json, invoke
from support.explained import explained, stored
from tilewright.errors import ArgumentTypeError
from tilewright.explaining.screen import WIDTH, text
from tilewright.hardware import H200, named
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner.choose import choose

CASES = [
    (4096, 4096, 4096, "bf16", "nt", "H200"),
    (4096, 4096, 4096, "bf16", "tt", "H20"),
    (1, 4096, 4096, "bf16", "nt", "H100"),
    (8, 12289, 4095, "fp16", "nn", "H100-PCIe"),
    (2047, 2049, 2051, "bf16", "nt", "H200"),
    (4096, 50257, 768, "bf16", "nt", "H200"),
    (512, 512, 512, "fp16", "tn", "H800"),
    (256, 4096, 11008, "bf16", "nt", "H200"),
    (300, 200, 1000, "fp32", "nn", "A100"),
    (1, 1, 1, "fp32", "nt", "A100"),
    (257, 255, 31, "bf16", "nt", "A100"),
]


@pytest.mark.parametrize("case", CASES)
def test_parts_add_up_to_what_the_planner_predicts(case):
    found, gpu = explained(*case), named(case[-1], "gpu")
    choice = choose(found.problem, gpu, quiet=True)
    assert (found.kernel, found.config) == (choice.kernel.name, choice.config)
    assert sum(found.time.parts.values()) == pytest.approx(choice.seconds(gpu, power="settled"), rel=1e-9)
    assert found.time.seconds == pytest.approx(choice.seconds(gpu, power="settled"), rel=1e-9)
    assert all(part >= 0 for part in found.time.parts.values())
    assert found.time.burst <= found.time.seconds * (1 + 1e-9)


@pytest.mark.parametrize("case", CASES)
def test_nothing_alone_limits_the_loop_more_than_all_together(case):
    time = explained(*case).time
    loop = time.parts["main loop"] + time.parts["tail"] + time.parts["prologue"] + time.parts["epilogue"]
    assert all(0 < limit <= loop * (1 + 1e-9) for limit in time.limits.values())
    assert list(time.limits.values()) == sorted(time.limits.values(), reverse=True)


@pytest.mark.parametrize("case", CASES)
def test_the_screen_fits(case):
    found = explained(*case)
    lines = str(found).splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= WIDTH
    record = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert text(record) == str(found)


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        ((4096, 4096, 4096, "bf16", "nt", "H200"), "power"),
        ((4096, 4096, 4096, "bf16", "nt", "H20"), "tensor cores"),
        ((1, 28672, 8192, "bf16", "nt", "H200"), "GMEM"),
        ((128, 128, 128, "bf16", "nt", "H200"), "launch"),
        ((301, 1501, 14001, "bf16", "nt", "H100"), "copies"),
    ],
)
def test_the_bound_is_what_holds_a_product_back(case, bound):
    assert explained(*case).time.bound == bound


def test_gmem_counts_what_the_epilogue_reads_and_writes():
    plain = explained(256, 128, 64).levels[0]
    names = ("c", "d")
    operands = dict.fromkeys(names, tw.spec((256, 128), "bf16"))
    found = explained(256, 128, 64, epilogue="acc + c * d", operands=operands).levels[0]
    assert (plain.name, plain.read_bytes, plain.written_bytes) == ("GMEM", 2 * 64 * (256 + 128), 2 * 256 * 128)
    assert found.read_bytes == plain.read_bytes + 2 * 2 * 256 * 128
    assert found.written_bytes == plain.written_bytes
    largest = explained(256, 128, 64, outputs={"acc": tw.spec((256, 128), "fp32")}).levels[0]
    assert largest.written_bytes == plain.written_bytes + 4 * 256 * 128
    gated = explained(256, 128, 64, gate="stacked", epilogue="silu(x) * y").levels[0]
    assert gated.written_bytes == plain.written_bytes // 2


def test_the_bound_on_h20_is_lifted_by_faster_tensor_cores():
    faster = named("H20", "gpu")
    doubled = tuple((unit, dtype, macs * 2) for unit, dtype, macs in faster.rates)
    problem, kernel = explained(4096, 4096, 4096, gpu="H20").problem, KERNELS["wgmma"]
    config = kernel.best(problem, faster)
    slow = kernel.breakdown(config, problem, faster).limits
    fast = kernel.breakdown(config, problem, faster._replace(rates=doubled)).limits
    assert fast["tensor cores"] == pytest.approx(slow["tensor cores"] / 2)
    assert fast["GMEM"] == slow["GMEM"]


def test_the_next_best_are_slower_and_say_where():
    found = explained(2176, 4096, 4096)
    assert len(found.rivals) == 3
    assert [rival.behind for rival in found.rivals] == sorted(rival.behind for rival in found.rivals)
    for rival in found.rivals:
        assert rival.config != found.config
        kernel = KERNELS[rival.kernel]
        assert rival.seconds == pytest.approx(kernel.ranked_seconds(rival.config, found.problem, H200))
        assert rival.behind >= -1e-12
        assert rival.behind == pytest.approx(sum(rival.grew.values()), abs=1e-12)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 4096, 4096), (16, 12288, 4096), (8, 11008, 4096), (127, 1999, 17)])
def test_the_chosen_kernel_has_the_least_of_the_ranked_times_that_are_said(m, n, k):
    found = explained(m, n, k, gpu="H100")
    ranked = {
        step.split()[0]: float(time.group(1))
        for step in found.decision
        if (time := re.search(r"ranked at ([\d.,]+) us", step))
    }
    assert len(ranked) > 1
    assert min(ranked, key=ranked.get) == found.kernel
    assert all(rival.behind >= 0 for rival in found.rivals)
    for rival in found.rivals:
        assert rival.behind == pytest.approx(sum(rival.grew.values()), abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "dtype", "gpu", "more", "said"),
    [
        ((64, 4096, 4096), "fp32", "H200", (), True),
        ((64, 4096, 4096), "fp32", "A100", (), False),  # which has no clusters
        ((64, 4096, 4096), "bf16", "H200", (), False),  # wgmma splits k all the same
        ((64, 4096, 4096), "bf16", "H200", ("--gate", "stacked"), False),  # which splits no k anyway
    ],
)
def test_column_sums_are_named_where_they_alone_leave_k_whole(shape, dtype, gpu, more, said):
    command = ("explain", *shape, "--dtype", dtype, "--gpu", gpu, *more, "--outputs")
    words = "none splits k, since column_sums are of whole tiles"
    assert (words in " ".join(in_json(*command, "column_sums,amax")["decision"])) is said
    assert words not in " ".join(in_json(*command, "amax")["decision"])


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_a_difference_that_are_said_add_up_to_it(case):
    shown = " ".join(str(explained(*case)).partition("\nnext best")[2].partition("\nwould help")[0].split())
    for behind, parts in re.findall(r": \+([\d.,]+) us, (.*?); its loop", shown):
        said = [float(value.replace(",", "")) for value in re.findall(r" ([+-][\d,]*\d(?:\.\d+)?)(?:,|$)", parts)]
        coarse = 1 if float(behind.replace(",", "")) >= 99.95 else 0.01
        assert sum(said) == pytest.approx(float(behind.replace(",", "")), abs=coarse * (len(said) + 1) / 2)


def test_a_bad_config_has_quicker_rivals():
    found = explained(4096, 4096, 4096, config=WgmmaConfig(64, 64, 4, epilogue="direct", overlap=False))
    assert found.rivals[0].behind < 0
    assert re.search(r"\nnext best  \d+x\d+: ranked \d+\.\d us quicker\n", str(found))
    assert "config=" in found.decision[0]


def test_zero_points_say_what_their_sums_cost():
    command = ("explain", 4096, 4096, 4096, "--dtype", "int8", "--recipe", "row", "--gpu", "H200")
    found, plain = in_json(*command, "--zero-a"), in_json(*command)
    assert found["epilogue"] == plain["epilogue"] == "acc"
    assert found["ahead"]["read_bytes"] == 4096 * 4096
    assert found["predicted_time_us"] - plain["predicted_time_us"] == pytest.approx(found["parts_us"]["copies"])
    small = tw.explain(
        *(tw.spec((256, 256), "int8", strides) for strides in ((256, 1), (1, 256))),
        recipe="row",
        scale_a=tw.spec((256, 1), "fp32"),
        scale_b=tw.spec((1, 256), "fp32"),
        zero_a=tw.spec((256, 1), "int32"),
        gpu="H200",
    )
    assert small.kernel == "mma"
    assert "; wgmma would sum the columns of b first, since zero_a is multiplied by the sums; " in small.reason


def test_what_is_made_ahead_is_in_the_table_of_bytes():
    found = explained(4095, 4095, 4095)
    read, written = found.ahead
    assert read == pytest.approx(2 * 2 * 4095 * 4095, abs=64)
    assert written == 2 * 2 * 4095 * 4096
    assert re.search(r"  ahead +67.1 MB   67.1 MB  ", str(found))
    assert "copying takes about 35 us" in found.reason
    aligned = explained(4096, 4096, 4096)
    assert aligned.ahead == (0, 0)
    assert "ahead" not in aligned.as_dict()


@pytest.mark.parametrize(
    ("dtype", "gpu", "unit"),
    [("fp32", "H200", "CUDA cores"), ("fp32", "A100", "CUDA cores"), ("fp16", "A100", "tensor cores")],
)
def test_no_unit_alone_is_quicker_than_its_data_sheet(dtype, gpu, unit):
    found = explained(4096, 4096, 4096, dtype, "nt", gpu)
    assert found.time.limits[unit] >= found.light.compute_seconds * (1 - 1e-9)
    assert found.time.bound == unit


@pytest.mark.parametrize("n", [32000, 128256, 400_000])
def test_memory_alone_is_not_quicker_than_its_data_sheet(n):
    found = explained(1, n, 4096, "bf16", "nt", "H200")
    assert found.kernel == "gemv"
    assert found.time.seconds > found.light.memory_seconds + 0.6e-6  # which a launch takes
    assert found.time.limits["GMEM"] >= found.light.memory_seconds * (1 - 1e-9)


def test_memory_alone_counts_no_launch():
    found = explained(1, 512, 512, "bf16", "nt", "H200")
    assert found.kernel == "gemv"
    assert found.light.memory_seconds <= found.time.limits["GMEM"] < 0.3e-6


def test_no_weights_come_as_quickly_as_the_data_sheet_says():
    for gpu in ("H200", "H100"):
        found = explained(1, 128256, 8192, "bf16", "nt", gpu)
        assert found.kernel == "gemv"
        assert 0.90 < found.light.memory_seconds / found.time.seconds < 0.95


def test_what_corrects_a_ranking_is_said_where_it_does():
    def said(*product):
        found = explained(*product)
        return " ".join(found.decision), {name for rival in found.rivals for name in rival.grew}

    decision, grew = said(64, 4096, 4096, "bf16", "nt", "H200")
    assert "measured launches correct the 32 quickest" in decision
    assert "as launches were measured" in grew
    assert "measured launches correct all" in said(1, 4096, 4096, "bf16", "nt", "H200")[0]
    for uncorrected in ((4096, 4096, 4096, "bf16", "nt", "H200"), (32, 4096, 4096, "bf16", "nt", "H100-PCIe")):
        decision, grew = said(*uncorrected)
        assert "measured launches" not in decision
        assert "as launches were measured" not in grew
    assert "as it is ranked" not in said(300, 1001, 77, "bf16", "nt", "A100")[1]


def test_alpha_of_0_leaves_nothing_to_explain():
    a, b = stored(4, 6, "fp16", "n"), stored(6, 4, "fp16", "n")
    with pytest.raises(ValueError, match=r"^alpha is 0, so there are no sums, and nothing to explain: give another"):
        tw.explain(a, b, alpha=0, gpu="H200")


def test_rows_that_come_free():
    found = explained(1, 4096, 4096)
    assert found.free_rows > 1
    assert explained(found.free_rows, 4096, 4096).time.seconds <= 1.02 * found.time.seconds
    assert explained(2 * found.free_rows, 4096, 4096).time.seconds > 1.02 * found.time.seconds


def test_the_decision_names_who_was_asked():
    decision = explained(300, 200, 1000, "fp32", "nn").decision
    assert decision[0].startswith("fp32 takes CUDA cores")
    assert decision[1].startswith("wgmma does not take it")
    assert decision[3].startswith("simt takes it, ranked at")
    assert not any("ranked times" in step for step in decision)
    few = " ".join(explained(16, 4096, 11008).decision)
    assert "ranked times only choose, and may be a third off" in few
    assert "gemv contends" in few or "wgmma contends" in few
    tree = "for comparison, a published decision tree would take a thin kernel, since min(m, n) < 64"
    assert f"{tree}; docs/choosing.md judges it" in few


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "64x32x96 fp16 nt -> fp16 on an H200"),
        ({"bias": tw.spec((32,), "fp16"), "activation": "gelu"}, "-> fp16, gelu(acc + bias), on an H200"),
        ({"epilogue": "silu(x) *\n y", "gate": "stacked"}, "-> fp16, silu(x) * y, on an H200"),
        ({"epilogue": "acc + 1" + " + 1" * 30}, "-> fp16, acc + 1 + 1"),
    ],
)
def test_the_first_line_says_what_becomes_of_the_sum(options, said):
    found = tw.explain(stored(64, 96, "fp16", "n"), stored(96, 32, "fp16", "t"), gpu="H200", **options)
    assert said in str(found).split("\n")[0]


@pytest.mark.parametrize(
    ("m", "k", "words"),
    [(1, 4096, "a GEMV"), (63, 64, "a thin kernel"), (64, 257, "stream-K"), (64, 256, "a tiled GEMM")],
)
def test_the_published_tree_has_its_thresholds(m, k, words):
    assert words in explained(m, 128, k).decision[-1]


def test_arrays_and_specs_are_explained_alike():
    a, b = np.empty((64, 96), np.float16), np.empty((32, 96), np.float16).T
    of_arrays = tw.explain(a, b, gpu="h200")
    assert of_arrays.problem == explained(64, 32, 96, "fp16").problem
    assert of_arrays == explained(64, 32, 96, "fp16")


def test_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr("tilewright.jit.cache.build", lambda *_: pytest.fail("compiled"))
    monkeypatch.setattr("tilewright.planner.planning.build", lambda *_: pytest.fail("compiled"))
    assert explained(96, 96, 96).kernel == "wgmma"


def test_batches_count_their_bytes_once_each():
    one, eight = (
        tw.explain(tw.spec((*batch, 512, 512), "bf16"), tw.spec((*batch, 512, 512), "bf16"), gpu="H200")
        for batch in ((), (8,))
    )
    assert eight.levels[0].read_bytes == 8 * one.levels[0].read_bytes
    assert eight.levels[0].read_bytes + eight.levels[0].written_bytes == eight.problem.minimum_bytes
    assert eight.problem.batch == (8,)


def test_an_expression_is_explained():
    a, b = tw.spec((64, 96), "bf16"), tw.spec((96, 128), "bf16")
    found = tw.explain(
        a, b, epilogue="x * y + bias", operands={"bias": tw.spec((64,), "bf16")}, gate="stacked",
        outputs={"amax": tw.spec((1,), "fp32")}, gpu="H200",
    )  # fmt: skip
    assert found.problem.columns == 64
    assert [name for name, _ in found.problem.epilogue.written()] == ["outputs['amax']"]


def test_scales_of_fp8_are_explained():
    a, b = tw.spec((64, 256), "fp8_e4m3"), tw.spec((256, 128), "fp8_e4m3", (1, 256))
    scales = {"recipe": "row", "scale_a": tw.spec((64, 1), "fp32"), "scale_b": tw.spec((1, 128), "fp32")}
    found = tw.explain(a, b, bias=tw.spec((128,), "bf16"), activation="relu", **scales, gpu="H200")
    assert found.problem.epilogue.expression.recipe == "row"
    assert found.problem.out.dtype.name == "bf16"
    assert tw.explain(a, b, fast_accumulation=True, gpu="H200").problem.fast_accumulation


def test_zero_points_and_a_scale_of_the_result_are_explained():
    scales = {"recipe": "tensor", "scale_a": tw.spec((), "fp32"), "scale_b": tw.spec((), "fp32"), "gpu": "H200"}
    a, b = tw.spec((256, 128), "int8"), tw.spec((128, 256), "int8", (1, 128))
    found = tw.explain(a, b, zero_a=tw.spec((256, 1), "int32"), **scales)
    assert "zero_a" in found.problem.epilogue.expression.operands
    a, b = tw.spec((256, 128), "fp8_e4m3"), tw.spec((128, 256), "fp8_e4m3", (1, 128))
    found = tw.explain(a, b, scale_out=tw.spec((), "fp32"), out_dtype="fp8_e4m3", **scales)
    assert "scale_out" in found.problem.epilogue.expression.operands


def test_explain_takes_what_of_plan_decides_about_a_product():
    of_plan, own = (set(signature(function).parameters) for function in (tw.plan, tw.explain))
    assert of_plan - own == {"backend", "stream", "tune", "m"}
    assert own - of_plan == {"gpu"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: explained(8, 8, 0), ["a has shape (8, 0) and b (0, 8), so there are no sums", "extents of 1 or more"]),
        (lambda: explained(8, 8, 8, gpu="V99"), ["gpu='V99' is unknown: use A100", "H800, H20"]),
        (lambda: explained(8, 8, 8, "fp32", gpu="V99"), ["gpu='V99' is unknown: use A100", "H200", "B200"]),
        (lambda: explained(8, 8, 8, gpu="V100"), ["gpu=V100 is sm_70", "need sm_80: use A100, RTX-4090, H100-SXM"]),
        (lambda: explained(8, 8, 8, gpu="B200"), ["by tcgen05 alone, which no kernel uses: use A100,", ", or fp32"]),
        (lambda: explained(8, 8, 8, "fp8_e4m3", gpu="A100"), ["mma needs tensor cores for fp8"]),
        (lambda: tw.spec((8, -1), "bf16"), ["shape=(8, -1)", "negative"]),
        (lambda: tw.spec((8, 8), "bf16", (8,)), ["strides=(8,)", "one each"]),
        (lambda: tw.spec(8, "bf16"), ["shape=8", "tuple"]),
        (lambda: tw.spec((8, 8), "int9"), ["dtype=int9"]),
        (lambda: explained(8, 8, 8, kernel="nope"), ["kernel='nope'"]),
    ],
)
def test_faults_are_explained(call, words):
    with pytest.raises(tw.TilewrightError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


def test_the_command_prints_the_screen_or_the_record():
    shown = invoke("explain", 64, 4096, 4096, "--gpu", "h20", "--layout", "nn").stdout
    assert shown == f"{explained(64, 4096, 4096, layout='nn', gpu='H20')}\n"
    record = in_json("explain", 64, 4096, 4096, "--gpu", "h20", "--layout", "nn")
    assert text(record) == shown.rstrip("\n")


@pytest.mark.parametrize("command", ["explain", "report"])
def test_a_command_about_sums_wants_some(command):
    message = "tilewright: M N K are (200, 200, 0), so there are no sums: give extents of 1 or more\n"
    assert error(command, 200, 200, 0) == message


def test_the_command_takes_a_config_and_an_epilogue():
    record = in_json(
        "explain", 64, 128, 96, "--batch", 3, "--config", "tile_m=128,tile_n=64,stages=4,tile_k=64", "--epilogue",
        "gelu(acc + bias)", "--operand", "bias=n", "--outputs", "acc", "--gpu", "H200",
    )  # fmt: skip
    assert record["batch"] == [3]
    assert (record["config"]["tile_m"], record["config"]["tile_n"]) == (128, 64)
    assert "tile_p" in error("explain", 64, 64, 64, "--config", "tile_p=3")


@pytest.mark.parametrize(
    ("field", "remedy"),
    [("swap_ab=true", "split_k, or take kernel gemv, which has it"), ("stages=3", "split_k"), ("tile_p=3", "split_k")],
)
def test_a_field_of_another_kernel_names_those_that_take_the_product(field, remedy):
    words = ("explain", 64, 64, 64, "--gpu", "H200", "--dtype", "fp32", "--kernel", "simt", "--config")
    assert error(*words, field).endswith(f"group_m, {remedy}\n")


def test_the_stages_of_a_config_follow_from_its_tile_unless_they_are_named():
    words = ("explain", 64, 64, 64, "--gpu", "H200", "--config")
    assert in_json(*words, "tile_m=128,tile_n=128")["config"]["stages"] == 7
    assert in_json(*words, "tile_m=128,tile_n=128,stages=3")["config"]["stages"] == 3
    assert "take fewer stages" in error(*words, "tile_m=128,tile_n=128,stages=8")
    assert "breaks the rule" in error(*words, "tile_m=100")
    large = in_json(*words[:4], "--gpu", "A100", "--config", "tile_m=128,tile_n=256,tile_k=64,warps_n=4")
    assert large["config"]["stages"] == 3


def test_fields_of_a_config_that_its_others_do_not_fit_get_the_best_config_that_has_them():
    words = ("explain", 300, 1500, 14000, "--gpu", "H200")
    assert in_json(*words)["config"]["cluster_n"] == 2  # which leaves room for four parts of k
    found = in_json(*words, "--config", "split_k=8,tile_m=64,tile_n=64")["config"]
    assert (found["tile_m"], found["tile_n"], found["split_k"], found["cluster_n"]) == (64, 64, 8, 1)
    assert "a cluster has up to eight CTAs" in error(*words, "--config", "split_k=3,cluster_m=4")


def test_fields_that_no_config_of_the_planner_has_get_the_others_of_one_that_they_fit():
    by_turns = in_json("explain", 100, 512, 1024, "--gpu", "H200", "--config", "tile_m=64,tile_n=64,ping_pong=true")
    assert by_turns["config"]["ping_pong"] is True
    words = ("explain", 4096, 4096, 4096, "--gpu", "H200", "--dtype", "fp8_e4m3", "--recipe", "row")
    promoted = in_json(*words, "--config", "tile_m=192,tile_n=64,ping_pong=true")["config"]
    assert (promoted["ping_pong"], promoted["overlap"]) == (True, False)
    words = ("explain", 4096, 4096, 4096, "--gpu", "H200", "--dtype", "int8")  # whose out of int32 TMA does not store
    found = in_json(*words, "--config", "tile_n=8,cluster_m=4")["config"]
    assert (found["tile_n"], found["cluster_m"], found["epilogue"]) == (8, 4, "direct")


@pytest.mark.parametrize(("added", "rule"), [
    ("split_k=2", "ping_pong=True, split_k=2"), ("stages=9", "of shared memory"), ("wait_depth=5", "wait_depth=5"),
])  # fmt: skip
def test_an_error_names_the_rule_that_the_given_fields_break(added, rule):
    words = ("explain", 2976, 1776, 720, "--gpu", "H200", "--config")
    assert rule in error(*words, f"tile_m=192,tile_n=128,ping_pong=true,{added}")


def test_ctas_that_split_k_make_one_tile():
    found = explained(300, 1500, 14000, "bf16", "nt", "H200")
    assert found.config.split_k == 4
    assert "24 of 128x160, 4 CTAs each, in 1 wave of 120 CTAs: 20.0% of the places are empty" in str(found)


def test_a_gpu_has_the_name_that_its_driver_gives_it():
    assert explained(64, 64, 64, gpu="NVIDIA H100 80GB HBM3").gpu == "H100-SXM"
    assert explained(64, 64, 64, gpu="NVIDIA GeForce RTX 4090").gpu == "RTX-4090"
    for name in ("NVIDIA GeForce RTX 3090", "NVIDIA L40S", "H100 80GB HBM3"):
        with pytest.raises(ValueError, match="is unknown"):
            explained(64, 64, 64, gpu=name)


def test_a_rung_that_the_model_does_not_know_is_explained_as_far_as_it_goes():
    found = explained(1024, 1024, 1024, "fp32", "nn", kernel="smem_tiles")
    assert found.time is None
    assert found.levels[-1].name == "SMEM"
    assert "does not know smem_tiles" in str(found)


@pytest.mark.parametrize(("gpu", "dtype", "kernel"), [("RTX 4090", "bf16", "mma"), ("B200", "fp32", "simt")])
def test_gpus_that_only_the_models_know_are_explained(gpu, dtype, kernel):
    found = explained(1024, 1024, 1024, dtype, gpu=gpu)
    assert (found.kernel, found.gpu) == (kernel, gpu.replace(" ", "-"))
    assert 0 < found.light.seconds < found.time.seconds < 100 * found.light.seconds


def test_a_missing_operand_is_named():
    with pytest.raises(ArgumentTypeError, match="b is a NoneType"):
        tw.explain(tw.spec((64, 64), "bf16"), None)


def test_operands_of_any_size_are_explained():
    """The imagined addresses of larger ones are not nearer, and nothing is allocated."""
    found = tw.explain(tw.spec((2**30, 2**14), "bf16"), tw.spec((2**14, 64), "bf16"), gpu="H200")
    assert found.problem.m == 2**30
    assert explained(10**7, 10**6, 16).problem.out.row_stride == 10**6


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((10**6,) * 3, ["the product of a and b is too large for wgmma", "the planner chose: it gives each CTA",
                        "split the product"]),
        ((10**12, 16, 10), ["m is 1000000000000 and at most", "split the product"]),
        ((10**13,) * 3, ["shape=(10000000000000, 10000000000000)", "addresses reach", "smaller extents"]),
    ],
)  # fmt: skip
def test_products_beyond_all_limits_are_refused_without_a_word_of_a_config(shape, words):
    said = error("explain", *shape, "--gpu", "H200")
    assert all(word in said for word in words)
    assert "--config" not in said


def test_a_config_beyond_a_limit_is_named_as_the_argument():
    config = WgmmaConfig(tile_m=256, tile_n=208, stages=3, group_m=9, epilogue="direct")
    with pytest.raises(tw.ConfigError, match=r"^config: it gives each CTA .* split the product"):
        explained(10**6, 10**6, 10**6, config=config)
