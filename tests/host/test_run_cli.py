"""`tilewright run`: what it multiplies, verifies, counts and predicts."""

import subprocess
import sys

import pytest

from support.commands import error, in_json, invoke
from tilewright.checking.product import Product
from tilewright.cli.run import _paced
from tilewright.dtypes import bf16
from tilewright.explaining.explanation import product_record
from tilewright.reference import Comparison


def test_run_verifies_counts_and_predicts():
    record = in_json("run", 96, 72, 40, "--backend", "emulator", "--bias", "--activation", "relu", "--seed", 3)
    assert record["verified"] is True
    assert 0 < record["relative_error"] <= record["error_bound"]
    assert (record["m"], record["n"], record["k"]) == (96, 72, 40)
    assert (record["dtype"], record["layout"], record["backend"]) == ("bf16", "nt", "emulator")
    assert record["config"]["tile_m"] > 0
    assert record["kernel"] in record["reason"]
    assert record["checked_elements"] == record["total_elements"] == 96 * 72
    assert record["counters"]["tensor_flops"] >= 2 * 96 * 72 * 40
    assert record["predicted_time_us"] > 0
    assert record["predicted_tflops"] == pytest.approx(2 * 96 * 72 * 40 / record["predicted_time_us"] / 1e6)
    assert "time_us" not in record


def test_run_takes_fields_of_a_config_also_of_a_kernel_that_copies():
    record = in_json(
        "run", 40, 72, 33, "--gpu", "H200", "--kernel", "wgmma", "--config", "tile_m=64,tile_n=32,stages=3"
    )
    assert (record["verified"], record["kernel"]) == (True, "wgmma")
    assert [record["config"][name] for name in ("tile_m", "tile_n", "stages")] == [64, 32, 3]
    assert record["reason"].startswith("wgmma: asked for by config=; each call copies a and b")
    small = ("run", 40, 72, 64, "--gpu", "H200", "--config")
    pasted = in_json(*small, "WgmmaConfig(tile_m=64, tile_n=24, epilogue='direct')")["config"]
    assert [pasted[name] for name in ("tile_m", "tile_n", "epilogue")] == [64, 24, "direct"]
    assert "--config='stages=3,' is no list of fields: write NAME=VALUE" in error(*small, "stages=3,")
    assert "--config='stages=3,stages=4' has stages twice" in error(*small, "stages=3,stages=4")
    assert "breaks the rule" in error(*small, "tile_m=100")
    apart = in_json(*small, "WgmmaConfig(tile_m=64, tile_n=24)", "--config", "epilogue=direct")["config"]
    assert apart == pasted
    assert "--config='stages=3,stages=4' has stages twice" in error(*small, "stages=3", "--config", "stages=4")
    usual = ("explain", 4096, 4096, 4096, "--gpu", "H200")
    choice, banded = in_json(*usual)["config"], in_json(*usual, "--config", "group_m=7")["config"]
    assert banded == choice | {"group_m": 7}
    wide = ("explain", 224, 4097, 4096, "--dtype", "fp8", "--gpu", "H200", "--config")
    alone = in_json(*wide, "tile_m=128,tile_n=72")  # the planner's choice has clusters of four
    assert alone["predicted_time_us"] == in_json(*wide, "tile_m=128,tile_n=72,cluster_m=1")["predicted_time_us"]
    assert "--config='' is no list of fields" in error(*small, "")
    assert "kernel 'wgmma' has WgmmaConfig: give fields of that, or take kernel mma\n" in error(
        *small, "MmaConfig(tile_m=64)"
    )
    assert "--config='stages=٣' is no value of stages" in error(*small, "stages=٣")
    assert "none runs without elements of out: leave it out" in error("run", 0, 72, 64, *small[4:], "stages=3")
    no_fields = error("run", 64, 64, 64, "--gpu", "H200", "--kernel", "wgmma_basic", "--config", "tile_m=64")
    assert no_fields.endswith("is no field of a Config of kernel 'wgmma_basic': it has none, so leave --config out\n")


@pytest.mark.parametrize(
    ("gpu", "options", "named", "kernel"),
    [
        ("A100", (), "A100", "mma"),
        ("H100", (), "H100-SXM", "wgmma"),
        ("rtx-4090", ("--dtype", "fp8_e4m3", "--fast-accumulation"), "RTX-4090", "mma"),
    ],
)
def test_run_emulates_the_gpu_that_is_named(gpu, options, named, kernel):
    record = in_json("run", 96, 72, 48, "--gpu", gpu, *options)
    assert (record["verified"], record["backend"], record["gpu"], record["kernel"]) == (True, "emulator", named, kernel)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpu", "A100", "--backend", "gpu"), "--gpu='A100' says which GPU is emulated, and --backend gpu takes"),
        (("--gpu", "V100"), "--gpu=V100 is sm_70, and tilewright's kernels need sm_80: use A100"),
    ],
)
def test_a_gpu_that_cannot_be_emulated_is_refused(options, message):
    assert message in error("run", 64, 64, 64, *options)


@pytest.mark.parametrize(("kernel", "dtype"), [("simt", "fp32"), ("warp_tiles", "fp32"), ("volta_mma", "fp16")])
@pytest.mark.parametrize("command", ["run", "explain"])
def test_an_error_about_the_default_type_says_that_it_is_the_default(command, kernel, dtype):
    words = (command, 64, 64, 64, "--gpu", "H200", "--kernel", kernel)
    message = f"--kernel='{kernel}' does not multiply bf16, the default of --dtype: give --dtype {dtype}\n"
    assert error(*words) == f"tilewright: {message}"
    assert "the default" not in error(*words, "--dtype", "bf16")


def test_run_counts_a_tile_once_however_many_ctas_sum_its_parts():
    words = ("run", 100, 512, 1024, "--gpu", "H200", "--config", "tile_m=64,tile_n=64,tile_k=64,cluster_m=1")
    assert "because    tiles 16 of 2 CTAs each, waves 1 " in invoke(*words, "--config", "split_k=2").stdout
    assert "because    tiles 16, waves 1 " in invoke(*words, "--config", "split_k=1").stdout


@pytest.mark.parametrize(("k", "layout"), [(128, "tt"), (1089, "nt"), (1089, "nn")])
def test_run_and_explain_plan_one_row_alike(k, layout):
    options = (1, 229, k, "--layout", layout, "--gpu", "H200")
    run, explained = in_json("run", *options, "--backend", "emulator"), in_json("explain", *options)
    for name in ("kernel", "config", "predicted_time_us", "reason"):
        assert run[name] == explained[name]
    assert run["reason"].endswith("; for comparison, a published decision tree would take a GEMV, since m or n is 1")


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_run_multiplies_every_layout(layout):
    record = in_json("run", 37, 41, 29, "--backend", "emulator", "--kernel", "mma", "--layout", layout)
    assert record["verified"] is True
    assert record["layout"] == layout
    assert record["kernel"] == "mma"


@pytest.mark.parametrize(("kernel", "layout", "dtype"), [("wgmma_basic", "nt", "bf16"), ("warp_tiles", "nn", "fp32")])
def test_rungs_are_run_without_a_prediction(kernel, layout, dtype):
    options = ("--backend", "emulator", "--kernel", kernel, "--layout", layout, "--dtype", dtype)
    record = in_json("run", 128, 128, 64, *options)
    assert (record["verified"], record["kernel"]) == (True, kernel)
    assert "predicted_time_us" not in record


@pytest.mark.parametrize(
    ("options", "kernel", "out_dtype"),
    [
        (("--dtype", "fp8_e4m3", "--recipe", "row", "--bias", "--activation", "relu"), "wgmma", "bf16"),
        (("--dtype", "fp8_e4m3", "--b-dtype", "fp8_e5m2", "--recipe", "tensor", "--kernel", "mma"), "mma", "bf16"),
        (("--dtype", "int8"), "wgmma", "int32"),
        (("--dtype", "int8", "--recipe", "row", "--out-dtype", "fp32", "--outputs", "acc,amax"), "wgmma", "fp32"),
        (("--dtype", "fp8_e5m2", "--fast-accumulation", "--tensor-cores", "hardware"), "wgmma", "bf16"),
        (
            (
                "--dtype",
                "fp8_e4m3",
                "--recipe",
                "tensor",
                "--out-dtype",
                "fp8_e4m3",
                "--outputs",
                "amax,acc,column_sums",
            ),
            "wgmma",
            "fp8_e4m3",
        ),
        (("--dtype", "fp8_e4m3", "--out-dtype", "fp8_e5m2", "--bias", "--activation", "relu"), "wgmma", "fp8_e5m2"),
    ],
)
def test_run_multiplies_codes_with_and_without_scales(options, kernel, out_dtype):
    record = in_json("run", 40, 48, 160, "--backend", "emulator", *options)
    assert (record["verified"], record["kernel"], record["out_dtype"]) == (True, kernel, out_dtype)
    named = dict(zip(options[::2], options[1::2], strict=False))
    assert record["dtype"] == named["--dtype"]
    assert record["b_dtype"] == named.get("--b-dtype", record["dtype"])
    assert record["recipe"] == named.get("--recipe")
    assert record["fast_accumulation"] is ("--fast-accumulation" in options)
    assert record["counters"]["tensor_flops"] >= 2 * 40 * 48 * 160


@pytest.mark.parametrize("kernel", ["wgmma", "mma"])
@pytest.mark.parametrize("more", [(), ("--outputs", "acc,column_sums"), ("--gate", "stacked", "--activation", "silu")])
def test_run_gives_rows_of_codes_zero_points(kernel, more):
    options = ("--dtype", "int8", "--recipe", "row", "--zero-a", "--kernel", kernel, "--backend", "emulator")
    record = in_json("run", 40, 48, 160, *options, *more)
    assert (record["verified"], record["kernel"], record["zero_a"]) == (True, kernel, True)


@pytest.mark.parametrize(("dtype", "recipe"), [("int8", ()), ("fp8_e4m3", ("--recipe", "row"))])
def test_run_refuses_zero_points_of_others(dtype, recipe):
    assert "--zero-a=True is for int8 beside scales" in error("run", 8, 8, 8, "--dtype", dtype, *recipe, "--zero-a")


@pytest.mark.parametrize("command", ["run", "explain", "bench", "compile"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--recipe", "row"), "--recipe='row' is not for bf16, which a is: leave it out"),
        (("--dtype", "int8", "--recipe", "1x128_1x128"), "--recipe='1x128_1x128' is not for int8"),
        (("--dtype", "int8", "--fast-accumulation"), "--fast-accumulation=True is for sums of fp8"),
        (("--b-dtype", "fp16"), "--b-dtype=fp16 is not multiplied by bf16, a's type here: give --dtype, too"),
        (("--dtype", "fp8_e4m3", "--b-dtype", "int8"), "--dtype is fp8_e4m3 and b is int8: beside this a, b must be"),
        (("--dtype", "int8", "--recipe", "row", "--out-dtype", "int32"), "--out-dtype is int32, and a product of int8"),
    ],
)
def test_elements_that_do_not_go_together_are_refused_with_their_options(command, options, said):
    shape = ("--shape", "32,32,256") if command in ("bench", "compile") else (32, 32, 256)
    gpu = ("--gpu", "H200") if command == "compile" else ()
    assert said in error(command, *shape, *gpu, *options)


def test_bench_refuses_results_of_fp8():
    options = ("--dtype", "fp8_e4m3", "--out-dtype", "fp8_e5m2")
    assert "--out-dtype=fp8_e5m2 has a scale, which peers take" in error("bench", "--shape", "32,32,256", *options)


def test_run_verifies_further_outputs():
    options = ("--backend", "emulator", "--outputs", "amax,acc, column_sums")
    for more in ((), ("--gate", "stacked", "--activation", "silu"), ("--epilogue", "acc - b", "--operand", "b=n")):
        record = in_json("run", 37, 46, 29, *options, *more)
        assert record["verified"] is True
        assert record["outputs"] == ["acc", "amax", "column_sums"]
    message = error("run", 8, 8, 8, "--outputs", "acc,sums")
    assert "--outputs has the output 'sums', which is unknown: use acc, amax, column_sums" in message
    record = in_json("run", 9, 8, 7, "--backend", "emulator", "--outputs", "amax", "--outputs", "acc")
    assert record["outputs"] == ["acc", "amax"]
    message = error("run", 8, 8, 8, "--outputs", "amax,acc", "--outputs", "amax")
    assert "--outputs has the output 'amax' twice: give each once" in message


def test_run_tells_people_the_same():
    text = invoke("run", 64, 64, 64, "--backend", "emulator", "--dtype", "fp16", "--out-dtype", "fp32").stdout
    assert "64x64x64 fp16 nt -> fp32" in text
    assert "right: relative error" in text
    assert "over all 4,096 elements" in " ".join(text.split())
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "tensor flops" in text


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--bias", "--activation", "gelu", "--layout", "tn"),
        ("--epilogue", "acc * s + r", "--operand", "s=m,1", "--operand", "r=m,n", "--batch-invariant"),
        ("--gate", "stacked", "--activation", "silu", "--outputs", "acc,amax,column_sums"),
        ("--dtype", "fp8_e4m3", "--recipe", "1x128_128x128", "--bias"),
        ("--dtype", "int8", "--recipe", "row", "--zero-a"),
    ],
)
def test_run_multiplies_batches(options):
    given = (70, 50, 160, "--batch", 3, *options)
    record = in_json("run", *given, "--backend", "emulator")
    assert record["verified"] is True
    assert (record["batch"], record["batch_invariant"]) == ([3], "--batch-invariant" in options)
    columns = 25 if "--gate" in options else 50
    assert record["checked_elements"] == record["total_elements"] == 3 * 70 * columns
    explained = in_json("explain", *given, "--gpu", "H200")
    assert explained["product"].startswith("3 of 70x50x160 ")
    for name in ("kernel", "config", "predicted_time_us", "reason"):
        assert record[name] == explained[name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), {"epilogue": "acc", "batch_count": 1, "gate": None, "outputs": [], "zero_a": False}),
        (("--bias", "--activation", "relu", "--batch", 3), {"epilogue": "relu(acc + bias)", "batch_count": 3}),
        (("--epilogue", "acc*s", "--operand", "s=m,1", "--batch-invariant"), {"epilogue": "acc*s"}),
        (("--gate", "stacked", "--outputs", "acc,amax"), {"gate": "stacked", "outputs": ["acc", "amax"]}),
        (("--dtype", "int8", "--recipe", "row", "--zero-a"), {"zero_a": True, "out_dtype": "bf16"}),
    ],
)  # fmt: skip
def test_run_and_explain_name_a_product_alike(options, said):
    run, explained = (in_json(command, 70, 50, 160, "--gpu", "H200", *options) for command in ("run", "explain"))
    names = product_record(Product(1, 1, 1, bf16, bf16).problem)
    assert {name: run[name] for name in names} == {name: explained[name] for name in names}
    assert {name: run[name] for name in said} == said


def test_run_of_rows_that_do_not_depend_on_each_other_splits_no_k():
    options = (16, 64, 4096, "--backend", "emulator")
    assert in_json("run", *options)["config"]["split_k"] > 1
    assert in_json("run", *options, "--batch-invariant")["config"]["split_k"] == 1
    message = error("run", *options, "--batch-invariant", "--config", "split_k=2")
    assert "it splits k, and with batch_invariant=True all rows are summed in one order" in message


def test_run_says_what_part_of_a_sampled_product_it_compared(monkeypatch):
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(True, 0.001, 0.002, 9))
    record = in_json("run", 16, 16, 16, "--backend", "emulator")
    assert (record["checked_elements"], record["total_elements"]) == (9, 256)
    text = invoke("run", 16, 16, 16, "--backend", "emulator").stdout
    assert "over 9 of 256 elements (sampled rows and columns)" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((64, 48, 64, "--epilogue", "log(acc)", "--outputs", "amax"), "over all 3,072 elements (1,491 of them must be"),
        ((64, 48, 64, "--epilogue", "acc*1e38"), "1,995 of them must be Inf or NaN; 4 left out, which may overflow"),
        ((64, 64, 64, "--epilogue", "acc/0", "--outputs", "amax,column_sums"), "Inf or NaN as in float64, over all"),
        ((64, 64, 64, "--dtype", "fp16", "--epilogue", "acc*5e3", "--outputs", "column_sums"), "must be Inf or NaN"),
        ((64, 48, 64, "--epilogue", "exp(exp(acc))", "--outputs", "amax,acc"), "must be Inf or NaN"),
    ],
)
def test_results_that_overflow_or_are_nan_are_right(options, said):
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", *map(str, options), "--backend", "emulator"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("result")]
    assert "right: " in line
    assert said in line
    assert "sampled" not in line


def test_run_does_not_call_verified_what_it_cannot_compare():
    options = (16, 16, 16, "--backend", "emulator", "--epilogue", "sqrt(acc*0)", "--outputs", "amax")
    record = in_json("run", *options, code=1)
    assert (record["verified"], record["checked_elements"], record["uncertain_elements"]) == (None, 0, 256)
    text = " ".join(invoke("run", *options, code=1).stdout.split())
    assert "not verified: each of 256 elements may overflow or be NaN, so that none can be compared" in text


def test_run_without_a_shape_says_that_it_multiplied_a_smaller_one():
    text = invoke("run", "--backend", "emulator").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("smaller")]
    assert "4096x4096x4096" in line
    assert "1024x1024x1024 bf16 nt -> bf16, in the emulator" in text
    assert "smaller" not in invoke("run", 64, 64, 64, "--backend", "emulator").stdout


def test_run_of_an_empty_product_runs_no_kernel():
    record = in_json("run", 0, 8, 8, "--backend", "emulator")
    assert record["verified"] is True
    assert record["kernel"] is None


def test_a_wrong_product_exits_with_1(monkeypatch):
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, 0.5, 0.001, 9))
    assert in_json("run", 16, 16, 16, "--backend", "emulator", code=1)["verified"] is False
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, float("nan"), 0.001, 9))
    assert in_json("run", 16, 16, 16, "--backend", "emulator", code=1)["relative_error"] is None
    assert "WRONG" in invoke("run", 16, 16, 16, "--backend", "emulator", code=1).stdout


def test_a_product_without_a_sum_has_no_rate():
    text = invoke("run", 5, 5, 0, "--backend", "emulator").stdout
    assert "right: relative error 0.00e+00 against float64, over all 25 elements" in text
    assert not any(word in text for word in ("bound", "TFLOP/s", "useful"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [("--dtype", "int8"), ("--gate", "stacked")])
def test_other_kernels_than_copy_may_have_no_sums_and_a_time(options):
    record = in_json("run", 5, 6, 0, *options, "--backend", "emulator")
    assert record["kernel"] != "copy"
    assert 0 < record["predicted_time_us"] < 10


@pytest.mark.parametrize(("launches", "shown"), [(1, [0, 0.25, 0.4, 0.6]), (2, [0, 0.25, 0.25, 0.5])])
def test_the_bar_of_an_emulation_goes_on_by_time_while_no_cta_ends(monkeypatch, launches, shown):
    now, bars = [100.0], []
    monkeypatch.setattr("tilewright.cli.run.time.monotonic", lambda: now[0])
    told = _paced(bars.append, 8.0, launches)
    for second, share in ((0, 0.0), (2, 0.0), (2, 0.4), (4, 0.6), (6.4, 0.7), (8, 0.7), (30, 0.9)):
        now[0] = 100.0 + second
        told(share)
    assert bars[:4] == shown
    assert bars[4] == pytest.approx(0.8)
    assert bars[4] < bars[5] < bars[6] < 1


def test_run_says_once_why_another_kernel_does_not_take_it():
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", "24", "24", "7", "--backend", "emulator"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.count("wgmma would copy a and b first") == 1
